"""While Slurm takes no jobs, one try at a time finds out whether that is over."""

from __future__ import annotations

import pytest

from scheduler.gate import Gate
from slurmapi import SlurmBusy, SlurmUnreachable


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def gate(clock: Clock) -> Gate:
    return Gate(clock)


def test_open_gate_admits_everybody(gate: Gate) -> None:
    assert [gate.admit() for _ in range(3)] == [0.0] * 3


def test_failed_submit_keeps_all_others_back_for_the_pause(gate: Gate, clock: Clock) -> None:
    pause = gate.shut(SlurmUnreachable("refused"))
    assert all(gate.admit() >= pause for _ in range(3))
    assert gate.why == "refused"
    clock.now += pause / 2
    assert gate.admit() >= pause / 2


def test_one_at_a_time_finds_out_whether_it_is_over(gate: Gate, clock: Clock) -> None:
    clock.now += gate.shut(SlurmUnreachable("refused"))
    assert gate.admit() == 0.0
    assert gate.admit() > 0.0
    gate.open()
    assert gate.admit() == gate.admit() == 0.0


def test_one_who_never_tells_is_followed_by_the_next(gate: Gate, clock: Clock) -> None:
    clock.now += gate.shut(SlurmUnreachable("refused"))
    assert gate.admit() == 0.0
    clock.now += 10.0
    assert gate.admit() == 0.0


def test_pauses_grow_to_a_quarter_of_a_minute(gate: Gate) -> None:
    pauses = [gate.shut(SlurmUnreachable("refused")) for _ in range(2000)]
    assert pauses[:4] == [1.0, 2.0, 4.0, 8.0]
    assert pauses[-1] == 15.0


def test_pause_that_slurm_asks_for_is_kept(gate: Gate) -> None:
    assert gate.shut(SlurmBusy("later", retry_after=40.0)) == 40.0
