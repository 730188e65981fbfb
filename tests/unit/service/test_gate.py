"""While Slurm takes no jobs, one try at a time finds out whether that is over."""

from __future__ import annotations

import pytest

from scheduler.execute.gate import Gate
from slurmapi import SlurmBusy, SlurmError, SlurmUnreachable


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
    gate.shut(SlurmUnreachable("refused"))
    assert all(gate.admit() >= 1.0 for _ in range(3))
    assert gate.why == "refused"
    clock.now += 0.5
    assert gate.admit() >= 0.5


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


def pause(gate: Gate, error: SlurmError) -> float:
    """The pause for all: the unit that failed comes up to two seconds later."""
    own = gate.shut(error)
    others = gate.admit()
    assert others < own + 1e-6, "the unit that failed comes last"
    assert own - 2.0 <= others <= own
    return own


def test_pauses_grow_to_a_quarter_of_a_minute(gate: Gate) -> None:
    pauses = [pause(gate, SlurmUnreachable("refused")) for _ in range(2000)]
    assert [2.0**n <= it - 1.0 <= 2.0**n + 1.0 for n, it in enumerate(pauses[:4])] == [True] * 4
    assert 16.0 <= max(pauses[4:]) <= 17.0


def test_pause_that_slurm_asks_for_is_kept(gate: Gate) -> None:
    assert 41.0 <= pause(gate, SlurmBusy("later", retry_after=40.0)) <= 42.0


def test_refusal_of_one_job_lets_the_next_one_try_at_once(gate: Gate, clock: Clock) -> None:
    clock.now += gate.shut(SlurmUnreachable("refused"))
    assert gate.admit() == 0.0
    gate.refused()
    assert gate.admit() == 0.0
    assert not gate.is_open, "nobody knows yet whether Slurm takes jobs"
