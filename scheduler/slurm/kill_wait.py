"""Reads Slurm's KillWait, which takes precedence over --slurm-kill-wait.

`/conf` has it since data_parser v0.0.45 (Slurm 26.05). With an older Slurm, or if a gateway blocks
that path, only the setting is known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from scheduler.core.event_reasons import Reason
from scheduler.observe.metrics import Metrics
from scheduler.slurm.restarts import is_withheld
from slurmapi import SlurmClient, SlurmError

log = structlog.get_logger(__name__)

_EVERY_SECONDS: Final = 60.0
# At the start pods wait this long for the answer.
_FIRST_SECONDS: Final = 5.0
_AGAIN_SECONDS: Final = 5.0
# A single such answer may come from a gateway that is still being set up. Pods that were accepted
# under Slurm's own KillWait are not judged again because of it.
_WITHHELD_TIMES: Final = 2


class KillWait:
    """Reads KillWait regularly. `on_change` is called with each new value in seconds, and with None
    if Slurm has not answered yet: pods that were accepted before a restart are not judged by a
    setting that may be wrong. `warn` gets a reason and a message for people when Slurm's value
    differs from `--slurm-kill-wait`, or cannot be read.
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
        """The KillWait in use."""
        return self._in_use

    async def first(self) -> None:
        """Read it once; gives up after 5 s without an answer."""
        try:
            async with asyncio.timeout(_FIRST_SECONDS):
                await self._read()
        except (SlurmError, TimeoutError) as error:
            log.warning("slurm's KillWait is not known yet", error=str(error) or "no answer")
            self._doubted = True
            self._on_change(None)

    async def run(self) -> None:
        """Read it regularly, for ever; cancel it to stop."""
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
        """Keep the value that was used last: the setting, or what Slurm answered before."""
        self._use(self._in_use)
        if self._withheld > _WITHHELD_TIMES:
            return
        log.warning("slurm's KillWait is withheld", used=self._in_use, error=str(error))
        self._warn(
            Reason.KILL_WAIT_WITHHELD,
            f"Slurm's KillWait cannot be read ({error}): grace periods of pods are checked against "
            f"{self._in_use} s; make sure that --slurm-kill-wait is what `scontrol show config` "
            "says",
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
            "periods of pods are checked against Slurm's",
        )
