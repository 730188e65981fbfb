"""If pods of one controller end too soon one after the other, the next one has to wait.

A controller replaces a failed pod at once, however often it fails, and each new pod would cost
Slurm a job. So its job is held back as a kubelet holds back a crashing container: not at all after
the first early end, then for 10 s, and twice as long each time, up to five minutes.

One early end holds back exactly one pod. Healthy pods of the same controller, and pods that are
added, do not wait. A pod that lives for a minute does not count as ended too soon.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Final

from scheduler.core.backoff import doubled

# A pod that was on its Node for this long did not fail at once, and one job a minute is no flood.
TOO_SOON_SECONDS: Final = 60.0
# The values of CrashLoopBackOff.
_FIRST_SECONDS: Final = 10.0
_LONGEST_SECONDS: Final = 300.0
# Some controllers wait themselves before they make the next pod; a batch Job waits up to ten
# minutes.
FORERUNNER_SECONDS: Final = 900.0
MOST_FORERUNNERS: Final = 10_000


@dataclass(frozen=True, slots=True)
class PodController:
    """The controller of pods. If its pods have a `revision` of their template, a new revision
    starts again. The uid alone would not do: a pod's author can write that of a controller in
    another namespace, whose pods would then wait.
    """

    namespace: str
    uid: str
    revision: str = ""
    called: str = field(default="", compare=False)  # only for messages


@dataclass(frozen=True, slots=True, kw_only=True)
class Forerunner:
    """The last of `times` pods in a row that ended too soon. The pod that replaces it submits no
    job before `until`; `message` says why.
    """

    times: int
    noted_at: float
    until: float
    message: str


def pause_seconds(times: int) -> float:
    """How long the next pod waits after this many early ends in a row."""
    if times < 2:
        return 0.0
    return doubled(_FIRST_SECONDS, times - 2, longest_seconds=_LONGEST_SECONDS)


class Succession:
    """Pods that ended too soon and have not been replaced yet. All times are of one clock."""

    def __init__(self) -> None:
        self._open: OrderedDict[int, tuple[PodController, Forerunner]] = OrderedDict()
        self._by_controller: dict[PodController, deque[int]] = {}
        self._notes = 0

    def __len__(self) -> int:
        return len(self._open)

    def note(self, controller: PodController, forerunner: Forerunner) -> None:
        """A pod has ended too soon. If there are too many, the oldest are forgotten."""
        self._forget(forerunner.noted_at - FORERUNNER_SECONDS)
        if len(self._open) >= MOST_FORERUNNERS:
            self._pop(self._oldest()[0])
        self._notes += 1
        self._open[self._notes] = (controller, forerunner)
        self._by_controller.setdefault(controller, deque()).append(self._notes)

    def take(self, controller: PodController, now: float) -> Forerunner | None:
        """The pod that a new pod of this controller replaces; None if there is none."""
        self._forget(now - FORERUNNER_SECONDS)
        return self._pop(controller) if controller in self._by_controller else None

    def _oldest(self) -> tuple[PodController, Forerunner]:
        return next(iter(self._open.values()))

    def _pop(self, controller: PodController) -> Forerunner:
        line = self._by_controller[controller]
        _controller, forerunner = self._open.pop(line.popleft())
        if not line:
            del self._by_controller[controller]
        return forerunner

    def _forget(self, before: float) -> None:
        while self._open and self._oldest()[1].noted_at < before:
            self._pop(self._oldest()[0])
