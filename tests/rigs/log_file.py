"""Reads a log file while a server appends lines to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


class LogFile:
    """Its complete lines. U+0085 and U+2028, at which str.splitlines splits, end no line here."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def size(self) -> int:
        """Its present size in bytes, which may end within a line."""
        return self.path.stat().st_size if self.path.exists() else 0

    def lines(self, since: int = 0) -> Iterator[bytes]:
        """The lines that begin after the first `since` bytes and are complete by now."""
        with self.path.open("rb") as log:
            if since:
                log.seek(since - 1)
                log.readline()
            yield from (line for line in log if line.endswith(b"\n"))
