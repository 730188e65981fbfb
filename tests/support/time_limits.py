"""The time limit of a test holds to its very end; a plugin of pytest, on top of pytest-timeout.

By itself that one strikes once, and not at all after a failure, for then it ends its timer: what is
cleaned up after a failed test could hang for ever. And where its strike meets a task of asyncio in
the background, only that task ends.
"""

from __future__ import annotations

import signal
from collections.abc import Generator
from typing import Any, Final

import pytest

# Until it strikes again, at whatever still hangs then.
_AGAIN_SECONDS: Final = 15.0
_SETTINGS: Final = pytest.StashKey[Any]()
_Hook = Generator[None, object, object]


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> _Hook:
    """As pytest-timeout does, and have it strike again and again."""
    done = yield
    if settings.method == "signal":
        signal.setitimer(signal.ITIMER_REAL, settings.timeout, _AGAIN_SECONDS)
        item.stash[_SETTINGS] = settings
    return done


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> _Hook:
    """Once it has failed, pytest itself is at work, and must not be struck."""
    return (yield from _ended_by_failure(item))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> _Hook:
    """As above."""
    return (yield from _ended_by_failure(item))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> _Hook:
    """After a failure, clean up within the time that the test itself had."""
    settings = item.stash.get(_SETTINGS, None)
    remaining, _ = signal.getitimer(signal.ITIMER_REAL)
    if settings is not None and remaining == 0:
        item.ihook.pytest_timeout_set_timer(item=item, settings=settings)
    try:
        return (yield)
    finally:
        item.ihook.pytest_timeout_cancel_timer(item=item)


def _ended_by_failure(item: pytest.Item) -> _Hook:
    try:
        return (yield)
    except BaseException:
        item.ihook.pytest_timeout_cancel_timer(item=item)
        raise
