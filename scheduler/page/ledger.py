"""Lines in the order of their last change, so that each reader gets what it has not read yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

MOST_REMOVED: Final = 20_000
"""How many removals are remembered. A reader that is further behind has to begin again."""


class Line(NamedTuple):
    """One thing as JSON, or that it is gone. `scope` is the namespace whose readers may see it, ""
    for a node. `version` grows with each change of any line.
    """

    key: str
    version: int
    scope: str
    data: bytes
    gone: bool


class Ledger:
    """Lines by key. `floor` is the version before which removals are forgotten."""

    def __init__(self) -> None:
        self._lines: dict[str, Line] = {}
        self._removed = 0
        self.version = 0
        self.floor = 0
        # The last answer, after which version and at which: most readers are equally far.
        self._answer: tuple[int, int, Sequence[Line]] = (0, 0, ())

    def __len__(self) -> int:
        return len(self._lines) - self._removed

    def put(self, key: str, data: bytes, *, scope: str) -> None:
        """Write a line; nothing changes if it is there already."""
        known = self._lines.get(key)
        if known is None or known.data != data or known.gone:
            self._write(key, data, scope=scope, gone=False)

    def remove(self, key: str, data: bytes) -> None:
        """Write in place of the line that it is gone, as `data`."""
        known = self._lines.get(key)
        if known is not None and not known.gone:
            self._write(key, data, scope=known.scope, gone=True)
            self._forget()

    def since(self, version: int) -> Sequence[Line]:
        """The lines that have changed after that version, in the order of their changes. After 0
        those that are gone are left out. Many readers who ask the same get the same answer.
        """
        if self._answer[:2] != (version, self.version):
            self._answer = (version, self.version, tuple(self._since(version)))
        return self._answer[2]

    def _since(self, version: int) -> list[Line]:
        found = []
        for line in reversed(self._lines.values()):
            if line.version <= version:
                break
            if version or not line.gone:
                found.append(line)
        found.reverse()
        return found

    def _write(self, key: str, data: bytes, *, scope: str, gone: bool) -> None:
        known = self._lines.pop(key, None)
        self._removed += gone - (known is not None and known.gone)
        self.version += 1
        self._lines[key] = Line(key, self.version, scope, data, gone)

    def _forget(self) -> None:
        """Forget half of the removals, the oldest first, once there are too many."""
        if self._removed <= MOST_REMOVED:
            return
        oldest = [it for it in self._lines.values() if it.gone][: MOST_REMOVED // 2]
        for line in oldest:
            del self._lines[line.key]
        self._removed -= len(oldest)
        self.floor = oldest[-1].version
