"""Whether the API server is of use, as all requests of a session tell it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scheduler.kube.causes import cause_of
from scheduler.kube.errors import KubeError, KubeRefused
from scheduler.observe.clock import monotonic
from scheduler.observe.metrics import Metrics
from scheduler.observe.trouble import Trouble


class KubeLink:
    """`heard` is for the session's `on_answer`; `server` is where that leads."""

    def __init__(self, metrics: Metrics, *, clock: Callable[[], float] = monotonic) -> None:
        self._trouble = Trouble("kubernetes", clock=clock, metrics=metrics)
        self.server = ""

    def heard(self, error: KubeError | None) -> None:
        """How a request went."""
        cause = None if error is None else cause_of(error, server=self.server)
        if cause is not None:
            self._trouble.saw(cause)
        elif not (isinstance(error, KubeRefused) and error.maybe_applied):
            self._trouble.over()  # also a refusal is an answer, but for one of a gateway

    def not_ready(self, *, after_seconds: float = 0.0) -> list[str]:
        """What is wrong, where it has been for so long."""
        told = self._trouble.text
        return [told] if told and self._trouble.seconds >= after_seconds else []


class Standing:
    """What /readyz says: first what the start waits for, then what the service says."""

    def __init__(self, waits_for: Callable[[], Sequence[str]]) -> None:
        self._waits_for = waits_for
        self.service: Callable[[], Sequence[str]] | None = None

    def not_ready(self) -> Sequence[str]:
        """All that is missing."""
        if self.service is not None:
            return self.service()
        return self._waits_for() or ["the start is not over yet"]
