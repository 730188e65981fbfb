"""Close a server of asyncio without leaving connections open that it has just accepted."""

from __future__ import annotations

import asyncio


async def close(server: asyncio.Server) -> None:
    """Accept nothing more, wait until what was accepted belongs to a transport, then close.

    If `Server.close` is called between the two, such a connection stays open and nobody owns it
    (CPython issue 109564, measured with Python 3.11.7).
    """
    loop = asyncio.get_running_loop()
    for listening in server.sockets:
        loop.remove_reader(listening.fileno())
    await asyncio.sleep(0)
    server.close()
