"""KillWait as Slurm has it, beside KillWait as it was set for us: Slurm's own counts.

`/conf` tells it from data_parser v0.0.45 on (Slurm 26.05); with an older Slurm, or where a gateway
lets nobody ask for that path, the setting is all there is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from scheduler.core.reasons import Reason
from scheduler.observe.metrics import Metrics
from scheduler.slurm.boots import is_withheld
from slurmapi import SlurmClient, SlurmError

log = structlog.get_logger(__name__)

_EVERY_SECONDS: Final = 60.0
# At the start pods wait for the answer so long.
_FIRST_SECONDS: Final = 5.0
_AGAIN_SECONDS: Final = 5.0
# One such answer may be a gateway's that is just being set up: what was accepted before by Slurm's
# own KillWait is not judged anew for it.
_WITHHELD_TIMES: Final = 2


class KillWait:
    """Reads KillWait now and then. `on_change` is told of a new one, in seconds, and None where
    Slurm has not answered yet: what was accepted before a restart is not judged by a setting that
    may be wrong. `warn` is told of a reason and a message for people when Slurm's is not what
    `--slurm-kill-wait` says, or when it is withheld.
    """

    def __init__(
        self,
        client: SlurmClient,
        *,
        setting_seconds: int,
        on_change: Callable[[int | None], None],
        warn: Callable[[Reason, str], None],
        metrics: Metrics,
    ) -> None:
        self._client = client
        self._setting = setting_seconds
        self._in_use = setting_seconds
        self._on_change = on_change
        self._warn = warn
        self._metrics = metrics
        self._warned_of = setting_seconds
        self._doubted = False
        self._withheld = 0
        metrics.kill_wait.labels("setting").set(setting_seconds)

    @property
    def seconds(self) -> int:
        """What counts now."""
        return self._in_use

    async def first(self) -> None:
        """Read it once; gives up soon where Slurm does not answer."""
        try:
            async with asyncio.timeout(_FIRST_SECONDS):
                await self._read()
        except (SlurmError, TimeoutError) as error:
            log.warning("slurm's KillWait is not known yet", error=str(error) or "no answer")
            self._doubted = True
            self._on_change(None)

    async def run(self) -> None:
        """Read it again and again, for ever; end it by cancelling."""
        while True:
            await asyncio.sleep(_AGAIN_SECONDS if self._doubted else _EVERY_SECONDS)
            try:
                await self._read()
            except SlurmError as error:
                log.debug("slurm's KillWait cannot be read", error=str(error))

    async def _read(self) -> None:
        try:
            conf = await self._client.config()
        except SlurmError as error:
            if not await is_withheld(error, self._client):
                raise
            self._withheld += 1
            if self._withheld < _WITHHELD_TIMES:
                raise
            self._do_without(error)
            return
        self._withheld = 0
        seconds = None if conf is None else conf.kill_wait
        self._use(self._in_use if seconds is None else seconds)
        if seconds is None:
            return
        self._metrics.kill_wait.labels("slurm").set(seconds)
        self._metrics.kill_wait_mismatch.set(seconds != self._setting)
        if seconds != self._warned_of:
            self._warned_of = seconds
            self._compare(seconds)

    def _do_without(self, error: SlurmError) -> None:
        """What was used last counts: the setting, or what Slurm told before."""
        self._use(self._in_use)
        if self._withheld > _WITHHELD_TIMES:
            return
        log.warning("slurm's KillWait is withheld", used=self._in_use, error=str(error))
        self._warn(
            Reason.KILL_WAIT_WITHHELD,
            f"Slurm's KillWait cannot be read ({error}): grace periods of pods are judged by "
            f"{self._in_use} s; see that --slurm-kill-wait is what `scontrol show config` says",
        )

    def _use(self, seconds: int) -> None:
        if seconds != self._in_use or self._doubted:
            self._in_use, self._doubted = seconds, False
            self._on_change(seconds)

    def _compare(self, seconds: int) -> None:
        if seconds == self._setting:
            log.info("KillWait is what --slurm-kill-wait says", seconds=seconds)
            return
        log.warning(
            "KillWait is not what --slurm-kill-wait says; Slurm's own is used",
            slurm=seconds,
            setting=self._setting,
        )
        self._warn(
            Reason.KILL_WAIT_MISMATCH,
            f"Slurm's KillWait is {seconds} s, --slurm-kill-wait says {self._setting} s; grace "
            "periods of pods are judged by Slurm's",
        )
