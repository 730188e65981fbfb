"""Which start of slurmctld answers, since when, and how long it remembers jobs that have ended.

`/conf` tells it from data_parser v0.0.45 on (Slurm 26.05). With an older Slurm any silence may have
been a restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from scheduler.core.reasons import Reason
from scheduler.slurm.boots import told_conf
from slurmapi import SlurmClient, SlurmConfig, SlurmError, SlurmUnreachable

log = structlog.get_logger(__name__)

_EVERY_SECONDS: Final = 60.0
# What is read once serves all that ask meanwhile.
_FRESH_SECONDS: Final = 2.0
LEAST_JOB_AGE: Final = 60
"""With a shorter MinJobAge Slurm may have forgotten how a job ended before anybody has read it: an
idle pulse comes every 2 s, one of a slow Slurm every 30 s, and after that comes a look.
"""


class Slurmctld:
    """`failed_at` tells when Slurm last failed to answer, None for never; `warn` writes an Event on
    our own pod.
    """

    def __init__(
        self,
        client: SlurmClient,
        *,
        failed_at: Callable[[], float | None],
        warn: Callable[[Reason, str], None],
        clock: Callable[[], float],
    ) -> None:
        self._client = client
        self._failed_at = failed_at
        self._warn = warn
        self._clock = clock
        self._started_at = clock()
        self._asking = asyncio.Lock()
        self._asked_at = float("-inf")
        self._booted_at = float("-inf")
        self.boot: int | None = None
        """Tells one start of slurmctld from another; None where it is not known."""
        self.min_job_age: int | None = None
        """Slurm's MinJobAge in seconds; None where it is not known."""
        self.prolog: str | None = None
        """Slurm's PrologSlurmctld, empty without one; None where it is not known."""
        self.accounting_storage: str | None = None
        """Slurm's AccountingStorageType; None where it is not known."""

    @property
    def doubted_at(self) -> float:
        """Until when it was in doubt whether the slurmctld that answers is the one of before."""
        if self.boot is not None:
            return self._booted_at
        failed_at = self._failed_at()
        return self._started_at if failed_at is None else max(self._started_at, failed_at)

    async def run(self) -> None:
        """Ask now and then, for ever; end it by cancelling."""
        while True:
            try:
                await self.ask()
            except SlurmError as error:
                log.debug("slurm's configuration cannot be read", error=str(error))
            await asyncio.sleep(_EVERY_SECONDS)

    async def first(self) -> None:
        """Ask where nothing is known yet. Raises SlurmError."""
        if self._asked_at == float("-inf"):
            await self.ask()

    async def ask(self) -> None:
        """Learn how it is now. Raises SlurmError where the controller does not answer."""
        async with self._asking:
            if self._clock() - self._asked_at < _FRESH_SECONDS:
                return
            ping = await self._client.ping()
            if not ping.responding:
                raise SlurmUnreachable(ping.status)
            conf = await told_conf(self._client)
            self._note_boot(conf)
            self._note_age(None if conf is None else conf.min_job_age)
            self.prolog = None if conf is None else conf.prolog_slurmctld
            self.accounting_storage = None if conf is None else conf.accounting_storage
            self._asked_at = self._clock()

    def _note_boot(self, conf: SlurmConfig | None) -> None:
        """How long ago it was Slurm's own clock tells; one that was set back since makes it later
        than it was, which doubts more. A boot that was seen to change came after the last time that
        the former one was seen, and before now.
        """
        boot = None if conf is None else conf.boot_time
        if conf is not None and boot is not None and boot != self.boot:
            now = self._clock()
            age = max(0, (conf.told_at or 0) - boot)
            earliest = float("-inf") if self.boot is None else self._asked_at
            self._booted_at = max(now - age, earliest)
        self.boot = boot

    def _note_age(self, seconds: int | None) -> None:
        former, self.min_job_age = self.min_job_age, seconds
        if seconds is None or seconds == former or seconds >= LEAST_JOB_AGE:
            return
        told = (
            f"Slurm's MinJobAge is {seconds} s: set it to at least {LEAST_JOB_AGE} s, else Slurm "
            "forgets how a job ended before that is read, and its pod runs on"
        )
        self._warn(Reason.MIN_JOB_AGE_SHORT, told)
        log.warning("slurm's MinJobAge is too short", seconds=seconds, least=LEAST_JOB_AGE)
