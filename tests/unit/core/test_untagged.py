"""Which job without our tag is taken for the unit's own, and what is done about it."""

from __future__ import annotations

from typing import Any, Final

import pytest
from msgspec.structs import replace

from scheduler.core.actions import Again, Inspect, Submit, TakeBack, Warn
from scheduler.core.decide import decide
from scheduler.core.event_reasons import Reason
from scheduler.core.facts import NoJob, PodStage, UnitFacts
from scheduler.core.intervals import SOON_SECONDS
from scheduler.core.shapes import Size
from scheduler.core.tagged import TaggedJob
from scheduler.core.untagged import give_up, seems_own, untagged
from slurmapi.model import BaseState
from tests.unit.core.things import JOB, NOW, facts, pod, record, state, tag, tracked

MADE_AT: Final = 1_800_000_000
NAME: Final = "ns.train.uid-0"
STRIPPED: Final = record(
    BaseState.PENDING, nodes=(), admin_comment="billed to physics", submit_time=MADE_AT
)


def made(looked: TaggedJob | None = STRIPPED, *, stage: PodStage = PodStage.WAITING, **more: Any):
    fields: dict[str, Any] = {"known_as": (NAME, MADE_AT)}
    return facts(pod(stage), job=tracked(looked, **(fields | more)))


@pytest.mark.parametrize(
    ("found", "taken"),
    [
        (made(), True),
        (made(replace(STRIPPED, admin_comment="")), True),
        (made(replace(STRIPPED, admin_comment=tag(uids=("another",)))), True),
        (made(replace(STRIPPED, admin_comment=tag())), False),
        (made(replace(STRIPPED, name="native")), False),
        (made(replace(STRIPPED, submit_time=MADE_AT - 1)), False),
        (made(replace(STRIPPED, submit_time=MADE_AT + 1)), False),
        (made(replace(STRIPPED, submit_time=None)), False),
        (made(record(BaseState.CANCELLED, admin_comment="", submit_time=MADE_AT)), False),
        (made(known_as=None), False),
        (made(None), False),
        (facts(pod(PodStage.WAITING), job=NoJob()), False),
    ],
    ids=[
        *("by a plugin", "emptied", "another pod's tag", "ours"),
        *("another name", "older", "newer", "no time", "ended", "of a former process"),
        *("not looked at", "no job"),
    ],
)
def test_only_the_very_job_of_our_own_submit_is_taken_for_it(found: UnitFacts, taken: bool):
    assert untagged(found) is taken


@pytest.mark.parametrize("stage", [PodStage.BOUND, PodStage.DEPARTING])
def test_what_a_pod_runs_on_stays_while_it_runs(stage):
    runs = replace(STRIPPED, state=record().state, nodes=("n1",))
    found = made(runs, stage=stage)
    (action, _) = give_up(found, found.job, NOW)
    assert isinstance(action, Warn)
    assert action.reason is Reason.PLACEHOLDER_LOST


@pytest.mark.parametrize("stage", [PodStage.WAITING, PodStage.BOUND])
def test_job_that_holds_nothing_for_its_pod_is_taken_back(stage):
    found = made(stage=stage)
    (taken, _) = give_up(found, found.job, NOW)
    assert taken == TakeBack(JOB, NAME, MADE_AT)


def test_end_of_a_job_without_our_tag_is_looked_at():
    runs = replace(STRIPPED, state=record().state, nodes=("n1",))
    found = made(runs, stage=PodStage.BOUND, state=state(BaseState.TIMEOUT))
    assert decide(found, NOW) == (Inspect(JOB), Again(SOON_SECONDS))


def test_pod_whose_known_job_has_ended_without_our_tag_gets_a_new_one_that_is_not_first():
    """It is not said to be another job, and Slurm did not lose it."""
    ended = record(BaseState.CANCELLED, admin_comment="", submit_time=MADE_AT)
    submit, _ = decide(replace(made(ended, stage=PodStage.BOUND), bound_by_us=True), NOW)
    assert isinstance(submit, Submit)
    assert submit.nodes == ("n1",)
    assert not submit.first
    assert submit.why == "Slurm job 4711 was cancelled (state CANCELLED)"


SIZE: Final = Size(4, 1024, 2, "gres/gpu:2")
SEEMING: Final = record(
    admin_comment="an operator's",
    tres_allocated="cpu=4,mem=1G,node=1,billing=4",
    gres="gres/gpu:h100:2",
    submit_time=MADE_AT,
)


@pytest.mark.parametrize(
    ("changed", "seems"),
    [
        ({}, True),
        ({"admin_comment": ""}, True),
        ({"tres_allocated": "cpu=64,mem=64G,node=1", "gres": "gres/gpu:8"}, True),
        ({"name": "ns.other.uid-0"}, False),
        ({"nodes": ("n2",)}, False),
        ({"nodes": ("n1", "n2")}, False),
        ({"state": state(BaseState.SUSPENDED)}, False),
        ({"state": state(BaseState.PENDING), "nodes": ()}, False),
        ({"state": state(BaseState.COMPLETED)}, False),
        ({"tres_allocated": "cpu=3,mem=1G,node=1"}, False),
        ({"tres_allocated": "cpu=4,mem=1000M,node=1"}, False),
        ({"tres_allocated": ""}, False),
        ({"gres": "gres/gpu:1"}, False),
        ({"gres": ""}, False),
        ({"admin_comment": tag(uids=("another",))}, False),
    ],
)
def test_job_seems_own_only_if_its_name_and_node_say_so_and_it_holds_all_of_the_pod(changed, seems):
    found = replace(SEEMING, **changed)
    assert seems_own(found, name=NAME, node="n1", size=SIZE) is seems


def test_pod_runs_on_in_a_job_that_only_seems_to_be_its_own():
    found = made(SEEMING, stage=PodStage.BOUND, claimed=True)
    warn, _ = decide(found, NOW)
    assert isinstance(warn, Warn)
    assert "cancel the job with scancel" in warn.message


@pytest.mark.parametrize("stage", PodStage)
@pytest.mark.parametrize("base", BaseState)
def test_job_that_only_seems_to_be_own_is_never_taken_back(stage, base):
    found = made(replace(SEEMING, state=state(base)), stage=stage, claimed=True)
    assert not any(isinstance(it, TakeBack) for it in decide(found, NOW))
