"""A request that had to wait for the event loop may have arrived when the loop fell behind."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.audit.loop_delay import LoopDelay


class _Timer:
    def cancel(self) -> None: ...


class _Loop:
    """A clock, and the one callback that waits for it."""

    def __init__(self) -> None:
        self.now, self.due = 100.0, 0.0
        self.callback: Callable[[], None] = lambda: None

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, callback: Callable[[], None]) -> _Timer:
        self.due, self.callback = self.now + seconds, callback
        return _Timer()

    def runs(self, seconds: float) -> None:
        """The loop turns in time."""
        end = self.now + seconds
        while self.due <= end:
            self.now = max(self.now, self.due)
            self.callback()
        self.now = end

    def hangs(self, seconds: float) -> None:
        """One turn takes that long."""
        self.now += seconds
        self.callback()


@pytest.fixture
def loop() -> _Loop:
    return _Loop()


@pytest.fixture
def delay(loop: _Loop) -> LoopDelay:
    delay = LoopDelay(loop)  # type: ignore[arg-type]
    delay.start()
    return delay


def test_loop_that_turns_in_time_reads_at_once(loop: _Loop, delay: LoopDelay) -> None:
    loop.runs(30.05)
    assert delay.seconds() <= 0.1


def test_request_may_be_as_old_as_the_turn_that_held_it_up(loop: _Loop, delay: LoopDelay) -> None:
    loop.runs(5)
    loop.hangs(8)
    assert delay.seconds() == pytest.approx(8, abs=0.11)
    loop.runs(0.5)
    assert delay.seconds() == pytest.approx(8.5, abs=0.11)
    loop.runs(0.6)
    assert delay.seconds() <= 0.1


def test_long_turns_in_a_row_add_up(loop: _Loop, delay: LoopDelay) -> None:
    loop.runs(5)
    for _ in range(4):
        loop.hangs(3)
        loop.runs(0.2)
    assert delay.seconds() == pytest.approx(4 * 3.2, abs=0.11)


def test_turn_that_is_not_over_counts(loop: _Loop, delay: LoopDelay) -> None:
    loop.runs(5)
    loop.now += 4
    assert delay.seconds() == pytest.approx(4, abs=0.11)
