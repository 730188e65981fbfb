"""Asks the scheduler that runs on this machine, or in this pod, whether it is ready."""

from __future__ import annotations

import asyncio
from typing import Final

import aiohttp

from scheduler.config.settings import Address
from scheduler.doctor.asking import Progress
from scheduler.doctor.facts import Running, Unread

_SECONDS: Final = 5.0
_MOST_BYTES: Final = 16 * 1024
_READY: Final = 200
_NOT_READY: Final = 503
_ANYWHERE: Final = frozenset({None, "", "0.0.0.0", "::"})  # noqa: S104 - to be replaced


async def running_scheduler(
    address: Address | None, *, progress: Progress
) -> Running | Unread | None:
    """What its /readyz answers; None if nothing listens there, or if it is turned off."""
    if address is None:
        return None
    host = "127.0.0.1" if address.host in _ANYWHERE else address.host
    url = f"http://{f'[{host}]' if ':' in str(host) else host}:{address.port}/readyz"
    try:
        with progress.waiting(f"the scheduler at {url}"):
            async with asyncio.timeout(_SECONDS), aiohttp.ClientSession() as session:
                return await _ask(session, url)
    except aiohttp.ClientConnectorError:
        return None
    except (TimeoutError, OSError, aiohttp.ClientError, ValueError) as error:
        return Unread(
            f"{url} does not answer as a scheduler does: {str(error) or 'no answer in time'}"
        )


async def _ask(session: aiohttp.ClientSession, url: str) -> Running | Unread:
    async with session.get(url, allow_redirects=False) as response:
        text = (await response.content.read(_MOST_BYTES)).decode(errors="replace")
        if response.status not in {_READY, _NOT_READY}:
            return Unread(f"{url} answers {response.status}, as no scheduler does")
        return Running(url, response.status == _READY, tuple(text.splitlines()))
