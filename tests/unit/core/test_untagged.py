"""Which job without our tag is taken for the one that our own submit has made, and which is not."""

from __future__ import annotations

from typing import Any, Final

import pytest
from msgspec.structs import replace

from scheduler.core.actions import TakeBack, Warn
from scheduler.core.event_reasons import Reason
from scheduler.core.facts import NoJob, PodStage, UnitFacts
from scheduler.core.tagged import TaggedJob
from scheduler.core.untagged import give_up, untagged
from slurmapi.model import BaseState
from tests.unit.core.things import JOB, NOW, facts, pod, record, tag, tracked

MADE_AT: Final = 1_800_000_000
NAME: Final = "ns.train.uid-0"
STRIPPED: Final = record(
    BaseState.PENDING, nodes=(), admin_comment="billed to physics", submit_time=MADE_AT
)


def made(looked: TaggedJob | None = STRIPPED, *, stage: PodStage = PodStage.WAITING, **more: Any):
    fields: dict[str, Any] = {"made_as": NAME, "submit_time": MADE_AT}
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
        (made(made_as="", submit_time=None), False),
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
