"""Repeating requests that may be repeated, for clients that are given no policy of their own.

A policy is handed to SlurmClient, so that a service can have one of its own for all its clients.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    stop_before_delay,
    wait_random_exponential,
)

from slurmapi.errors import SlurmError

T = TypeVar("T")

_LONGEST_WAIT: Final = 2.0


class RetryPolicy(Protocol):
    """Runs an idempotent call until it succeeds or the policy gives up with its last error."""

    async def __call__(self, call: Callable[[], Awaitable[T]], /) -> T:
        """The call's result."""
        ...


class Persistent:
    """Up to `attempts` tries with full jitter between them, no new one later than `seconds` after
    the first.

    Only errors that say so themselves are retried, and not those that ask for a longer pause than
    is left here; anything else, cancellation above all, passes at once. Worst case is `seconds`
    plus one request's own total deadline.
    """

    def __init__(self, *, attempts: int = 3, seconds: float = 5.0) -> None:
        self._attempts = attempts
        self._seconds = seconds

    async def __call__(self, call: Callable[[], Awaitable[T]], /) -> T:
        """The call's result."""
        retrying = AsyncRetrying(
            stop=stop_after_attempt(self._attempts) | stop_before_delay(self._seconds),
            wait=_pause,
            retry=retry_if_exception(_worth_another_try),
            reraise=True,
        )
        return await retrying(call)


async def once(call: Callable[[], Awaitable[T]], /) -> T:
    """The policy of a caller that does its own repeating: the call, one time."""
    return await call()


_jitter = wait_random_exponential(multiplier=0.2, max=_LONGEST_WAIT)


def _pause(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after if isinstance(error, SlurmError) else None
    return asked if asked is not None else _jitter(state)


def _worth_another_try(error: BaseException) -> bool:
    return (
        isinstance(error, SlurmError)
        and error.retryable
        and (error.retry_after or 0.0) <= _LONGEST_WAIT
    )
