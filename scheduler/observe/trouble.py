"""Why a server (Slurm or Kubernetes) cannot be used now: for /readyz, the log and a metric.

The log gets one line when the trouble begins, one a minute while it lasts, and one when it is over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import structlog

from scheduler.observe.metrics import Metrics

log = structlog.get_logger(__name__)

Server = Literal["slurm", "kubernetes"]

_AGAIN_SECONDS: Final = 60.0
# If troubles come and go, they are logged no more often than this, so that no server can fill the
# log.
_QUIET_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a server cannot be used. `name` is a word out of a closed set, for metrics and alerts;
    `text` tells people what is wrong and what to do about it.
    """

    name: str
    text: str


class Trouble:
    """The trouble with one server. The caller reports each request to it with `saw` or `over`."""

    def __init__(self, server: Server, *, clock: Callable[[], float], metrics: Metrics) -> None:
        self._server: Server = server
        self._clock = clock
        self._metrics = metrics
        self._cause: Cause | None = None
        self._since = 0.0
        self._logged: Cause | None = None
        self._logged_at = float("-inf")

    @property
    def text(self) -> str:
        """What is wrong now and what to do about it; "" while nothing is wrong."""
        return "" if self._cause is None else self._cause.text

    @property
    def seconds(self) -> float:
        """For how many seconds the trouble has lasted; 0 while there is none."""
        return 0.0 if self._cause is None else self._clock() - self._since

    def saw(self, cause: Cause) -> None:
        """A request to the server has just failed for this cause."""
        if self._cause is None:
            self._since = self._clock()
        self._set(cause)
        if self._is_due(cause):
            self._warn(cause)
            self._logged, self._logged_at = cause, self._clock()

    def over(self) -> None:
        """The server has just answered as it should."""
        seconds = self.seconds
        self._set(None)
        if self._logged is not None:
            self._logged, self._logged_at = None, self._clock()
            self._inform(seconds)

    def _is_due(self, cause: Cause) -> bool:
        same = self._logged is not None and self._logged.name == cause.name
        pause = _AGAIN_SECONDS if same else _QUIET_SECONDS
        return self._clock() - self._logged_at >= pause

    def _set(self, cause: Cause | None) -> None:
        for known, value in ((self._cause, 0), (cause, 1)):
            if known is not None:
                self._metrics.trouble.labels(self._server, known.name).set(value)
        self._cause = cause

    def _warn(self, cause: Cause) -> None:
        details = {"cause": cause.name, "why": cause.text, "for_s": round(self.seconds)}
        if self._server == "slurm":
            log.warning("slurm does not answer", **details)
        else:
            log.warning("the kubernetes API server does not answer", **details)

    def _inform(self, seconds: float) -> None:
        if self._server == "slurm":
            log.info("slurm answers again", after_s=round(seconds, 1))
        else:
            log.info("the kubernetes API server answers again", after_s=round(seconds, 1))
