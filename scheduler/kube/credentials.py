"""Keeps the Authorization header up to date, with never more than one refresh at a time.

The session provides the function that gets the header, from a token file or an exec plugin. If a
refresh fails, the old header stays in use: it may still be valid, and if it is not, the server says
so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

REFRESH_SECONDS = 60.0  # client-go re-reads a token file once a minute
DEADLINE_SECONDS = 30.0  # an exec plugin that asks a cloud for a token takes seconds at most

Reload = Callable[[bool], Awaitable[str | None]]
"""Returns the header's value. The argument True asks for a new value even if the present one has
not expired.
"""

log = structlog.get_logger(__name__)


class Credentials:
    """Holds one Authorization header value (None: none is needed).

    `periodic` says that the source can change by itself, so it is asked again every
    REFRESH_SECONDS; other sources are asked only after the server refused the header.
    """

    def __init__(
        self,
        header: str | None,
        reload: Reload,
        *,
        periodic: bool,
    ) -> None:
        self._header = header
        self._reload = reload
        self._periodic = periodic
        self._lock = asyncio.Lock()
        self._checked_at = asyncio.get_running_loop().time()

    async def header(self) -> str | None:
        """The present value, refreshed when its time has come."""
        if self._periodic and self._due():
            async with self._lock:
                if self._due():
                    await self._refresh(force=False)
        return self._header

    async def renew(self, refused: str | None) -> bool:
        """Get a new value after the server has refused this one. Returns whether the value differs
        now.
        """
        async with self._lock:
            if self._header == refused:
                await self._refresh(force=True)
        return self._header != refused

    def _due(self) -> bool:
        return asyncio.get_running_loop().time() - self._checked_at >= REFRESH_SECONDS

    async def _refresh(self, *, force: bool) -> None:
        self._checked_at = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                self._header = await self._reload(force)
        except (CredentialsError, OSError, TimeoutError) as error:
            log.warning("kubernetes credentials not refreshed", error=str(error) or repr(error))


class CredentialsError(Exception):
    """The source of the credentials does not work; the message says why."""
