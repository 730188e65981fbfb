"""Gauges of the pods: how many there are, in which state, and why they wait.

Units, which are single pods and gangs, are gone through every few seconds, with pauses for other
work. So a scrape costs the same however many there are.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Final

from groundwork.pauses import in_slices
from scheduler.core import pending_reasons
from scheduler.core.event_reasons import MEANINGS, Reason
from scheduler.core.facts import InDoubt, JobFacts, NoJob, Tracked, Vanished
from scheduler.kube.store import Joined
from scheduler.kube.wire import Pod
from scheduler.observe.metrics import Metrics
from scheduler.observe.place_series import OTHER
from scheduler.service.place_counts import PlaceCounts, partition_of
from scheduler.service.series import Series
from scheduler.state.units import Unit, Units
from slurmapi import BaseState

_EVERY_SECONDS: Final = 5.0
# With more than 20 000 units the counts come less often, so that they take 5 % of a core at most:
# to count a unit takes 7 to 12 us (measured with 70 000 on the sandbox).
_REST_SECONDS_PER_UNIT: Final = 0.00025
_MOST_NAMESPACES: Final = 200
_MOST_PARTITIONS: Final = 100
UNIT_STATES: Final = (
    *("none", "in_doubt", "vanished", "unknown"),
    *("pending", "running", "suspended", "ended"),
)


class UnitCounts:
    """Counts the units. `leads` says whether this process is the leader; a process that stands by
    counts none, so that sums over all processes are right.
    """

    def __init__(
        self,
        metrics: Metrics,
        *,
        units: Units,
        pods: Joined[Pod],
        gpus: frozenset[str],
        leads: Callable[[], bool],
        clock: Callable[[], float],
    ) -> None:
        self._metrics = metrics
        self._units = units
        self._pods = pods
        self._leads = leads
        self._clock = clock
        self._by_state = Series(metrics.pods, stays=True)
        self._by_namespace = Series(metrics.namespace_pods)
        self._by_partition = Series(metrics.partition_pods)
        self._places = PlaceCounts(metrics, pods=pods, gpus=gpus)
        self._former_by_state = Series(metrics.units, stays=True)
        self._former_by_namespace = Series(metrics.namespace_units)
        self._left: set[tuple[str, int]] = set()
        for series in (self._by_state, self._former_by_state):
            series.show({(state, ""): 0 for state in UNIT_STATES})

    async def run(self) -> None:
        """Count for ever; cancel it to stop."""
        while True:
            await self.count()
            await asyncio.sleep(max(_EVERY_SECONDS, _REST_SECONDS_PER_UNIT * len(self._units)))

    async def count(self) -> None:
        """Count the units once."""
        if not self._leads():
            return
        units: Counter[tuple[str, str, str]] = Counter()
        pods: Counter[tuple[str, str, str]] = Counter()
        partitions: Counter[tuple[str, str, str]] = Counter()
        left: set[tuple[str, int]] = set()
        async for unit in in_slices(self._units):
            labels, partition = standing(unit), partition_of(unit)
            count = len(unit.pods) or 1  # a gang that has only its job left counts, too
            units[unit.namespace, *labels] += 1
            pods[unit.namespace, *labels] += count
            partitions[partition, *labels] += count
            await self._places.add(unit, partition=partition, state=labels[0])
            left |= self._left_by(unit)
        # A job counts only if it had no pod at the last count either. While pods come and go, there
        # are always some jobs whose cancel is still on its way.
        self._metrics.placeholders_without_pod.set(len(left & self._left))
        self._left = left
        self._by_state.show(_by_state(pods))
        self._former_by_state.show(_by_state(units))
        for series, counted, most in (
            (self._by_namespace, pods, _MOST_NAMESPACES),
            (self._former_by_namespace, units, _MOST_NAMESPACES),
            (self._by_partition, partitions, _MOST_PARTITIONS),
        ):
            series.show(_largest_names(counted, most))
            await asyncio.sleep(0)
        self._places.show(self._clock())

    def _left_by(self, unit: Unit) -> set[tuple[str, int]]:
        """The unit's jobs that may run although no pod needs them, each with the unit's key."""
        jobs = set(unit.given_back)
        pods = [self._pods.get(it.uid) for it in unit.pods]
        alive = any(pod is not None and not pod.finished for pod in pods)
        wanted = alive or self._lingers(unit)
        if unit.job is not None and not _ended(unit) and not wanted:
            jobs.add(unit.job.job_id)
        return {(unit.key, job_id) for job_id in jobs}

    def _lingers(self, unit: Unit) -> bool:
        """Whether containers of the unit's pods may still run although the pod objects are gone."""
        remains = (pod.seen.remains for pod in unit.pods)
        return any(it is not None and self._clock() < it.until for it in remains)


def standing(unit: Unit) -> tuple[str, str]:
    """The state of the unit's placeholder, and the reason why the unit waits; "" if it does not
    wait.
    """
    state = _job_label(unit.job_facts())
    if state == "pending":
        return state, _pending_reason(unit)
    reason = unit.reason
    waits = unit.waiting and reason in MEANINGS and reason != Reason.SLURM_PENDING
    return state, str(reason) if waits else ""


def _pending_reason(unit: Unit) -> str:
    record = unit.job.record if unit.job is not None else None
    if record is None or record.state.base is not BaseState.PENDING:
        return pending_reasons.UNSAID
    return pending_reasons.label(record.state_reason)


def _job_label(job: JobFacts) -> str:
    """The state as a label. A job that Slurm has just accepted counts as pending although no pulse
    has shown it yet.
    """
    match job:
        case NoJob():
            return "none"
        case InDoubt():
            return "in_doubt"
        case Vanished():
            return "vanished"
        case Tracked(state=state):
            if state is None:
                return "pending" if job.made_as else "unknown"
            return "ended" if state.ended else state.base.value.lower()


def _ended(unit: Unit) -> bool:
    return unit.job is not None and unit.job.state is not None and unit.job.state.ended


def _by_state(found: Counter[tuple[str, str, str]]) -> Counter[tuple[str, ...]]:
    """The counts of all namespaces together."""
    whole: Counter[tuple[str, ...]] = Counter()
    for (_, state, reason), number in found.items():
        whole[state, reason] += number
    return whole


def _largest_names(found: Counter[tuple[str, str, str]], most: int) -> Counter[tuple[str, ...]]:
    """The counts of the namespaces or partitions with most pods, and all others added up as one."""
    sizes: Counter[str] = Counter()
    for (name, _, _), number in found.items():
        sizes[name] += number
    own = {name for name, _ in sizes.most_common(most)}
    shown: Counter[tuple[str, ...]] = Counter()
    for (name, state, reason), number in found.items():
        shown[name if name in own else OTHER, state, reason] += number
    return shown
