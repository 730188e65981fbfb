"""Says on standard error what a command waits for, if that takes longer than two seconds."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from scheduler.view.safe_text import shown

_PATIENCE_SECONDS: Final = 2.0


@contextmanager
def told_if_slow(program: str, what: str, come: Callable[[], int] = lambda: 0) -> Iterator[None]:
    """Within the block it is waited for `what`: after two seconds, and every two seconds, a line
    says so, and how many have `come`, if any.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    saying: asyncio.TimerHandle

    def say() -> None:
        nonlocal saying
        count = come()
        so_far = f"{count} so far, " if count else ""
        seconds = f"{loop.time() - began:.0f} s"
        sys.stderr.write(f"{program}: waiting for {shown(what)} ({so_far}{seconds})\n")
        saying = loop.call_later(_PATIENCE_SECONDS, say)

    saying = loop.call_later(_PATIENCE_SECONDS, say)
    try:
        yield
    finally:
        saying.cancel()
