"""A resolver that knows at once which names do not exist, whatever network a test runs in."""

from __future__ import annotations

import socket
from typing import Any

import pytest


def lose_reserved_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have names in `.invalid`, which nobody may register, not found without asking a server.

    A server of names may be slow or out of reach, and then its silence would be told instead.
    """
    resolve = socket.getaddrinfo

    def answer(host: Any, *arguments: Any, **named: Any) -> Any:
        if str(host).endswith(".invalid"):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return resolve(host, *arguments, **named)

    monkeypatch.setattr(socket, "getaddrinfo", answer)
