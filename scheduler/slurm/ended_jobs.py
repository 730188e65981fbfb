"""Finds what became of pods that run, but name no job of theirs: the jobs that have just ended.

The census looks at live jobs. A pod's author who takes our annotations away while no scheduler runs
would have the end of the job unseen, and the pod would outlive its time limit. So a process, once
after its start, looks at ended jobs too, for as long as Slurm keeps them (MinJobAge) and only where
such a pod is there.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from scheduler.core.naming import Owner, read_tag
from slurmapi import Job

_AT_ONCE: Final = 4
# The newest ended jobs that one start looks at, at most: some 15 s of looks.
_MOST_LOOKS: Final = 5000
# Looks between two times that it is seen whom they are still for.
_ASK_EVERY: Final = 100
# Slurm's clock and the API server's may differ by less than this.
_SKEW_SECONDS: Final = 600.0
# What the pods claim is looked at by the workers first, which takes a start so long at most.
_WEIGH_SECONDS: Final = 30.0
_WEIGH_AGAIN_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class Unexplained:
    """Pods that run without a proven job, by uid, with when each was made. `pending` says that some
    other pod's claim is not looked at yet.
    """

    pods: Mapping[str, datetime | None]
    pending: bool = False


class EndedJobs:
    """`done` says that the ended jobs were looked through since the process began."""

    def __init__(
        self,
        read: Callable[[int], Awaitable[Job | None]],
        *,
        owner: Owner,
        unexplained: Callable[[], Unexplained],
        adopt: Callable[[Job], None],
    ) -> None:
        self._read = read
        self._owner = owner
        self._unexplained = unexplained
        self._adopt = adopt
        self.done = False

    async def look_through(self, job_ids: Iterable[int]) -> None:
        """Newest first. Raises SlurmError where Slurm cannot be asked."""
        if self.done:
            return
        await self._claims_weighed()
        pods = self._unexplained().pods
        newest = sorted(job_ids, reverse=True)[:_MOST_LOOKS]
        for start in range(0, len(newest), _AT_ONCE):
            if start % _ASK_EVERY == 0:
                pods = self._unexplained().pods
            if not pods:
                break
            found = await asyncio.gather(*map(self._read, newest[start : start + _AT_ONCE]))
            jobs = [job for job in found if job is not None]
            for job in jobs:
                self._found(job, pods)
            if _all_older(jobs, pods):
                break
        self.done = True

    async def _claims_weighed(self) -> None:
        for _ in range(int(_WEIGH_SECONDS / _WEIGH_AGAIN_SECONDS)):
            if not self._unexplained().pending:
                return
            await asyncio.sleep(_WEIGH_AGAIN_SECONDS)

    def _found(self, job: Job, pods: Mapping[str, datetime | None]) -> None:
        tag = read_tag(job.admin_comment)
        if tag is None or tag.owner != self._owner or tag.given_back or not job.state.ended:
            return
        if tag.uids[0] in pods:
            self._adopt(job)


def _all_older(jobs: Iterable[Job], pods: Mapping[str, datetime | None]) -> bool:
    """Whether these, and with them all of lower ids, were submitted before any of the pods was
    made.
    """
    made = [0.0 if it is None else it.timestamp() for it in pods.values()]
    oldest = min(made, default=math.inf) - _SKEW_SECONDS
    submitted = [job.submit_time or math.inf for job in jobs]
    return bool(submitted) and max(submitted) < oldest
