"""A pod that was resized beyond its job: given back before the bind, told of when it runs."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.core.actions import Bind, Cancel, DropJob, Warn
from scheduler.core.decide import decide
from scheduler.core.event_reasons import Reason
from scheduler.core.facts import PodStage
from scheduler.core.outgrown import grown_pods, outgrown
from scheduler.core.owner_tag import SEVERAL, OwnerTag, TagPart
from scheduler.core.shapes import Size
from scheduler.core.tagged import TaggedJob
from slurmapi.model import BaseState, Job, JobState
from tests.unit.core.things import (
    JOB,
    NOW,
    OURS,
    REQUEST,
    facts,
    places,
    pod,
    record,
    tag,
    tracked,
)

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


SMALL = Size(1, 1024)
LARGE = Size(8, 4096)


def of_components() -> TaggedJob:
    """A leader, and two workers that share a node."""
    tag = OwnerTag(
        v=SEVERAL,
        cluster=OURS.cluster,
        scheduler=OURS.scheduler,
        namespace="ns",
        unit="train",
        uids=("uid-0", "uid-1", "uid-2"),
        unit_key="key",
        group="gang/train",
        ranks=(0, 1, 2),
        names=("a", "b", "c"),
        parts=(TagPart(1, 1, SMALL.kind), TagPart(2, 2, LARGE.kind)),
    )
    running, first, second = JobState(BaseState.RUNNING), ("n1",), ("n2",)
    parts = (
        Job(
            job_id=JOB,
            name="train",
            state=running,
            nodes=first,
            tres_allocated="cpu=1,mem=1G,node=1",
        ),
        Job(
            job_id=JOB + 1,
            name="train",
            state=running,
            nodes=second,
            cpus_per_task=8,
            tres_allocated="cpu=16,mem=8G,node=1",
        ),
    )
    return record(nodes=("n1", "n2"), parts=parts, admin_comment=tag.encode())


@pytest.mark.parametrize(
    ("rank", "size", "told"),
    [
        (0, SMALL, ""),
        (
            0,
            replace(SMALL, memory_mib=2048),
            f"2048 MiB of memory and its Slurm job {JOB} holds 10",
        ),
        (0, replace(SMALL, cpus=2), f"2 CPUs and its Slurm job {JOB} holds 1"),
        (0, LARGE, f"8 CPUs and its Slurm job {JOB} holds 1, 4096 MiB of memory"),
        (0, replace(SMALL, memory_mib=512), ""),
        (1, LARGE, ""),
        (
            2,
            replace(LARGE, memory_mib=4200),
            f"4200 MiB of memory and its Slurm job {JOB} holds 40",
        ),
        (2, replace(LARGE, cpus=7, memory_mib=4000), ""),
    ],
)
def test_pod_that_grows_beyond_its_slot_in_a_component_is_named(
    rank: int, size: Size, told: str
) -> None:
    node = "n2" if rank else "n1"
    more: dict[str, Any] = {"size": size}
    runs = pod(PodStage.BOUND, uid=f"uid-{rank}", node=node, **more)
    found = list(grown_pods(of_components(), [runs]))
    assert bool(found) == bool(told)
    assert all(of_it is runs and told in text for of_it, text in found)
