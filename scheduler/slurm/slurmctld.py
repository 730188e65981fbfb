"""Facts about slurmctld: when it started, and how long it remembers jobs that have ended.

`/conf` has them since data_parser v0.0.45 (Slurm 26.05). With an older Slurm, a restart is possible
whenever slurmctld did not answer. `restarts.py` lists what a restart and a lost state change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import structlog

from scheduler.core.event_reasons import Reason
from scheduler.slurm.restarts import conf_if_shown
from slurmapi import SlurmClient, SlurmConfig, SlurmError, SlurmUnreachable

log = structlog.get_logger(__name__)

_EVERY_SECONDS: Final = 60.0
_FIRST_SECONDS: Final = 5.0
# One answer serves all callers within this time.
_FRESH_SECONDS: Final = 2.0
LEAST_JOB_AGE: Final = 60
"""With a shorter MinJobAge Slurm may forget how a job ended before we have read it: an idle pulse
comes within 2 s, with a slow Slurm every 30 s, and the look comes after the pulse. But with 0 Slurm
forgets no job (slurm.conf(5)).
"""


class Slurmctld:
    """`failed_at` returns when Slurm last failed to answer, or None if it never did. `warn` writes
    an Event on our own pod.
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
        """When slurmctld started, in Unix seconds, to distinguish one start from another; None if
        unknown.
        """
        self.min_job_age: int | None = None
        """Slurm's MinJobAge in seconds, 0 if it forgets no job; None if unknown."""
        self.prolog: str | None = None
        """Slurm's PrologSlurmctld, "" if there is none; None if unknown."""
        self.accounting_storage: str | None = None
        """Slurm's AccountingStorageType; None if unknown."""

    @property
    def doubted_at(self) -> float:
        """The last time at which slurmctld may have restarted, by `clock`."""
        if self.boot is not None:
            return self._booted_at
        failed_at = self._failed_at()
        return self._started_at if failed_at is None else max(self._started_at, failed_at)

    async def run(self) -> None:
        """Ask regularly, for ever; cancel it to stop."""
        while True:
            try:
                await self.ask()
            except SlurmError as error:
                log.debug("slurm's configuration cannot be read", error=str(error))
            await asyncio.sleep(_EVERY_SECONDS)

    async def at_start(self) -> None:
        """Ask, if nothing is known yet; gives up after 5 s without an answer."""
        with suppress(SlurmError, TimeoutError):
            async with asyncio.timeout(_FIRST_SECONDS):
                await self.first()

    async def first(self) -> None:
        """Ask, if nothing is known yet. Raises SlurmError."""
        if self._asked_at == float("-inf"):
            await self.ask()

    async def ask(self) -> None:
        """Read everything again. Raises SlurmError if the controller does not answer."""
        async with self._asking:
            if self._clock() - self._asked_at < _FRESH_SECONDS:
                return
            ping = await self._client.ping()
            if not ping.responding:
                raise SlurmUnreachable(ping.status)
            conf = await conf_if_shown(self._client)
            self._note_boot(conf)
            self._note_age(None if conf is None else conf.min_job_age)
            self.prolog = None if conf is None else conf.prolog_slurmctld
            self.accounting_storage = None if conf is None else conf.accounting_storage
            self._asked_at = self._clock()

    def _note_boot(self, conf: SlurmConfig | None) -> None:
        """Note when slurmctld started. Slurm's own clock says how long ago that was; if that clock
        has been set back since, the start seems later than it was, which errs on the side of doubt.
        A new start happened after the former one was last seen, and before now.
        """
        boot = None if conf is None else conf.boot_time
        if conf is not None and boot is not None and boot != self.boot:
            now = self._clock()
            age = max(0, (conf.answered_at or 0) - boot)
            earliest = float("-inf") if self.boot is None else self._asked_at
            self._booted_at = max(now - age, earliest)
        self.boot = boot

    def _note_age(self, seconds: int | None) -> None:
        former, self.min_job_age = self.min_job_age, seconds
        if not seconds or seconds == former or seconds >= LEAST_JOB_AGE:
            return
        message = (
            f"Slurm's MinJobAge is {seconds} s: set it to at least {LEAST_JOB_AGE} s, else Slurm "
            "forgets how a job ended before that is read, and its pod runs on"
        )
        self._warn(Reason.MIN_JOB_AGE_SHORT, message)
        log.warning("slurm's MinJobAge is too short", seconds=seconds, least=LEAST_JOB_AGE)
