"""A syslog daemon for a rig: a socket that anybody may write to, and what was written."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Final

_LARGEST: Final = 64 * 1024


class Syslog:
    """Listens at `path` from now until `close`."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        path.chmod(0o666)
        self._lines: list[str] = []
        self._thread = threading.Thread(target=self._listen, name=str(path), daemon=True)
        self._thread.start()

    @property
    def text(self) -> str:
        """One line for each message."""
        return "\n".join(self._lines)

    def close(self) -> None:
        """Stop listening."""
        self._socket.shutdown(socket.SHUT_RD)
        self._thread.join()
        self._socket.close()

    def _listen(self) -> None:
        while message := self._socket.recv(_LARGEST):
            self._lines.append(message.decode(errors="replace"))
