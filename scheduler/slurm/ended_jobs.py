"""Finds the last jobs of running pods that name no job, among jobs that have just ended.

The census looks at live jobs. If a pod's author removes our annotations while no scheduler runs,
nobody sees the end of the job, and the pod outlives its time limit. So a process looks at ended
jobs too, once after its start, as far as Slurm still keeps them (MinJobAge). It does so only if a
running pod names no job.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from scheduler.core.owner_tag import Owner
from scheduler.core.tagged import TaggedJob
from scheduler.slurm.submit_times import SubmitTimes
from slurmapi import Job

_AT_ONCE: Final = 4
# A start looks at this many of the newest ended jobs at most, which takes some 15 s.
_MOST_LOOKS: Final = 5000
# After this many looks we check whether any pod still needs them.
_ASK_EVERY: Final = 100
# The workers look at the pods' claims first. We wait for them this long at most.
_WEIGH_SECONDS: Final = 30.0
_WEIGH_AGAIN_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class Unexplained:
    """Pods that run without a proven job, by uid, with the time each was created. `pending` says
    that some other pod's claim has not been checked yet.
    """

    pods: Mapping[str, datetime | None]
    pending: bool = False


class EndedJobs:
    """`done` says that this process has looked through the ended jobs."""

    def __init__(
        self,
        read: Callable[[int], Awaitable[TaggedJob | None]],
        *,
        owner: Owner,
        unexplained: Callable[[], Awaitable[Unexplained]],
        adopt: Callable[[TaggedJob], None],
        submit_times: SubmitTimes,
    ) -> None:
        self._read = read
        self._owner = owner
        self._unexplained = unexplained
        self._adopt = adopt
        self._submit_times = submit_times
        self.done = False

    async def look_through(self, job_ids: Iterable[int]) -> None:
        """Look at the ended jobs, newest first. Raises SlurmError if Slurm cannot be asked."""
        if self.done:
            return
        await self._claims_weighed()
        pods = (await self._unexplained()).pods
        newest = sorted(job_ids, reverse=True)[:_MOST_LOOKS]
        for start in range(0, len(newest), _AT_ONCE):
            if start % _ASK_EVERY == 0:
                pods = (await self._unexplained()).pods
            if not pods:
                break
            found = await asyncio.gather(*map(self._read, newest[start : start + _AT_ONCE]))
            jobs = [job for job in found if job is not None]
            for job in jobs:
                self._found(job, pods)
            if self._all_older(jobs, pods):
                break
        self.done = True

    async def _claims_weighed(self) -> None:
        for _ in range(int(_WEIGH_SECONDS / _WEIGH_AGAIN_SECONDS)):
            if not (await self._unexplained()).pending:
                return
            await asyncio.sleep(_WEIGH_AGAIN_SECONDS)

    def _found(self, job: TaggedJob, pods: Mapping[str, datetime | None]) -> None:
        tag = job.tag
        if tag is None or tag.owner != self._owner or tag.given_back or not job.state.ended:
            return
        if not pods.keys().isdisjoint(tag.uids):
            self._adopt(job)

    def _all_older(self, jobs: Iterable[Job], pods: Mapping[str, datetime | None]) -> bool:
        """Whether these jobs, and so all with lower ids, got their ids before any of the pods was
        created.
        """
        made = [0.0 if it is None else it.timestamp() for it in pods.values()]
        known = [self._submit_times.latest(job) for job in jobs]
        return bool(known) and max(known) < min(made, default=math.inf)
