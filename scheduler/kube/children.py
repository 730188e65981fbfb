"""Ends processes that a library has started and that nobody waits for any more."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def killed_with_us() -> Iterator[None]:
    """If the block is cancelled, kill (SIGKILL) the processes that it has started. Otherwise each
    refresh of a hanging exec plugin would leave one more process behind. This service starts no
    other processes, so every new one belongs to the plugin.
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
    """The child processes of all threads of this process; empty if the kernel does not say."""
    found: set[int] = set()
    for path in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            found |= set(map(int, path.read_text(encoding="ascii").split()))
    return found
