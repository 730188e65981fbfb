"""Which evidence is weak, and what of a node is another job's."""

from __future__ import annotations

import pytest

from annotations import JobRequest
from scheduler.core.event_reasons import Reason
from scheduler.core.evidence import SETTLING_SECONDS, Evidence, is_weak
from scheduler.core.node_gres import count_of
from scheduler.core.taken_resources import lacks
from slurmapi.model import SlurmNode

LATER = SETTLING_SECONDS + 1


def weak(
    evidence: Evidence = Evidence.RECORD,
    reason: Reason = Reason.PREEMPTED,
    *,
    seen_at: float = LATER,
) -> bool:
    return is_weak(evidence, reason, seen_at=seen_at, doubted_at=0.0)


def test_record_of_a_settled_slurm_is_strong():
    assert not weak()
    assert weak(seen_at=SETTLING_SECONDS - 1)


def test_lost_nodes_and_unknown_jobs_are_weak_at_any_time():
    assert weak(reason=Reason.NODE_FAILED)
    assert weak(Evidence.ABSENCE)


def test_pod_whose_place_is_taken_is_never_slowed():
    assert not weak(Evidence.TAKEN, Reason.NODE_FAILED, seen_at=0.0)


def test_what_the_author_wants_is_never_slowed():
    """One tenant's gangs engaged the brake, which then held another tenant's pod for 30 s."""
    assert not weak(Evidence.AUTHOR, Reason.GANG_RELEASED, seen_at=0.0)
    assert weak(reason=Reason.GANG_RELEASED)


def node(**used: int | str) -> SlurmNode:
    fields = {"cpus": 16, "memory_mib": 1000, "gres": "gpu:h100:8(S:0-1)", **used}
    return SlurmNode(name="n1", states=frozenset({"MIXED"}), **fields)  # type: ignore[arg-type]


REQUEST = JobRequest(cpus=4, memory_mib=100, gres="gres/gpu:h100:2")


def test_node_with_room_lacks_nothing():
    used = node(allocated_cpus=12, allocated_memory_mib=900, gres_used="gpu:h100:6(IDX:0-5)")
    assert lacks(used, REQUEST) == ""
    assert lacks(SlurmNode(name="n1", states=frozenset()), REQUEST) == "", "nobody holds anything"


@pytest.mark.parametrize(
    ("used", "told"),
    [
        ({"allocated_cpus": 13}, "3 of 16 CPUs are free, and the pod uses 4"),
        ({"allocated_memory_mib": 901}, "99 of 1000 MiB are free, and the pod uses 100"),
        ({"gres_used": "gpu:h100:7(IDX:0-6)"}, "1 of 8 gpu:h100 are free, and the pod uses 2"),
    ],
)
def test_what_others_hold_is_named(used, told):
    assert lacks(node(**used), REQUEST) == told


def test_what_no_job_may_have_is_not_free():
    """With CoreSpecCount=4 and MemSpecLimit=100, jobs may have 12 CPUs and 900 MiB."""
    spared = {"job_cpus": 12, "specialized_memory_mib": 100}
    assert lacks(node(allocated_cpus=8, **spared), REQUEST) == ""
    told = lacks(node(allocated_cpus=12, allocated_memory_mib=900, **spared), REQUEST)
    assert told == (
        "0 of 12 CPUs are free, and the pod uses 4; 0 of 900 MiB are free, and the pod uses 100"
    )


def test_gres_are_counted_by_name_and_type():
    text = "gpu:h100:7(IDX:0-6),gpu:a100:no_consume:2,nic,shard:gpu:3"
    assert [count_of(text, it) for it in ("gpu:h100", "gpu:a100", "gpu", "nic", "tape")] == [
        7,
        2,
        9,
        1,
        0,
    ]
