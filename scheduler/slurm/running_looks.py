"""Which jobs of running pods are looked at next.

On a node with a slurmd, nothing but the job's record shows the warning before a preemption
(measured on 24.11.5 and 26.05.5: the states have no flag for it). A job with a GraceTime is looked
at four times within it. Looks come with the pulses, so one that would fall due before the next
pulse is made with this one: otherwise it would be late by up to a whole pulse. Nobody warns the
others: looks at them only show what an operator has changed, such as the time limit. Where Slurm
does not say whether a job may be warned, it is looked at as often as the budget of the others
allows. Within both budgets namespaces take turns, so that many jobs in one delay no warning in
another.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Final

import structlog

from groundwork.pauses import in_chunks
from scheduler.observe.metrics import Metrics
from scheduler.slurm.grace_times import GraceTimes
from scheduler.slurm.look_allowance import LookAllowance
from scheduler.slurm.look_turns import Due, LookTurns, namespace_of
from scheduler.state.units import Unit
from slurmapi import BaseState

log = structlog.get_logger(__name__)

_LOOKS_A_GRACE_TIME: Final = 4
# Idle pulses, with which looks come, are not closer together.
_LEAST_SECONDS: Final = 1.0
# The next pulse is expected after as many seconds as this one, but at most after these. Idle pulses
# are two seconds apart; after an outage all looks are late anyway.
_LONGEST_AHEAD_SECONDS: Final = 4.0
_UNKNOWN_SECONDS: Final = 5.0
_UNWARNED_SECONDS: Final = 20.0
# Looks at jobs for which no GraceTime is known.
_OTHERS_PER_SECOND: Final = 2.0
# To search so many units takes 1 ms.
_SEARCHED_AT_ONCE: Final = 2000
# It is said again only after the need was this much below what is allowed.
_ENOUGH: Final = 0.8


class RunningLooks:
    """At most `per_second` looks a second at jobs with a GraceTime, and `_OTHERS_PER_SECOND` at all
    others; with 0 none at all.
    """

    def __init__(self, grace_times: GraceTimes, *, per_second: float, metrics: Metrics) -> None:
        self._grace_times = grace_times
        self._per_second = per_second
        self._metrics = metrics
        self._warned = LookAllowance(per_second)
        self._others = LookAllowance(min(per_second, _OTHERS_PER_SECOND))
        self._turns_of_warned, self._turns_of_others = LookTurns(), LookTurns()
        self._late = False
        self._searched_at = float("-inf")

    async def due(self, units: Iterable[Unit], *, now: float) -> Iterable[Unit]:
        """The units whose jobs are to be looked at now: namespaces take turns, each with those that
        are due for longest. Take none for whose look no time is left. The units are searched once a
        second at most, and not at all if nothing may be looked at.
        """
        if now - self._searched_at < _LEAST_SECONDS:
            return ()
        most_warned, most_others = self._warned.take(now), self._others.take(now)
        if not most_warned and not most_others:
            return ()
        # A look that is due exactly then comes with that pulse.
        next_at = now + min(now - self._searched_at, _LONGEST_AHEAD_SECONDS)
        self._searched_at = now
        warned, others, needed = list[Due](), list[Due](), 0.0
        namespaces = set[str]()
        paces = dict[str, tuple[bool, float]]()
        async for some in in_chunks(units, size=_SEARCHED_AT_ONCE):
            namespaces.update(map(namespace_of, some))
            for unit in some:
                job = unit.job
                if job is None or unit.waiting or job.state is None:
                    continue
                if job.state.base is not BaseState.RUNNING:
                    continue
                partition = "" if job.record is None else job.record.partition
                pace = paces.get(partition)
                if pace is None:
                    pace = paces[partition] = self._pace(partition)
                is_warned, seconds = pace
                due_at = job.looked_at + seconds
                if is_warned:
                    needed += 1.0 / seconds
                    if due_at < next_at:
                        warned.append((due_at, unit))
                elif due_at <= now:
                    others.append((due_at, unit))
            warned = self._turns_of_warned.first(most_warned, warned)
            others = self._turns_of_others.first(most_others, others)
        self._tell(needed)
        for turns in (self._turns_of_warned, self._turns_of_others):
            turns.line(namespaces)  # forgets those without pods
        return chain(
            self._turns_of_warned.taken(unit for _, unit in warned),
            self._turns_of_others.taken(unit for _, unit in others),
        )

    def _pace(self, partition: str) -> tuple[bool, float]:
        """Whether jobs in this partition have a GraceTime, and the seconds between two looks at one
        of them. "" is a partition that is not known.
        """
        grace = self._grace_times.seconds(partition) if partition else None
        if grace is None:
            return False, _UNKNOWN_SECONDS
        if not grace:
            return False, _UNWARNED_SECONDS
        return True, max(grace / _LOOKS_A_GRACE_TIME, _LEAST_SECONDS)

    def _tell(self, needed: float) -> None:
        """Say if the budget is too small to see each warning in time."""
        self._metrics.running_looks_needed.set(needed)
        if needed > self._per_second and not self._late:
            self._late = True
            log.warning(
                "preemptions may be seen late",
                looks_needed_per_second=round(needed, 1),
                running_looks_per_second=self._per_second,
            )
        elif needed < _ENOUGH * self._per_second:
            self._late = False
