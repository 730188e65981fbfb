"""Ends placeholders in batches: what is asked for within a moment goes to Slurm in one request."""

from __future__ import annotations

import asyncio
from typing import Final

from slurmapi import SlurmClient

# Long enough to gather the pods of a deleted namespace, too short for anyone to notice.
_GATHER_SECONDS: Final = 0.02


class Canceller:
    """Callers wait for the batch their job is in; `run` sends the batches one after the other."""

    def __init__(self, client: SlurmClient) -> None:
        self._client = client
        self._wanted: dict[int, asyncio.Future[None]] = {}
        self._wake = asyncio.Event()

    async def cancel(self, job_id: int) -> None:
        """End the job; an ended or unknown one is a success. Raises SlurmError."""
        future = self._wanted.get(job_id)
        if future is None:
            future = self._wanted[job_id] = asyncio.get_running_loop().create_future()
            self._wake.set()
        await asyncio.shield(future)

    async def run(self) -> None:
        """Send batches for ever; end it by cancelling."""
        while True:
            await self._wake.wait()
            await asyncio.sleep(_GATHER_SECONDS)
            self._wake.clear()
            batch, self._wanted = self._wanted, {}
            try:
                await self._send(batch)
            finally:
                for future in batch.values():
                    future.cancel()

    async def _send(self, batch: dict[int, asyncio.Future[None]]) -> None:
        failures = await self._client.cancel(list(batch))
        for job_id, future in batch.items():
            error = failures.get(job_id)
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)
                future.exception()  # seen, even where the one who asked has gone
