"""The clock of everything that waits: that of the running event loop, which the waits themselves go
by. It is the monotonic one, unless a loop says otherwise.
"""

from __future__ import annotations

import asyncio


def monotonic() -> float:
    """Seconds since some moment; only within an event loop."""
    return asyncio.get_running_loop().time()
