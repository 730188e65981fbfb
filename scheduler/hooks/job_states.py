"""The states of jobs as Slurm reports them now. Many callers share one request at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field

from slurmapi import JobState, SlurmError

Ask = Callable[[list[int]], Awaitable[Mapping[int, JobState]]]
_Answer = Mapping[int, JobState] | SlurmError


@dataclass(slots=True)
class _Batch:
    job_ids: set[int] = field(default_factory=set)
    answer: asyncio.Future[_Answer] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class FreshStates:
    """States of jobs, requested after the caller asked, because older states are no evidence.

    A caller who comes while a request is under way shares the next request. So a thousand jobs that
    start at once cost Slurm two requests.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._next: _Batch | None = None
        self._asked = asyncio.Event()

    async def run(self) -> None:
        """Serve for ever; end it by cancelling."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            batch, self._next = self._next, None
            if batch is not None:
                await self._serve(batch)

    async def states(self, job_ids: Iterable[int]) -> Mapping[int, JobState]:
        """The states by job id, without the ids that Slurm does not know. Raises SlurmError."""
        if self._next is None:
            self._next = _Batch()
        batch = self._next
        batch.job_ids.update(job_ids)
        self._asked.set()
        answer = await asyncio.shield(batch.answer)
        if isinstance(answer, SlurmError):
            raise answer
        return answer

    async def _serve(self, batch: _Batch) -> None:
        answer: _Answer
        try:
            answer = await self._ask(sorted(batch.job_ids))
        except SlurmError as error:
            answer = error
        batch.answer.set_result(answer)
