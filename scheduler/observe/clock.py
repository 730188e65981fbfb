"""The clock for everything that waits: that of the running event loop, which also times the waits.
It is the monotonic clock unless the loop has another one.
"""

from __future__ import annotations

import asyncio


def monotonic() -> float:
    """Seconds since an arbitrary moment. Works only within an event loop."""
    return asyncio.get_running_loop().time()
