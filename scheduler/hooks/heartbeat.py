"""Whether Slurm's PrologSlurmctld is known to ask our handover guard."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

log = structlog.get_logger(__name__)

_OURS: Final = "slurm-pod-scheduler/prolog-slurmctld.sh"
"""The installation guide puts the script at a path with this end; the setting may be longer."""
HEARD_SECONDS: Final = 24 * 3600.0
"""How long a question counts as evidence. Each start of a job asks one, also that of a placeholder.
So a guard that is installed is known after one job, and a guard that was removed is noticed within
a day, or as soon as `/conf` names no PrologSlurmctld any more.
"""
_LOOK_SECONDS: Final = 2.0


class Heartbeat:
    """`listens` says whether the hooks API is on. `prolog` returns the PrologSlurmctld of
    slurm.conf: empty if there is none, and None if Slurm does not say (before 26.05).
    """

    def __init__(
        self, *, listens: bool, prolog: Callable[[], str | None], clock: Callable[[], float]
    ) -> None:
        self._listens = listens
        self._prolog = prolog
        self._clock = clock
        self._heard_at = float("-inf")

    def beat(self) -> None:
        """Note that the guard was asked, by a caller with the site's secret."""
        self._heard_at = self._clock()

    @property
    def installed(self) -> str:
        """The evidence that the guard is installed, in words; empty if there is none."""
        prolog = self._prolog()
        if not self._listens or prolog == "":
            return ""
        if prolog is not None and _OURS in prolog:
            return f"PrologSlurmctld is {prolog}"
        if self._clock() - self._heard_at < HEARD_SECONDS:
            return "PrologSlurmctld has asked the handover guard"
        return ""

    async def follow(self, on_known: Callable[[], None]) -> None:
        """Look for evidence for ever, and call `on_known` when there is some where there was none;
        cancel it to stop.
        """
        known = ""
        while True:
            now = self.installed
            if now and not known:
                log.info("the handover guard is known to be installed", because=now)
                on_known()
            elif known and not now:
                log.warning("the handover guard is not known to be installed any more")
            known = now
            await asyncio.sleep(_LOOK_SECONDS)
