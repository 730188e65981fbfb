"""A Binding that the API server refuses: how long to keep the allocation, and when to try again.

An admission policy, a webhook or a quota rejects the pod, although Slurm holds a node for it.
"""

from __future__ import annotations

from typing import Final

import msgspec

# The allocation is released after this time, because nobody else can use it in the meantime.
ALLOCATION_KEPT_SECONDS: Final = 60.0
_FIRST_SECONDS: Final = 2.0
_LONGEST_SECONDS: Final = 30.0


class RefusedBind(msgspec.Struct, frozen=True):
    """`why` is what the server says. `since` is the time of the first refusal in a row, for this
    job or an earlier one; `job_id` is the job of the last one.
    """

    job_id: int
    why: str
    since: float
    again_at: float
    pause: float = _FIRST_SECONDS

    @classmethod
    def after(cls, former: RefusedBind | None, *, job_id: int, why: str, now: float) -> RefusedBind:
        """Count one more refusal. The bindings of a gang are sent together: those that are refused
        within the shortest pause count once.
        """
        if former is None:
            return cls(job_id, why, since=now, again_at=now + _FIRST_SECONDS)
        last = former.again_at - former.pause
        if former.job_id == job_id and now < last + _FIRST_SECONDS:
            return former
        pause = min(2 * former.pause, _LONGEST_SECONDS)
        return cls(job_id, why, since=former.since, again_at=now + pause, pause=pause)

    def is_over(self, job_id: int, now: float) -> bool:
        """Whether this job must be cancelled. Each new job is tried once, however long the
        refusals have lasted.
        """
        return self.job_id == job_id and now - self.since >= ALLOCATION_KEPT_SECONDS

    def wait(self, job_id: int, now: float, *, kept: bool) -> float:
        """Seconds until the next try for this job. Its first try need not wait. A job that is
        `kept` is not cancelled after ALLOCATION_KEPT_SECONDS, because another pod runs in it.
        """
        if self.job_id != job_id:
            return 0.0
        until = self.again_at if kept else min(self.again_at, self.since + ALLOCATION_KEPT_SECONDS)
        return max(0.0, until - now)
