"""Sends an answer no faster than its caller takes it, so that a caller who reads nothing costs
little memory, and not for long.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from aiohttp import web

SEND_SECONDS: Final = 10.0
"""In this time a caller must take an answer."""
# aiohttp waits for the caller after each write of more than 64 KiB.
_PART: Final = 80 * 1024


async def send(
    request: web.Request, response: web.StreamResponse, body: bytes
) -> web.StreamResponse:
    """Send the body, which callers may share, as this response, and close the connection. Returns
    once the kernel has taken all of it. Whoever does not take it in time is disconnected.
    """
    response.force_close()
    response.content_length = len(body)
    waits_for_all(request)
    with suppress(ConnectionError):
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await response.prepare(request)
                if request.method != "HEAD":
                    await _write(response, body)
        except TimeoutError:
            disconnect(request)
    return response


async def end(request: web.Request, response: web.StreamResponse) -> None:
    """Send the end of a response whose parts were sent. Whoever does not take it in time is
    disconnected.
    """
    with suppress(ConnectionError):
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await response.write_eof()
        except TimeoutError:
            disconnect(request)


def waits_for_all(request: web.Request) -> None:
    """From now on, a write to the caller is over when the kernel has taken all of it; what is
    usual is that 64 KiB are left in this process.
    """
    if request.transport is not None:
        request.transport.set_write_buffer_limits(high=0)


def disconnect(request: web.Request) -> None:
    """Close the connection at once, with what was not sent."""
    if request.transport is not None:
        request.transport.abort()


async def _write(response: web.StreamResponse, body: bytes) -> None:
    whole = memoryview(body)
    last = max(0, len(body) - 1) // _PART * _PART
    for begin in range(0, last, _PART):
        await response.write(whole[begin : begin + _PART])
    await response.write_eof(bytes(whole[last:]))
