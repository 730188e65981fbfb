"""The one policy repeats what may be repeated, a few times, and nothing else."""

from __future__ import annotations

import asyncio

import pytest

from groundwork.retry import ATTEMPTS, once, retry_policy

pytestmark = pytest.mark.looptime


class TroubleError(Exception):
    def __init__(self, *, retryable: bool = True, retry_after: float | None = None) -> None:
        super().__init__("trouble")
        self.retryable = retryable
        self.retry_after = retry_after


class Call:
    """Fails with each of the errors in turn, then answers."""

    def __init__(self, *errors: BaseException, seconds: float = 0.0) -> None:
        self.errors = list(errors)
        self.seconds = seconds
        self.tries: list[float] = []

    async def __call__(self) -> str:
        self.tries.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self.seconds)
        if self.errors:
            raise self.errors.pop(0)
        return "answer"


async def test_retries_until_it_works_with_a_pause_each_time() -> None:
    call = Call(TroubleError(), TroubleError())
    assert await retry_policy(TroubleError)(call) == "answer"
    assert len(call.tries) == 3
    assert call.tries[-1] > call.tries[0]


async def test_gives_up_after_its_attempts_with_the_last_error_itself() -> None:
    last = TroubleError()
    call = Call(*(TroubleError() for _ in range(ATTEMPTS - 1)), last)
    with pytest.raises(TroubleError) as caught:
        await retry_policy(TroubleError)(call)
    assert caught.value is last


async def test_what_the_error_calls_hopeless_is_not_retried() -> None:
    call = Call(TroubleError(retryable=False))
    with pytest.raises(TroubleError):
        await retry_policy(TroubleError)(call)
    assert len(call.tries) == 1


async def test_other_errors_are_not_retried() -> None:
    call = Call(ValueError())
    with pytest.raises(ValueError):  # noqa: PT011 - any
        await retry_policy(TroubleError)(call)
    assert len(call.tries) == 1


async def test_retry_after_is_obeyed() -> None:
    call = Call(TroubleError(retry_after=4.0))
    assert await retry_policy(TroubleError)(call) == "answer"
    assert call.tries[1] - call.tries[0] >= 4.0


async def test_retry_after_beyond_the_total_ends_it_at_once() -> None:
    call = Call(TroubleError(retry_after=60.0))
    start = asyncio.get_running_loop().time()
    with pytest.raises(TroubleError):
        await retry_policy(TroubleError, total_seconds=10)(call)
    assert asyncio.get_running_loop().time() == start


async def test_slow_tries_use_up_the_total() -> None:
    call = Call(*(TroubleError() for _ in range(9)), seconds=6.0)
    with pytest.raises(TroubleError):
        await retry_policy(TroubleError, total_seconds=10)(call)
    assert len(call.tries) == 2


async def test_cancellation_passes_through() -> None:
    call = Call(asyncio.CancelledError())
    with pytest.raises(asyncio.CancelledError):
        await retry_policy(Exception)(call)
    assert len(call.tries) == 1


async def test_once_tries_once() -> None:
    call = Call(TroubleError())
    with pytest.raises(TroubleError):
        await once(call)
    assert len(call.tries) == 1
