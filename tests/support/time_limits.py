"""A pytest plugin on top of pytest-timeout: the time limit also holds for the clean-up of a test.

pytest-timeout by itself strikes once, and stops its timer when a test fails, so the clean-up of a
failed test could hang for ever. And if its one strike meets a background task of asyncio, only that
task ends, and the test goes on.
"""

from __future__ import annotations

import signal
from collections.abc import Generator
from typing import Any, Final

import pytest

# The pause until it strikes again, if something still hangs.
_AGAIN_SECONDS: Final = 15.0
_SETTINGS: Final = pytest.StashKey[Any]()
_Hook = Generator[None, object, object]


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> _Hook:
    """Start the timer as pytest-timeout does, but let it strike repeatedly."""
    done = yield
    if settings.method == "signal":
        signal.setitimer(signal.ITIMER_REAL, settings.timeout, _AGAIN_SECONDS)
        item.stash[_SETTINGS] = settings
    return done


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> _Hook:
    """Stop the timer once the test has failed: pytest's own work then must not be struck."""
    return (yield from _ended_by_failure(item))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> _Hook:
    """As in `pytest_runtest_setup`."""
    return (yield from _ended_by_failure(item))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> _Hook:
    """After a failure, start the timer again for the clean-up, with the same limit."""
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
