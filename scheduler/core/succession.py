"""When pods of one controller end too soon, each in the place of the one before, the next waits.

A controller makes it at once, however often that has failed, and each would cost Slurm a job. So
its job is held back as a kubelet holds back a container that crashes: not at all after the first
early end, then for 10 s, twice as long each time, and five minutes at most.

One early end holds back one pod and no more. Whatever a bad pod does, the good ones of its
controller wait for nothing, nor does what is added to them; what lives for a minute is no bad one.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Final

from scheduler.core.backoff import doubled

# What has been on its Node for so long has not failed at once, and jobs that come one a minute are
# no flood.
TOO_SOON_SECONDS: Final = 60.0
# Those of CrashLoopBackOff.
_FIRST_SECONDS: Final = 10.0
_LONGEST_SECONDS: Final = 300.0
# A controller that waits by itself makes the next pod late, a batch Job after ten minutes.
KEPT_SECONDS: Final = 900.0
MOST: Final = 10_000


@dataclass(frozen=True, slots=True)
class PodController:
    """Who makes the pods; where they bear a `revision` of its template, another one begins anew."""

    uid: str
    revision: str = ""
    called: str = field(default="", compare=False)  # is told, and changes nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Forerunner:
    """The last of `times` pods in a row that ended too soon. What comes in its place asks for no
    job before `until`; `message` says why.
    """

    times: int
    noted_at: float
    until: float
    message: str


def pause_seconds(times: int) -> float:
    """How long the next one waits after so many early ends in a row."""
    if times < 2:
        return 0.0
    return doubled(_FIRST_SECONDS, times - 2, longest_seconds=_LONGEST_SECONDS)


class Succession:
    """The pods that ended too soon and have no successor yet. All times are of one clock."""

    def __init__(self) -> None:
        self._open: OrderedDict[int, tuple[PodController, Forerunner]] = OrderedDict()
        self._by_controller: dict[PodController, deque[int]] = {}
        self._notes = 0

    def __len__(self) -> int:
        return len(self._open)

    def note(self, controller: PodController, forerunner: Forerunner) -> None:
        """A pod has ended too soon. Of very many the oldest are forgotten."""
        self._forget(forerunner.noted_at - KEPT_SECONDS)
        if len(self._open) >= MOST:
            self._pop(self._oldest()[0])
        self._notes += 1
        self._open[self._notes] = (controller, forerunner)
        self._by_controller.setdefault(controller, deque()).append(self._notes)

    def take(self, controller: PodController, now: float) -> Forerunner | None:
        """In whose place a new pod of the controller comes, None where in that of none."""
        self._forget(now - KEPT_SECONDS)
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
