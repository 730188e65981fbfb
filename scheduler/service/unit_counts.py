"""Gauges of the units: how many there are, in which state, and why they wait.

Units are counted every few seconds, with pauses for other work. So a scrape costs the same however
many units there are.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Final

from prometheus_client import Gauge

from scheduler.core import pending_reasons
from scheduler.core.event_reasons import MEANINGS, Reason
from scheduler.core.facts import InDoubt, JobFacts, NoJob, Tracked, Vanished
from scheduler.kube.store import Joined
from scheduler.kube.wire import Pod
from scheduler.observe.metrics import Metrics
from scheduler.state.units import Unit, Units
from slurmapi import BaseState

_EVERY_SECONDS: Final = 5.0
# Counting so many units takes less than a millisecond.
_BREATHE_EVERY: Final = 250
_MOST_NAMESPACES: Final = 200
_OTHERS: Final = "_other"  # the name of a namespace cannot begin with "_"
STATES: Final = (
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
        leads: Callable[[], bool],
        clock: Callable[[], float],
    ) -> None:
        self._metrics = metrics
        self._units = units
        self._pods = pods
        self._leads = leads
        self._clock = clock
        self._series: dict[Gauge, set[tuple[str, ...]]] = {}
        self._left: set[tuple[str, int]] = set()
        for state in STATES:
            metrics.units.labels(state, "").set(0)

    async def run(self) -> None:
        """Count for ever; cancel it to stop."""
        while True:
            await self.count()
            await asyncio.sleep(_EVERY_SECONDS)

    async def count(self) -> None:
        """Count the units once."""
        if not self._leads():
            return
        found: Counter[tuple[str, str, str]] = Counter()
        left: set[tuple[str, int]] = set()
        for number, unit in enumerate(self._units, 1):
            found[unit.namespace, *standing(unit)] += 1
            left |= self._left_by(unit)
            if number % _BREATHE_EVERY == 0:
                await asyncio.sleep(0)
        # A job counts only if it had no pod at the last count either. While pods come and go, there
        # are always some jobs whose cancel is still on its way.
        self._metrics.placeholders_without_pod.set(len(left & self._left))
        self._left = left
        self._show(found)

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

    def _show(self, found: Counter[tuple[str, str, str]]) -> None:
        whole: Counter[tuple[str, ...]] = Counter()
        for (_, state, reason), number in found.items():
            whole[state, reason] += number
        for key in self._series.get(self._metrics.units, set()):
            whole.setdefault(key, 0)  # a series that once existed stays, for rates and alerts
        self._set(self._metrics.units, whole)
        self._set(self._metrics.namespace_units, _largest(found))

    def _set(self, gauge: Gauge, values: Counter[tuple[str, ...]]) -> None:
        for key in self._series.get(gauge, set()) - set(values):
            gauge.remove(*key)
        for key, number in values.items():
            gauge.labels(*key).set(number)
        self._series[gauge] = set(values)


def standing(unit: Unit) -> tuple[str, str]:
    """The state of the unit's placeholder, and the reason why the unit waits; "" if it does not
    wait.
    """
    state = _state(unit.job_facts())
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


def _state(job: JobFacts) -> str:
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


def _largest(found: Counter[tuple[str, str, str]]) -> Counter[tuple[str, ...]]:
    """The counts of the namespaces with most units, and all other namespaces added up as one."""
    sizes: Counter[str] = Counter()
    for (namespace, _, _), number in found.items():
        sizes[namespace] += number
    own = {namespace for namespace, _ in sizes.most_common(_MOST_NAMESPACES)}
    shown: Counter[tuple[str, ...]] = Counter()
    for (namespace, state, reason), number in found.items():
        shown[namespace if namespace in own else _OTHERS, state, reason] += number
    return shown
