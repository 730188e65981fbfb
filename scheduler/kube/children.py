"""Processes that a library starts for us and leaves behind when we give up waiting for them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def killed_with_us() -> Iterator[None]:
    """Where the block is cancelled, what it has started is killed (SIGKILL).

    Each refresh of a hanging exec plugin would leave one more process behind. This service starts
    no other processes, so what is new is the plugin.
    """
    before = _children()
    try:
        yield
    except asyncio.CancelledError:
        for pid in _children() - before:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        raise


def _children() -> set[int]:
    """Of all our threads; none where the kernel does not tell."""
    found: set[int] = set()
    for path in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            found |= set(map(int, path.read_text(encoding="ascii").split()))
    return found
