"""Notices that slurmctld has restarted, even if no request failed in the meantime.

It may have lost its state: jobs that it has started or accepted, and the last job id. What is done:

* `pulse.py` asks this module, and then doubts every record until a look proves it again
* `slurmctld.py` reads the same time less often: endings soon after it are weak evidence
  (`core/evidence.py`)
* `core/doubt.py`: how often Slurm must say that it knows no such job
* `core/running.py` keeps healthy pods alive: one whose job Slurm does not know, or shows as pending
  again, gets a new job for the very node that it runs on. `core/lost_job.py` says when that is
  given up
* `ownership.py`: no write goes to another's job that has got the same id; `census.py`: foreign ids
  are looked at again
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from slurmapi import (
    SlurmClient,
    SlurmConfig,
    SlurmDenied,
    SlurmError,
    SlurmGarbled,
    SlurmNoApi,
    SlurmRefused,
)

# `/conf` has some 10 kB. This only decides how soon each job is looked at again: no write relies on
# an older look in any case.
_EVERY_SECONDS: Final = 15.0


class Restarts:
    """Reads the time at which slurmctld started from `/conf`, which has it since v0.0.45."""

    def __init__(self, client: SlurmClient, *, clock: Callable[[], float]) -> None:
        self._client = client
        self._clock = clock
        self._asked_at = float("-inf")
        self._boot: int | None = None

    async def happened(self) -> bool:
        """Whether slurmctld has restarted since Slurm was asked last. Asks it every 15 s at most;
        in between the answer is False. Also False if Slurm does not show when slurmctld started.
        Raises SlurmError if Slurm cannot be asked.
        """
        now = self._clock()
        if now - self._asked_at < _EVERY_SECONDS:
            return False
        self._asked_at = now
        conf = await conf_if_shown(self._client)
        boot = None if conf is None else conf.boot_time
        before, self._boot = self._boot, boot or self._boot
        return None not in {before, boot} and before != boot


async def conf_if_shown(client: SlurmClient) -> SlurmConfig | None:
    """Some settings of slurm.conf; None if Slurm, or a gateway before it, does not show them, or if
    they cannot be read. Nothing may depend on them, because a site may block that path for
    everybody. Raises SlurmError if Slurm cannot be asked.
    """
    try:
        return await client.config()
    except SlurmError as error:
        if not await is_withheld(error, client):
            raise
        return None


async def is_withheld(error: SlurmError, client: SlurmClient) -> bool:
    """Whether this answer to a request for slurm.conf concerns that request alone, so that it would
    be the same if repeated. Raises SlurmError if Slurm cannot be asked.
    """
    if isinstance(error, SlurmNoApi):
        await client.negotiate()  # raises if no other path is served either
        return True
    if isinstance(error, SlurmDenied):
        return not error.authentication
    return isinstance(error, SlurmRefused | SlurmGarbled)
