"""The state table of docs/architecture.md: complete, and never against an invariant."""

from pathlib import Path
from typing import get_args

import pytest

from docs._make.state_table import WAIT, answer, cell, situations, standings
from scheduler.core.actions import (
    Action,
    Again,
    Bind,
    Cancel,
    Evict,
    GiveBack,
    PartWith,
    ReadGang,
    Reseat,
    ServeBeside,
    Submit,
    TellGroup,
)
from scheduler.core.facts import JobFacts, PodStage, Tracked
from slurmapi import BaseState

DOCUMENT = Path(__file__).parents[2] / "docs" / "architecture.md"
ALL = [(situation, standing) for situation in situations() for standing in standings()]


def test_every_stage_of_a_pod_has_a_column():
    stages = {pod.stage for situation in situations() for pod in situation.pods}
    assert stages == set(PodStage)
    assert any(not situation.pods for situation in situations())


def test_every_state_of_a_job_has_a_row():
    jobs = [standing.job for standing in standings()]
    assert {type(job) for job in jobs} == set(get_args(JobFacts))
    seen = {job.state.base for job in jobs if isinstance(job, Tracked) and job.state}
    assert seen == set(BaseState)


def test_rows_and_columns_have_names_of_their_own():
    for names in ([s.name for s in situations()], [s.name for s in standings()]):
        assert len(set(names)) == len(names)


def test_every_action_is_shown_somewhere_and_explained_below():
    shown = {type(action) for pair in ALL for action in answer(*pair)}
    of_gangs = {ReadGang, Reseat, GiveBack, PartWith, ServeBeside, TellGroup}
    assert shown | of_gangs == set(get_args(Action))
    text = DOCUMENT.read_text(encoding="utf-8")
    known = get_args(Action)
    unexplained = [kind.__name__ for kind in known if f"\n| {kind.__name__} |" not in text]
    assert unexplained == [Again.__name__]


def test_every_answer_either_acts_or_says_when_to_look_again():
    assert all(answer(*pair) for pair in ALL)
    assert cell([Again(1.0)]) == WAIT


@pytest.mark.parametrize(("situation", "standing"), ALL, ids=lambda part: part.name)
def test_no_cell_is_against_an_invariant(situation, standing):
    actions = answer(situation, standing)
    stages = {pod.stage for pod in situation.pods}
    job = standing.job
    kinds = {type(action) for action in actions}
    assert len([a for a in actions if isinstance(a, Submit)]) <= 1
    if Bind in kinds:  # I2, I3
        assert stages == {PodStage.WAITING}
        assert isinstance(job, Tracked)
        assert job.state is not None
        assert job.state.base is BaseState.RUNNING
    if Cancel in kinds:  # I5
        assert not stages & {PodStage.BOUND, PodStage.DEPARTING}
    lost = standing.tenure.tries or standing.tenure.until or standing.tenure.node
    if Evict in kinds and not lost:  # I6
        assert isinstance(job, Tracked)
        assert job.record is not None
        suspended = job.record.state.base is BaseState.SUSPENDED
        assert job.record.state.ended or job.record.restart_count or suspended
