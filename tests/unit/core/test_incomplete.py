"""No pod of a group starts while another has vanished before any of them was on a Node."""

from __future__ import annotations

from typing import Final

import pytest
from msgspec.structs import replace

from scheduler.core.actions import Again, Bind, Cancel, DropJob, Submit, Tell
from scheduler.core.decide import decide
from scheduler.core.event_reasons import Reason
from scheduler.core.facts import MissingPod, PodStage
from scheduler.core.intervals import SLOW_LOOK_SECONDS, SOON_SECONDS, UNFIT_SECONDS
from tests.unit.core.things import GANG, JOB, NOW, facts, pod, record, tag, tracked

PODS: Final = (pod(PodStage.WAITING, uid="uid-0"), pod(PodStage.WAITING, uid="uid-1"))
GONE: Final = MissingPod(uid="uid-2", name="train-2")
HELD: Final = tracked(
    record(nodes=("n1", "n2", "n3"), admin_comment=tag(uids=("uid-0", "uid-1", "uid-2"), key=GANG)),
    running_since=NOW - UNFIT_SECONDS + 1,
)


def test_allocation_is_kept_for_a_minute_for_a_pod_that_is_missing():
    unit = facts(*PODS, missing=(GONE,), key=GANG, job=HELD)
    first, second, again = decide(unit, NOW)
    assert isinstance(first, Tell)
    assert isinstance(second, Tell)
    assert (first.pod, second.pod, again) == (*PODS, Again(SOON_SECONDS))
    assert first.reason is Reason.SLURM_PENDING
    assert first.message == ("Slurm job 4711 is allocated, but pods are missing: train-2")
    late = replace(HELD, record_at=NOW + 1)
    drop, cancel, again = decide(replace(unit, job=late), NOW + 1)
    assert isinstance(drop, DropJob)
    assert isinstance(cancel, Cancel)
    assert (drop.job_id, cancel.job_id, again) == (JOB, JOB, Again(0.0))


def test_no_job_is_submitted_while_a_pod_is_missing():
    unit = facts(*PODS, missing=(GONE,), key=GANG)
    first, second, again = decide(unit, NOW)
    assert isinstance(first, Tell)
    assert isinstance(second, Tell)
    assert (first.pod, second.pod, again) == (*PODS, Again(SLOW_LOOK_SECONDS))
    assert first.message.endswith("while another pod of the group is missing: train-2")
    assert isinstance(decide(replace(unit, missing=()), NOW)[0], Submit)


@pytest.mark.parametrize("stage", [PodStage.FINISHED, PodStage.BOUND])
def test_pod_that_comes_again_does_not_wait_for_one_that_has_ended(stage):
    began = pod(stage, uid="uid-0", node="n1" if stage is PodStage.BOUND else "")
    unit = facts(began, PODS[1], missing=(GONE,), key=GANG, job=HELD)
    assert decide(unit, NOW)[0] == Bind(PODS[1], "n2", JOB, "kube-n2")
    placed = replace(GONE, placed=True)
    alone = facts(PODS[1], missing=(placed,), key=GANG, job=HELD)
    assert decide(alone, NOW)[0] == Bind(PODS[1], "n2", JOB, "kube-n2")
