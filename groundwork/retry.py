"""The one retry policy for requests to any server.

It is only for idempotent calls inside an adapter, and tries a few times within a few seconds. Which
calls those are: `slurmapi/session.py`, `scheduler/kube/api.py`. For how long they are repeated:
`slurmapi/client.py`, `scheduler/service/app.py`. Which errors allow it: `retryable` in
`slurmapi/errors.py`, `scheduler/kube/errors.py`. Longer pauses, after which a unit comes back, are
listed in `scheduler/core/backoff.py`. Tenacity's own defaults retry without pause and without end,
ignore Retry-After, and wrap the error; this policy does none of that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

import tenacity
from tenacity.wait import wait_base

T = TypeVar("T")

ATTEMPTS: Final = 3
_JITTER: Final = tenacity.wait_random_exponential(multiplier=0.1, max=2.0)


class RetryPolicy(Protocol):
    """Runs an idempotent call until it succeeds or the policy gives up with its last error."""

    async def __call__(self, call: Callable[[], Awaitable[T]], /) -> T:
        """The call's result."""
        ...


async def once(call: Callable[[], Awaitable[T]], /) -> T:
    """The policy of a caller that repeats by itself: call once."""
    return await call()


def retry_policy(*errors: type[Exception], total_seconds: float = 10.0) -> RetryPolicy:
    """A policy that retries errors of these types whose `retryable` is true, ATTEMPTS times in all.

    Pauses are exponential with full jitter, and never shorter than the error's `retry_after`
    seconds. If the next pause would exceed `total_seconds`, the last error is raised unchanged. A
    try is never interrupted: requests have their own deadlines.
    """

    def worth_it(error: BaseException) -> bool:
        return isinstance(error, errors) and bool(getattr(error, "retryable", True))

    async def run(call: Callable[[], Awaitable[T]], /) -> T:
        clock = asyncio.get_running_loop().time
        give_up_at = clock() + total_seconds

        def enough(state: tenacity.RetryCallState) -> bool:
            too_late = clock() + state.upcoming_sleep > give_up_at
            return too_late or state.attempt_number >= ATTEMPTS

        # Nearly always the first try succeeds, and without a failure tenacity only takes time: a
        # quarter of what a request costs this process (measured).
        try:
            return await call()
        except errors as error:
            failed: Exception | None = error

        async def attempt() -> T:
            nonlocal failed
            if failed is not None:
                first, failed = failed, None
                raise first
            return await call()

        return await tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(worth_it),
            stop=enough,
            wait=_PoliteWait(),
            sleep=asyncio.sleep,
            reraise=True,
        )(attempt)

    return run


class _PoliteWait(wait_base):
    """Full jitter, but at least the pause that the server asked for."""

    def __call__(self, retry_state: tenacity.RetryCallState) -> float:
        error = None if retry_state.outcome is None else retry_state.outcome.exception()
        asked = getattr(error, "retry_after", None)
        return max(_JITTER(retry_state), float(asked or 0.0))
