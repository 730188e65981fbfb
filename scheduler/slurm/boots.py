"""Notices that slurmctld has started anew, also where no request failed meanwhile."""

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

# `/conf` is some 10 kB, and nothing is ever done to a job by an older look: this only decides how
# soon each is looked at again.
_EVERY_SECONDS: Final = 15.0


class Boots:
    """Slurm tells the time of its controller's start in `/conf`, from v0.0.45 on."""

    def __init__(self, client: SlurmClient, *, clock: Callable[[], float]) -> None:
        self._client = client
        self._clock = clock
        self._asked_at = float("-inf")
        self._boot: int | None = None

    async def is_another(self) -> bool:
        """Whether it is another start than the last time; asks only now and then. Raises SlurmError
        where Slurm cannot be asked.
        """
        now = self._clock()
        if now - self._asked_at < _EVERY_SECONDS:
            return False
        self._asked_at = now
        conf = await told_conf(self._client)
        boot = None if conf is None else conf.boot_time
        before, self._boot = self._boot, boot or self._boot
        return None not in {before, boot} and before != boot


async def told_conf(client: SlurmClient) -> SlurmConfig | None:
    """Parts of slurm.conf; None where Slurm, or a gateway before it, does not tell them or what it
    tells cannot be read. Nothing may depend on them: a site may let that path be asked by nobody.
    Raises SlurmError where Slurm cannot be asked.
    """
    try:
        return await client.config()
    except SlurmError as error:
        if not await is_withheld(error, client):
            raise
        return None


async def is_withheld(error: SlurmError, client: SlurmClient) -> bool:
    """Whether that answer to a question for slurm.conf is about that question alone: asked again,
    it will most likely get the same. Raises SlurmError where Slurm cannot be asked.
    """
    if isinstance(error, SlurmNoApi):
        await client.negotiate()  # raises where no other path is served either
        return True
    if isinstance(error, SlurmDenied):
        return not error.authentication
    return isinstance(error, SlurmRefused | SlurmGarbled)
