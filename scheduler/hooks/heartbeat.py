"""Whether Slurm's PrologSlurmctld is known to ask our handover guard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_OURS: Final = "slurm-pod-scheduler/prolog-slurmctld.sh"
"""The end of the path at which the installation guide puts the script."""
HEARD_SECONDS: Final = 24 * 3600.0
"""A question counts for so long. Every start of a job asks one, ours too: a guard that is there is
known again after one job, and one that is gone is missed within a day, or as soon as `/conf` names
no PrologSlurmctld any more.
"""


class Heartbeat:
    """`listens`: whether the hooks API is on. `prolog` tells slurm.conf's PrologSlurmctld, empty
    where there is none, and None where Slurm does not say (before 26.05).
    """

    def __init__(
        self, *, listens: bool, prolog: Callable[[], str | None], clock: Callable[[], float]
    ) -> None:
        self._listens = listens
        self._prolog = prolog
        self._clock = clock
        self._heard_at = float("-inf")

    def beat(self) -> None:
        """The guard has been asked, with the site's secret."""
        self._heard_at = self._clock()

    @property
    def installed(self) -> str:
        """How it is known that the guard is installed; empty where it is not known."""
        prolog = self._prolog()
        if not self._listens or prolog == "":
            return ""
        if prolog is not None and _OURS in prolog:
            return f"PrologSlurmctld is {prolog}"
        if self._clock() - self._heard_at < HEARD_SECONDS:
            return "PrologSlurmctld has asked the handover guard"
        return ""
