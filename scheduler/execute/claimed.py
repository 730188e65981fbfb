"""How many jobs Slurm is asked about on behalf of one namespace because its pods name them.

An annotation with a job's id costs Slurm a look, and whoever may create pods can write it. Honest
pods name their jobs when a process starts, and those are all looked at. Later, only this process
writes ids, of jobs that it has made itself: what is named then is mostly made up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from scheduler.core.budgets import Budgets
from scheduler.slurm.census import Census
from scheduler.state.units import Unit

# At once, and then one each so many seconds, as jobs for pods that wait (`submitting.NAMESPACE`).
NAMESPACE: Final = (5000, 0.05)
# Of all pods that were there when this process began the claims have been looked at by then.
START_SECONDS: Final = 300.0


class ClaimedJobs:
    """Asked before a look at a job that only a pod's annotation names."""

    def __init__(self, census: Census, *, clock: Callable[[], float]) -> None:
        self._census = census
        self._clock = clock
        self._budgets = Budgets[str](*NAMESPACE)

    def may_be_looked_at(self, unit: Unit) -> bool:
        """Whether Slurm may be asked about it. Where not, it is as if the pod named none: a live
        job for the pod has been found by its tag when all jobs were looked through.
        """
        now, looked_through = self._clock(), self._census.first_at
        if looked_through is None or now < looked_through + START_SECONDS:
            return True
        return self._budgets.spend(unit.namespace, now)
