"""Tells from the requests of a session whether the API server can be used."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scheduler.kube.causes import cause_of
from scheduler.kube.errors import KubeError, KubeRefused
from scheduler.observe.metrics import Metrics
from scheduler.observe.trouble import Trouble


class KubeLink:
    """The present trouble with the API server, if any. The session calls `heard` after each request
    (as its `on_answer`). `server` is the server's address, for messages.
    """

    def __init__(self, metrics: Metrics, *, clock: Callable[[], float]) -> None:
        self._trouble = Trouble("kubernetes", clock=clock, metrics=metrics)
        self.server = ""

    def heard(self, error: KubeError | None) -> None:
        """Note the outcome of a request: its error, or None if it succeeded."""
        cause = None if error is None else cause_of(error, server=self.server)
        if cause is not None:
            self._trouble.saw(cause)
        elif not (isinstance(error, KubeRefused) and error.maybe_applied):
            self._trouble.over()  # a refusal is an answer too, unless a gateway gave it

    def not_ready(self, *, after_seconds: float = 0.0) -> list[str]:
        """A text that says what is wrong; empty list if nothing is, or for less than
        `after_seconds`.
        """
        text = self._trouble.text
        return [text] if text and self._trouble.seconds >= after_seconds else []


class Standing:
    """The reasons that /readyz gives. During the start they say what the start waits for; then the
    service provides them.
    """

    def __init__(self, waits_for: Callable[[], Sequence[str]]) -> None:
        self._waits_for = waits_for
        self.service: Callable[[], Sequence[str]] | None = None

    def not_ready(self) -> Sequence[str]:
        """All reasons why the process is not ready."""
        if self.service is not None:
            return self.service()
        return self._waits_for() or ["the start is not over yet"]
