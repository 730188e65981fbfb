"""Says on standard error what a command waits for, if that takes longer than two seconds."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from scheduler.view.safe_text import shown

PATIENCE_SECONDS: Final = 2.0


def _nothing() -> str:
    return ""


@contextmanager
def told_if_slow(program: str, what: str, so_far: Callable[[], str] = _nothing) -> Iterator[None]:
    """Within the block it is waited for `what`: after two seconds, and every two seconds, a line
    says so. `so_far` returns how much of it has come, such as "1500 so far"; "" for nothing to
    tell.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    saying: asyncio.TimerHandle

    def say() -> None:
        nonlocal saying
        told = ", ".join(filter(None, (so_far(), f"{loop.time() - began:.0f} s")))
        sys.stderr.write(f"{program}: waiting for {shown(what)} ({told})\n")
        saying = loop.call_later(PATIENCE_SECONDS, say)

    saying = loop.call_later(PATIENCE_SECONDS, say)
    try:
        yield
    finally:
        saying.cancel()
