"""Decides about the handover: may the processes of the next job start on these nodes?

A pod is in the way while its containers may run on one of the nodes and Slurm no longer holds the
node for it. Evidence that Slurm still holds the node must be newer than the question. An older
answer proves nothing, because the job that starts now may have got its place from a job that ended
an instant ago.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Final

import structlog

from groundwork.pauses import in_slices
from scheduler.core.owner_tag import Owner
from scheduler.core.tagged import TaggedJob
from scheduler.hooks.job_states import FreshStates
from scheduler.nodes.presence import Presence
from scheduler.slurm.look import look, read_job
from scheduler.state.units import Placeholder, Unit, Units
from slurmapi import BaseState, JobState, SlurmClient, SlurmError, SlurmNoSuchJob

log = structlog.get_logger(__name__)

# The watch brings news of pods by itself. Slurm is asked again after this time, as long as a caller
# waits.
_AGAIN_SECONDS: Final = 2.0
_TRY_AGAIN_SECONDS: Final = 0.5
# At least so long after a look comes the next one, though pods leave: those of a gang leave one
# after the other.
_SOONEST_SECONDS: Final = 0.25


class _HeldBy:
    """The Kubernetes Nodes that jobs hold, found once for all pods of a question."""

    def __init__(self, kube_node: Callable[[str], str]) -> None:
        self._kube_node = kube_node
        self._found: dict[int, tuple[TaggedJob, frozenset[str]]] = {}

    def job(self, record: TaggedJob) -> frozenset[str]:
        """The Nodes of this job."""
        kept = self._found.get(record.job_id)
        if kept is None or kept[0] is not record:
            kept = (record, frozenset(map(self._kube_node, record.nodes)))
            self._found[record.job_id] = kept
        return kept[1]


@unique
class HandoverAnswer(StrEnum):
    """The answer to a hook."""

    FREE = "free"
    """No pod was in the way."""
    FREED = "freed"
    """A pod was in the way, and has gone."""
    BUSY = "busy"
    """A pod was still in the way at the end of the time that the caller gave."""
    UNKNOWN = "unknown"
    """There was no evidence within the time that the caller gave: the caches were not filled, or
    Slurm did not answer.
    """


@dataclass(frozen=True, slots=True)
class HandoverVerdict:
    """An answer. `pods` names the pods that were in the way last, as namespace/name."""

    answer: HandoverAnswer
    pods: tuple[str, ...] = ()


class Guard:
    """Answers as soon as no pod is in the way, or when the time that the caller gave is over.
    `gang_pods` returns the uids of the pods that the watch shows of the gang with this key; none if
    the key is that of a single pod. `ask_sooner` has Slurm asked for all states a little sooner.
    `on_change` is called with the key of a unit whose job has another state by now.
    """

    def __init__(
        self,
        client: SlurmClient,
        *,
        units: Units,
        presence: Presence,
        gang_pods: Callable[[str], Collection[str]],
        fresh: FreshStates,
        ask_sooner: Callable[[], None],
        on_change: Callable[[str], None],
        owner: Owner,
        synced: Callable[[], Awaitable[None]],
        kube_node: Callable[[str], str],
        clock: Callable[[], float],
        keeps_suspended: bool,
    ) -> None:
        self._client = client
        self._units = units
        self._presence = presence
        self._gang_pods = gang_pods
        self._fresh = fresh
        self._ask_sooner = ask_sooner
        self._on_change = on_change
        self._owner = owner
        self._synced = synced
        self._kube_node = kube_node
        self._clock = clock
        # The job that runs instead of a suspended one uses the same cores, so the pod of the
        # suspended job is in the way. If the site lets such pods stay, waiting for them would be
        # useless.
        kept = {BaseState.SUSPENDED} if keeps_suspended else set()
        self._holding = frozenset({BaseState.RUNNING} | kept)

    async def clear(
        self, job_id: int, nodes: Sequence[str], *, seconds: float, waits: bool = True
    ) -> HandoverVerdict:
        """Wait, for `seconds` at most, until the job's processes may start on these nodes. Unless
        it `waits`, a pod that is in the way is the answer at once.

        `nodes` are names of Slurm nodes. The job's own pods do not count.
        """
        own: frozenset[str] = frozenset()
        read_for: frozenset[str] = frozenset()

        async def in_way() -> frozenset[str]:
            nonlocal own, read_for
            # Translated again each time: the names of the Kubernetes Nodes are not known before the
            # caches are filled. A job may have thousands of nodes, which is too many for one turn
            # of the loop.
            targets = frozenset([self._kube_node(it) async for it in in_slices(nodes)])
            left = await self._in_way(targets)
            # A tag says the same at each look, and many jobs may wait for one pod.
            if not left <= read_for:
                own, read_for = await self._stood_for(job_id), left
            return left - own

        return await self._until_none(in_way, seconds=seconds, waits=waits)

    async def is_over(self, key: str) -> bool:
        """Whether all pods of the unit with this key are gone and have left nothing running. A
        process that does not lead cannot say more about a pod, because the leader may have bound it
        just now.
        """
        try:
            async with asyncio.timeout(_TRY_AGAIN_SECONDS):
                await self._synced()
        except TimeoutError:
            return False
        uids = self._pods_of(key)
        return not any(self._presence.knows(uid) or self._presence.node_of(uid) for uid in uids)

    async def gone(self, key: str, *, seconds: float) -> HandoverVerdict:
        """Wait, for `seconds` at most, until no container can run of the pods that the unit with
        this key has on Nodes now. Pods that come to a gang meanwhile get another job.
        """
        unit = self._units.get(key)
        if unit is not None and unit.job is not None:
            self._ask_sooner()  # the job was signalled, so it has most likely ended
        left: frozenset[str] | None = None

        async def in_way() -> frozenset[str]:
            nonlocal left
            uids = self._pods_of(key) if left is None else left
            left = frozenset(uid for uid in uids if self._presence.node_of(uid))
            return left

        return await self._until_none(in_way, seconds=seconds)

    def _pods_of(self, key: str) -> frozenset[str]:
        """The uids of the unit's pods. The key of a single pod is its uid. The watch shows a gang's
        pods before the unit exists, and the unit keeps those that were deleted by force.
        """
        unit = self._units.get(key)
        return frozenset({key, *self._gang_pods(key), *(() if unit is None else unit.uids)})

    async def _until_none(
        self,
        in_way: Callable[[], Awaitable[frozenset[str]]],
        *,
        seconds: float,
        waits: bool = True,
    ) -> HandoverVerdict:
        waited_for: frozenset[str] | None = None
        clock = asyncio.get_running_loop().time
        try:
            async with asyncio.timeout(seconds):
                await self._synced()
                while True:
                    looked_at = clock()
                    try:
                        left = await in_way()
                    except SlurmError as error:
                        log.debug("the guard cannot ask slurm", error=str(error))
                        await asyncio.sleep(_TRY_AGAIN_SECONDS)
                        continue
                    if not left:
                        return HandoverVerdict(
                            HandoverAnswer.FREED if waited_for else HandoverAnswer.FREE
                        )
                    waited_for = left
                    if not waits:
                        return self._busy(left)
                    await self._presence.one_leaves(left, seconds=_AGAIN_SECONDS)
                    await asyncio.sleep(max(0.0, looked_at + _SOONEST_SECONDS - clock()))
        except TimeoutError:
            if waited_for is None:
                return HandoverVerdict(HandoverAnswer.UNKNOWN)
            return self._busy(waited_for)

    def _busy(self, uids: frozenset[str]) -> HandoverVerdict:
        return HandoverVerdict(HandoverAnswer.BUSY, tuple(sorted(map(self._name, uids))))

    async def _in_way(self, kube_nodes: frozenset[str]) -> frozenset[str]:
        here = frozenset(self._presence.on(kube_nodes, has_job=self._has_job))
        if not here:
            return here
        states = await self._fresh.states(self._jobs_of(here))
        held_by, free = _HeldBy(self._kube_node), set[str]()
        async for uid in in_slices(here):  # a large gang, or many pods on many nodes
            if not await self._is_held(uid, states, held_by):
                free.add(uid)
        return frozenset(free)

    def _has_job(self, uid: str) -> bool:
        unit = self._units.of_pod(uid)
        return unit is not None and unit.job is not None

    def _jobs_of(self, uids: frozenset[str]) -> list[int]:
        units = (self._units.of_pod(uid) for uid in uids)
        return [unit.job.job_id for unit in units if unit is not None and unit.job is not None]

    async def _is_held(self, uid: str, states: Mapping[int, JobState], held_by: _HeldBy) -> bool:
        """Whether there is evidence that Slurm holds the pod's node for it."""
        unit = self._units.of_pod(uid)
        if unit is None or unit.job is None:
            return False
        state = states.get(unit.job.job_id)
        if state is None or state.base not in self._holding:
            return False
        return await self._holds(uid, unit, unit.job, held_by)

    async def _holds(self, uid: str, unit: Unit, job: Placeholder, held_by: _HeldBy) -> bool:
        if job.record is None or not job.believed(self._units.believed_since(self._clock())):
            former = job.state
            await look(self._client, unit, job, clock=self._clock)
            if job.state != former:
                self._on_change(unit.key)  # it is no news for the next pulse
        record = job.record
        if record is None or not job.is_for(uid, owner=self._owner):
            return False
        node = self._presence.node_of(uid)
        return node is None or node in held_by.job(record)

    async def _stood_for(self, job_id: int) -> frozenset[str]:
        """The pods of the job according to its owner tag. What a pod says about its job is no
        proof.
        """
        try:
            job = await read_job(self._client, job_id)
            if job.leader is not None:  # the tag of a heterogeneous job is on its first component
                job = await read_job(self._client, job.leader)
        except SlurmNoSuchJob:
            return frozenset()
        tag = job.tag
        ours = tag is not None and tag.owner == self._owner
        return frozenset(tag.uids if tag is not None and ours else ())

    def _name(self, uid: str) -> str:
        known = self._units.of_pod(uid) or self._presence.left_by(uid)
        return uid if known is None else f"{known.namespace}/{known.name}"
