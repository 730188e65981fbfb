"""When jobs got their ids, by the API server's clock, so that they can be compared with pods.

Slurm's clock and the API server's may differ by minutes. Both say in their answers what time it is
for them: so how long ago a job was submitted is known by Slurm's clock alone, and what the API
server's clock showed at that moment by the latter alone.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Final

from slurmapi import BaseState, Job

UNMEASURED_SECONDS: Final = 600.0
"""An upper bound for the difference of the two clocks, where it is not known."""
MEASURED_SECONDS: Final = 15.0
"""How much later a job may have been submitted than its age says. Each of four times is in whole
seconds, and somebody may set a clock by a few seconds between the submit and now.

If a clock is set by more than this just before a restart, a pod may get a second job: Slurm does
not start it beside the first (`dependency=singleton`), and the search cancels it.
"""


# The ids of a federation's jobs have the number of the cluster in the bits above these, which are 0
# everywhere else (slurm.conf(5), MaxJobId).
_LOCAL_BITS: Final = 26


class SubmitTimes:
    """`kube_time` asks the API server for its time, in seconds since the epoch; None if it does not
    answer, or does not say. `clock` is in seconds, too.
    """

    def __init__(
        self, kube_time: Callable[[], Awaitable[float | None]], *, clock: Callable[[], float]
    ) -> None:
        self._kube_time = kube_time
        self._clock = clock
        self._kube_ahead: float | None = None

    async def compare_clocks(self) -> None:
        """Note by how much the API server's clock is ahead of ours. It is asked again each time,
        because clocks are set.
        """
        asked_at = self._clock()
        now = await self._kube_time()
        self._kube_ahead = None if now is None else now - asked_at

    def latest(self, job: Job) -> float:
        """When the job got its id at the latest, by the API server's clock, in seconds since the
        epoch; infinite if that is not known. All jobs with lower ids were submitted before that.
        `job` is a record that has just arrived.
        """
        submitted, slurm_now = _got_its_id(job), job.answered_at
        if submitted is None:
            return math.inf
        if self._kube_ahead is None or slurm_now is None:
            return submitted + UNMEASURED_SECONDS
        age = slurm_now - submitted
        return self._clock() + self._kube_ahead - age + MEASURED_SECONDS


def _got_its_id(job: Job) -> int | None:
    """When Slurm gave the job its id, or later: at its submission, or when a task of an array
    started, whose submit time is that of the array. By Slurm's clock; None if that is not known. In
    a federation the age of one id says nothing about others: each cluster counts for itself.
    """
    if job.job_id >> _LOCAL_BITS:
        return None
    if job.array is None:
        return job.submit_time
    return None if job.state.base is BaseState.PENDING else job.start_time
