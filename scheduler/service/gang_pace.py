"""How soon a large gang gets a pass after one of its pods has changed.

The pods of a large gang change one after the other, for instance when they end, and a pass takes up
to 40 us for each of them (measured). So the pass comes later for each pod, and is one for all that
changed until then. The large gangs of a namespace share one pace: whoever has many of them, and
changes a pod of each again and again, delays the passes of these gangs only.

News of their jobs, and what a pass itself has planned, does not wait here.
"""

from __future__ import annotations

from typing import Final

# How long the changes of one gang are collected, for each of its pods.
COLLECTING_SECONDS_FOR_POD: Final = 0.0005
# How much of its namespace's time a pass takes up, for each pod. It is more than three times what
# the pass takes, so no namespace gets more than a third of the event loop in this way.
SECONDS_FOR_POD: Final = 0.0002
# The same for a gang that has no unit: all its pods are read, which takes 110 us for each.
SECONDS_FOR_UNREAD_POD: Final = 0.0004
# How often what is over is forgotten.
_SWEEP_SECONDS: Final = 60.0


class GangPace:
    """Says when the passes of large gangs are due. The caller passes the time, in seconds."""

    def __init__(self) -> None:
        self._due: dict[str, float] = {}
        """By the key of a gang: when its next pass is due."""
        self._busy_until: dict[str, float] = {}
        """By namespace: when the time is over that the passes of its large gangs take up."""
        self._swept_at = 0.0

    def __len__(self) -> int:
        return len(self._due) + len(self._busy_until)

    def wait(
        self, key: str, namespace: str, *, pods: int, now: float, unread: bool = False
    ) -> float:
        """A pod of this gang, which has so many, has changed. `unread` says that it has no unit.
        Returns after how many seconds the gang gets a pass: at most what a pass of each large gang
        of its namespace takes up, or what its own changes are collected for, whichever is longer.
        """
        due = self._due.get(key, now)
        if due <= now:
            self._sweep(now)
            takes_up = pods * (SECONDS_FOR_UNREAD_POD if unread else SECONDS_FOR_POD)
            over = max(self._busy_until.get(namespace, now), now) + takes_up
            self._busy_until[namespace] = over
            due = self._due[key] = max(over, now + COLLECTING_SECONDS_FOR_POD * pods)
        return due - now

    def _sweep(self, now: float) -> None:
        if now < self._swept_at + _SWEEP_SECONDS:
            return
        self._swept_at = now
        self._due = {key: at for key, at in self._due.items() if at > now}
        self._busy_until = {name: at for name, at in self._busy_until.items() if at > now}
