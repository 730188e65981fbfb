"""Cancels jobs in batches: all cancels of one moment go to Slurm in a single request.

Who cancels which job, and why: `cancel.py` lists all. The HTTP request: `SlurmClient.cancel` in
`slurmapi/client.py`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from slurmapi import SlurmClient, SlurmUnreachable

# Long enough to gather the pods of a deleted namespace, too short for anyone to notice.
_GATHER_SECONDS: Final = 0.02
# Batches that are sent at the same time. One that hangs must not delay the others, and many must
# not use up all connections.
_AT_ONCE: Final = 4


@dataclass(slots=True)
class _Wanted:
    """A job to be cancelled, and by when the request must be sent, in the event loop's time."""

    send_by: float
    done: asyncio.Future[None]


class Canceller:
    """Callers wait for the batch that contains their job; `run` sends the batches."""

    def __init__(self, client: SlurmClient) -> None:
        self._client = client
        self._wanted: dict[int, _Wanted] = {}
        self._wake = asyncio.Event()
        self._places = asyncio.Semaphore(_AT_ONCE)

    async def cancel(self, job_id: int, *, send_by: float) -> None:
        """Cancel the job; also succeeds if it has ended or is unknown. Raises SlurmError. Raises
        SlurmUnreachable if it could not be sent before `send_by`, in the event loop's time
        (`ownership.OwnJob`): then the caller has to read the job's owner again.
        """
        wanted = self._wanted.get(job_id)
        if wanted is None:
            done = asyncio.get_running_loop().create_future()
            wanted = self._wanted[job_id] = _Wanted(send_by, done)
            self._wake.set()
        await asyncio.shield(wanted.done)

    async def run(self) -> None:
        """Send batches for ever; cancel it to stop."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._wake.wait()
                await asyncio.sleep(_GATHER_SECONDS)
                await self._places.acquire()
                self._wake.clear()
                batch, self._wanted = self._wanted, {}
                group.create_task(self._deliver(batch), name="cancels")

    async def _deliver(self, batch: dict[int, _Wanted]) -> None:
        try:
            await self._send(_in_time(batch))
        finally:
            self._places.release()
            for wanted in batch.values():
                wanted.done.cancel()

    async def _send(self, batch: dict[int, _Wanted]) -> None:
        if not batch:
            return
        send_by = min(it.send_by for it in batch.values())
        failures = await self._client.cancel(list(batch), send_by=send_by)
        for job_id, wanted in batch.items():
            error = failures.get(job_id)
            if error is None:
                wanted.done.set_result(None)
            else:
                _fail(wanted.done, error)


def _in_time(batch: dict[int, _Wanted]) -> dict[int, _Wanted]:
    """The jobs whose cancel may still be sent and whose caller still waits. Callers of those that
    are too late get an error.
    """
    now = asyncio.get_running_loop().time()
    for wanted in batch.values():
        if wanted.send_by <= now:
            _fail(wanted.done, SlurmUnreachable("the cancel waited too long for others before it"))
    return {job_id: it for job_id, it in batch.items() if not it.done.done()}


def _fail(future: asyncio.Future[None], error: Exception) -> None:
    future.set_exception(error)
    future.exception()  # marks it as retrieved, even if the caller has gone
