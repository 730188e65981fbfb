"""Limits how many jobs Slurm is asked about because a namespace's pods name them.

An annotation with a job id costs Slurm a look, and anybody who may create pods can write one. When
a process starts, honest pods name their jobs, and all of those are looked at. Later only this
process writes ids, and only of its own jobs, so most other claims are made up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from scheduler.core.budgets import Budgets
from scheduler.slurm.census import Census
from scheduler.state.units import Unit

# A burst, then one in this many seconds: the same budget as NAMESPACE_SUBMITS of `submit_pace.py`.
NAMESPACE_CLAIMS: Final = (5000, 0.05)
# By then, the claims of all pods that existed when this process started have been looked at.
START_SECONDS: Final = 300.0


class ClaimedJobs:
    """Asked before each look at a job that is known only from a pod's annotation."""

    def __init__(self, census: Census, *, clock: Callable[[], float]) -> None:
        self._census = census
        self._clock = clock
        self._budgets = Budgets[str](*NAMESPACE_CLAIMS)

    def may_be_looked_at(self, unit: Unit) -> bool:
        """Whether Slurm may be asked about this unit's job. If not, the pod is treated as if it
        named no job: the census has looked at all jobs, and would have found one by its tag.
        """
        now, looked_through = self._clock(), self._census.first_at
        if looked_through is None or now < looked_through + START_SECONDS:
            return True
        return self._budgets.try_spend(unit.namespace, now)
