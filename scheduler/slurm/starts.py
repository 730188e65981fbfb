"""Finds out soon that the nodes of a job are ready, where Slurm's hooks say that it starts.

PrologSlurmctld asks the guard (`hooks/guard.py`) while the job is CONFIGURING. Slurm removes that
flag 17 to 43 ms after the answer (measured on 26.05.5), and only then the pod can be bound. So an
earlier request would be wasted, and a later one would delay the pod. Only these jobs are asked
about here, and those beside them, which costs Slurm 2 ms however many other jobs there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import structlog

from scheduler.slurm.pulse_pace import PulsePace
from scheduler.state.units import Placeholder, Units
from slurmapi import BaseState, SlurmError

log = structlog.get_logger(__name__)

CLEARED_SECONDS: Final = 0.025
"""The first request comes this long after the guard's answer, and each further one after the last.
"""
# With fewer saved requests than this, requests come a quarter as often: they must last longer.
_PLENTY: Final = 10.0
_SPARING: Final = 4.0
# A slow Slurm is asked again only after this many times the duration of its last answer.
_REST_FACTOR: Final = 4.0
# From then on the pulse alone looks at the job: Slurm boots its node, or another hook takes long.
_GIVE_UP_SECONDS: Final = 1.0
# Where more pods than this are beside those that start, they wait for the pulse.
_MOST_BESIDE: Final = 250


class Starts:
    """`look_now` asks for the states of jobs and stores them. Requests share the budget of the
    pulse (`pace`).
    """

    def __init__(
        self,
        units: Units,
        *,
        look_now: Callable[[list[int]], Awaitable[object]],
        pace: PulsePace,
        allocated: Callable[[Placeholder], None],
        leads: Callable[[], bool],
        clock: Callable[[], float],
    ) -> None:
        self._units = units
        self._look_now = look_now
        self._pace = pace
        self._allocated = allocated
        self._leads = leads
        self._clock = clock
        self._asking: set[int] = set()  # jobs whose hook waits, no more than hooks may wait
        self._answered: dict[int, float] = {}  # jobs whose hook has its answer, and since when
        self._beside: set[int] = set()  # jobs that the guard asked about meanwhile
        self._took = 0.0
        self._news = asyncio.Event()

    def begins(self, job_id: int) -> None:
        """A hook says that Slurm has given nodes to this job. It may be a job of others, or one
        whose submit has not been answered yet.
        """
        if self._leads():
            self._asking.add(job_id)
            self._note_allocated(job_id)

    def answered(self, job_id: int) -> None:
        """The hook has its answer, so the job's nodes will be ready in a moment. Ignored if the job
        is not known to be ours: anybody may claim any number.
        """
        if job_id not in self._asking:
            return
        self._asking.discard(job_id)
        if self._note_allocated(job_id):
            self._answered[job_id] = self._clock()
            self._news.set()

    def _note_allocated(self, job_id: int) -> bool:
        jobs = self._units.own_jobs(job_id)
        for job in jobs:
            self._allocated(job)
        return bool(jobs)

    def with_starting(self, job_ids: Iterable[int]) -> list[int]:
        """These jobs, which the guard asks about, and those that may be ready by now: one request
        serves both.
        """
        asked = set(job_ids)
        if (not self._asking and not self._answered) or len(self._beside) > _MOST_BESIDE:
            self._beside.clear()
        self._beside |= asked
        return sorted({*asked, *self._to_ask()})

    async def run(self) -> None:
        """Serve for ever; cancel it to stop."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._answered:
                await asyncio.sleep(max(self._pause(), _REST_FACTOR * self._took))
                self._forget()
                if self._answered and self._pace.may_ask():
                    await self._ask()
            self._took = 0.0

    def _pause(self) -> float:
        plenty = self._pace.saved() >= _PLENTY
        return CLEARED_SECONDS if plenty else _SPARING * CLEARED_SECONDS

    async def _ask(self) -> None:
        if self._units.silent:
            self._answered.clear()  # the pulse has its own pauses for a Slurm in trouble
            return
        began = self._clock()
        try:
            await self._look_now(self._to_ask())
        except SlurmError as error:
            log.debug("starting jobs cannot be asked about", error=str(error))
            self._answered.clear()
        self._took = self._clock() - began

    def _forget(self) -> None:
        """Forget the jobs that need no request any more."""
        now = self._clock()
        self._answered = {
            job_id: at
            for job_id, at in self._answered.items()
            if now - at < _GIVE_UP_SECONDS and any(map(_may_start, self._units.own_jobs(job_id)))
        }

    def _to_ask(self) -> list[int]:
        """The starting jobs, and those of the pods that are on their nodes. A pod is bound only if
        Slurm has said of the others there that they hold their place, since its own job runs.
        """
        beside = (it for it in self._beside if self._units.by_job(it))
        return sorted({*self._answered, *beside})


def _may_start(job: Placeholder) -> bool:
    """Whether Slurm has not yet said that its nodes are ready, or that it has ended."""
    state = job.state
    return state is None or state.configuring or state.base is BaseState.PENDING
