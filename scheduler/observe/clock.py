"""The clock of the running event loop. All code that waits uses it, because the loop times the
waits. It is the monotonic clock unless the loop has another one.
"""

from __future__ import annotations

import asyncio


def monotonic() -> float:
    """Seconds since an arbitrary moment. Works only within an event loop."""
    return asyncio.get_running_loop().time()
