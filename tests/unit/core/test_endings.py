from __future__ import annotations

import pytest

from scheduler.core.endings import ending_of, sentence, warned
from slurmapi.model import BaseState
from tests.unit.core.things import ENDED, LIVE, record, state


@pytest.mark.parametrize("base", ENDED)
def test_every_ended_state_has_a_meaning(base):
    ending = ending_of(state(base))
    assert ending.reason
    assert ending.cause


@pytest.mark.parametrize("base", LIVE)
def test_live_state_is_no_ending(base):
    with pytest.raises(KeyError):
        ending_of(state(base))


@pytest.mark.parametrize(
    "base", [BaseState.COMPLETED, BaseState.CANCELLED, BaseState.TIMEOUT, BaseState.DEADLINE]
)
def test_end_that_was_meant_is_not_undone(base):
    assert not ending_of(state(base)).again


@pytest.mark.parametrize(
    ("looked", "told"),
    [
        (
            record(BaseState.TIMEOUT, state_reason="TimeLimit"),
            "Slurm job 4711 has reached its time limit (state TIMEOUT, reason TimeLimit)",
        ),
        (
            record(BaseState.CANCELLED, "COMPLETING", state_reason="None"),
            "Slurm job 4711 was cancelled (state CANCELLED+COMPLETING)",
        ),
        (record(BaseState.PREEMPTED), "Slurm job 4711 was preempted (state PREEMPTED)"),
    ],
)
def test_sentence_names_job_state_and_slurms_reason(looked, told):
    assert sentence(looked, ending_of(looked.state)) == told


@pytest.mark.parametrize(
    ("started", "is_warned"), [(None, True), (4000, True), (5000, True), (5001, False)]
)
def test_warning_from_before_the_start_is_about_a_former_run(started, is_warned):
    assert warned(record(start_time=started, preempt_time=5000, end_time=9000)) is is_warned
