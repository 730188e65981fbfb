"""Finds pods that prevent a bind: they may run on the Node although no job of their own holds it.

Sends no requests and waits for nothing: it uses the pods that the watch has shown, and what Slurm
has said about their jobs since our job was seen to run. Of our pods on the Nodes in question, only
those are judged that were not covered before, or whose jobs have changed since.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from enum import Enum, auto, unique
from functools import cache
from typing import Final

from msgspec.structs import replace

from scheduler.core.in_the_way import InWay, patience
from scheduler.core.owner_tag import Owner
from scheduler.core.tagged import TaggedJob
from scheduler.nodes.covers import Cover
from scheduler.nodes.presence import CLAIM_SECONDS, Presence
from scheduler.state.units import Placeholder, Unit, Units
from slurmapi import BaseState


@unique
class _Standing(Enum):
    COVERED = auto()
    UNCOVERED = auto()
    UNKNOWN = auto()
    STALE = auto()
    """It was covered, but Slurm has not said so since our job runs."""


class _Behind:
    """The Node behind each Slurm node, and the reverse for each job. Both are found once for all
    pods of a question: a gang may have a thousand pods on as many nodes.
    """

    def __init__(self, kube_node: Callable[[str], str]) -> None:
        self.kube_node = cache(kube_node)
        self._slurm_nodes: dict[int, dict[str, str]] = {}

    def slurm_node(self, record: TaggedJob, node: str) -> str | None:
        """The first of the job's nodes that this Node is behind; None if it is behind none."""
        found = self._slurm_nodes.get(id(record))
        if found is None:
            backwards = reversed(record.nodes)
            found = {self.kube_node(slurm_node): slurm_node for slurm_node in backwards}
            self._slurm_nodes[id(record)] = found
        return found.get(node)


_IN_THE_WAY: Final = (_Standing.UNCOVERED,)
_MAY_BE_IN_THE_WAY: Final = (_Standing.UNKNOWN, _Standing.STALE)


class Coverage:
    """Knows the pods of all units on each Node, and which of them have a job that holds it."""

    def __init__(
        self,
        *,
        units: Units,
        presence: Presence,
        owner: Owner,
        kube_node: Callable[[str], str],
        keeps_suspended: bool,
        clock: Callable[[], float],
        epoch: Callable[[], float],
    ) -> None:
        self._units = units
        self._presence = presence
        self._owner = owner
        self._kube_node = kube_node
        kept = {BaseState.SUSPENDED} if keeps_suspended else set()
        self._holding = frozenset({BaseState.RUNNING} | kept)
        self._clock = clock
        self._epoch = epoch
        self._claims_until = clock() + CLAIM_SECONDS

    def begin(self) -> None:
        """Note that this process has begun to lead: another process has bound the pods that
        exist.
        """
        self._claims_until = self._clock() + CLAIM_SECONDS

    def saw(self, unit: Unit) -> None:
        """The unit may have changed: note whether its pods are covered on their Nodes."""
        job, now, behind = unit.job, self._clock(), _Behind(self._kube_node)
        for pod in unit.pods:
            node = self._presence.node_of(pod.uid)
            if node is None:
                continue
            record = None if job is None else job.record
            if pod.seen.bound_by_us or (
                record is not None and self._is_for(pod.uid, record, node, behind)
            ):
                self._presence.prove(pod.uid)
            self._standing(pod.uid, node, now, behind=behind)

    def in_way(self, unit: Unit, kube_nodes: Iterable[str]) -> InWay | None:
        """Which pods prevent binding the unit's pod to these Nodes; None if there are none."""
        job = unit.job
        if job is None or job.runs_from is None:
            return None
        now, behind = self._clock(), _Behind(self._kube_node)
        # A pod that its author has bound, with our annotations on it, delays others for a short
        # time only. Later those count that we bound, as far as we know.
        proven = now >= self._claims_until
        wanted = frozenset(kube_nodes)
        covered = self._still_covered(wanted, behind.kube_node, beside=job)
        here = self._presence.on(wanted, has_job=self._has_job, proven=proven, but=covered)
        for pod in unit.pods:
            # A pod of a gang that was deleted by force may still run where another one comes now.
            if self._presence.left_by(pod.uid) is None:
                here.pop(pod.uid, None)
        standings = {}
        for uid, node in here.items():
            found = self._standing(uid, node, now, behind=behind, beside=job)
            if found is not _Standing.COVERED:
                standings[uid] = found
        for sure, kinds in (True, _IN_THE_WAY), (False, _MAY_BE_IN_THE_WAY):
            those = [uid for uid, it in standings.items() if it in kinds]
            if those:
                targets = frozenset(here[uid] for uid in those)
                return replace(self._in_way_of(unit, those, standings, sure=sure), targets=targets)
        return None

    def _still_covered(
        self, nodes: Iterable[str], kube_node: Callable[[str], str], *, beside: Placeholder
    ) -> AbstractSet[str]:
        """Those of the pods on these Nodes that were covered when this was last asked, by jobs that
        are as they were then and that Slurm has said to hold their place since `beside` runs.
        """
        if self._units.silent:
            return frozenset()
        covers, units = self._presence.covers, self._units.by_pod
        found = set[str]()
        for node in nodes:
            found |= covers.valid(node, units=units, kube_node=kube_node, beside=beside)
        return found

    def _standing(
        self,
        uid: str,
        node: str,
        now: float,
        *,
        behind: _Behind,
        beside: Placeholder | None = None,
    ) -> _Standing:
        unit, presence = self._units.of_pod(uid), self._presence
        if unit is None and presence.left_by(uid) is not None:
            presence.uncovered_since(uid, now)
            return _Standing.UNCOVERED  # the pod is gone, and so is its job
        if unit is None or self._units.silent:
            presence.uncovered_since(uid, now)
            return _Standing.UNKNOWN
        job = unit.job
        if job is None:
            presence.uncovered_since(uid, now)
            return _Standing.UNCOVERED if unit.doubt_since is None else _Standing.UNKNOWN
        found = self._by_job(job, uid, node, behind)
        if not isinstance(found, Cover):
            presence.uncovered_since(uid, now)
            return found
        presence.covered(uid, found)
        stale = beside is not None and not job.ran_beside(beside)
        return _Standing.STALE if stale else _Standing.COVERED

    def _by_job(self, job: Placeholder, uid: str, node: str, behind: _Behind) -> Cover | _Standing:
        if job.missing:
            return _Standing.UNCOVERED
        state, record = job.state, job.record
        if state is None:
            return _Standing.UNKNOWN
        if state.base not in self._holding:
            return _Standing.UNCOVERED
        if record is None or record.state.base not in self._holding:
            return _Standing.UNKNOWN  # the next look shows where it runs
        slurm_node = behind.slurm_node(record, node)
        if slurm_node is None or not job.is_for(uid, owner=self._owner):
            return _Standing.UNCOVERED
        return Cover(node, slurm_node, job, job.edition)

    def _is_for(self, uid: str, record: TaggedJob, node: str, behind: _Behind) -> bool:
        """Whether that look showed that this is our job for that pod, and that it is on that
        Node.
        """
        on_it = behind.slurm_node(record, node) is not None
        return on_it and record.seats(uid, owner=self._owner)

    def _has_job(self, uid: str) -> bool:
        unit = self._units.of_pod(uid)
        return unit is not None and unit.job is not None

    def _in_way_of(
        self, unit: Unit, found: Collection[str], standings: Mapping[str, _Standing], *, sure: bool
    ) -> InWay:
        now = self._clock()
        stale = {uid for uid in found if standings[uid] is _Standing.STALE}
        known = {
            uid: now if uid in stale else self._presence.uncovered_since(uid, now) for uid in found
        }
        until = max(since + patience(self._leaves_in(uid, since)) for uid, since in known.items())
        since = min(known.values())
        return InWay(
            self._public_name(found, namespace=unit.namespace),
            since=since,
            since_epoch=self._epoch() - (now - since),
            until=until,
            more=len(found) - 1,
            sure=sure,
        )

    def _leaves_in(self, uid: str, since: float) -> float:
        """Seconds from `since` until a departing pod, or what a vanished pod left, must have
        stopped; 0 for other pods.
        """
        left = self._presence.left_by(uid)
        if left is not None:
            return left.until - since
        leaves_at = self._presence.leaves_at(uid)
        if leaves_at is None:
            return 0.0
        now = datetime.fromtimestamp(self._epoch(), UTC)
        return (leaves_at - now).total_seconds() + self._clock() - since

    def _public_name(self, uids: Collection[str], *, namespace: str) -> str:
        """The pod's name if it is in the same namespace; other pods' names must not be shown."""
        names = sorted(it for uid in uids if (it := self._name(uid, namespace)))
        return names[0] if names else "a pod of another namespace"

    def _name(self, uid: str, namespace: str) -> str:
        """What a message in that namespace calls the pod, as the subject of "may still run".
        Empty if the pod is in another namespace or not known.
        """
        left, unit = self._presence.left_by(uid), self._units.of_pod(uid)
        if left is not None:
            own = left.namespace == namespace
            return f"pod {left.name}, deleted before its containers had stopped," if own else ""
        return f"pod {unit.name}" if unit is not None and unit.namespace == namespace else ""
