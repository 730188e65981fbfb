"""File descriptors: raises the process's limit, and logs in few lines that none is free."""

from __future__ import annotations

import asyncio
import errno
import resource
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import structlog

log = structlog.get_logger(__name__)

_ENOUGH: Final = 65_536
_SAY_SECONDS: Final = 60.0
_USED_UP: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


def raise_limit() -> None:
    """Raise the soft limit to the hard limit, at most 65 536. Many systems start processes with
    1024, for programs that use select().
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def descriptors() -> int:
    """How many file descriptors the process may have open."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _ENOUGH if soft == resource.RLIM_INFINITY else soft


class AcceptErrors:
    """The loop's handler of errors that nobody awaits.

    When accept() finds no descriptor, each listener pauses for a second, and reports the error
    after each pause. One line a minute is enough.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._said_at = float("-inf")

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle one error that nobody awaits."""
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in _USED_UP:
            loop.default_exception_handler(context)
        elif self._clock() - self._said_at >= _SAY_SECONDS:
            self._said_at = self._clock()
            log.warning("connections are not accepted for a while", error=error.strerror)
