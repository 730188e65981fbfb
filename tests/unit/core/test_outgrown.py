"""A pod that was resized beyond its job: given back before the bind, told of when it runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.core.actions import Bind, Cancel, DropJob, Warn
from scheduler.core.decide import decide
from scheduler.core.event_reasons import Reason
from scheduler.core.facts import PodStage
from scheduler.core.outgrown import outgrown
from scheduler.core.tagged import TaggedJob
from slurmapi.model import BaseState
from tests.unit.core.things import JOB, NOW, REQUEST, facts, places, pod, record, tag, tracked

HELD = "cpu=4,mem=1G,node=1,billing=4"
GROWN = replace(REQUEST, cpus=64)


def running(tres: str = HELD) -> TaggedJob:
    found = record(BaseState.RUNNING, admin_comment=tag(asked=REQUEST), nodes=("n1",))
    return replace(found, tres_allocated=tres)


@pytest.mark.parametrize(
    ("request_now", "tres", "told"),
    [
        (REQUEST, HELD, ""),
        (GROWN, HELD, f"64 CPUs and its Slurm job {JOB} holds 4"),
        (replace(REQUEST, memory_mib=4096), HELD, "4096 MiB of memory"),
        (replace(REQUEST, memory_mib=1500), "cpu=4,mem=1.46G,node=1", ""),
        (replace(REQUEST, cpus=2), HELD, ""),
        (GROWN, "cpu=64,mem=1G,node=1", ""),
        (GROWN, "", ""),
        (GROWN, "cpu=lots,mem=?", ""),
        (REQUEST, "cpu=1,mem=1M", ""),  # Slurm gave less than it was asked for
    ],
)
def test_what_the_job_does_not_hold_is_named(request_now, tres, told):
    assert told in outgrown(running(tres), request_now)
    assert bool(told) == bool(outgrown(running(tres), request_now))


def test_job_that_is_too_small_by_now_is_given_back_and_not_bound():
    waits = facts(pod(PodStage.WAITING), job=tracked(running()), request=GROWN, nodes=places("n1"))
    actions = decide(waits, NOW)
    assert [type(it) for it in actions[:2]] == [DropJob, Cancel]
    assert not any(isinstance(it, Bind) for it in actions)
    assert any(isinstance(it, Bind) for it in decide(replace(waits, request=REQUEST), NOW))


def test_pod_that_grows_while_it_runs_is_told():
    runs = facts(
        pod(PodStage.BOUND, node="n1"), job=tracked(running()), request=GROWN, nodes=places("n1")
    )
    warns = [it for it in decide(runs, NOW) if isinstance(it, Warn)]
    assert [it.reason for it in warns] == [Reason.RESIZED_BEYOND_JOB]
    assert not [it for it in decide(replace(runs, request=REQUEST), NOW) if isinstance(it, Warn)]
