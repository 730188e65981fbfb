"""A file of lines that a server appends to, read while it does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


class LogFile:
    """Whole lines of it. What only str takes for an end of a line (U+0085, U+2028) is none."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def size(self) -> int:
        """Its bytes by now, which may end within a line."""
        return self.path.stat().st_size if self.path.exists() else 0

    def lines(self, since: int = 0) -> Iterator[bytes]:
        """Those that began after so many bytes and are at their end by now."""
        with self.path.open("rb") as log:
            if since:
                log.seek(since - 1)
                log.readline()
            yield from (line for line in log if line.endswith(b"\n"))
