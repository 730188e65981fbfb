from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from annotations import JobRequest, Sharing, Switches
from scheduler.core.owner_tag import Owner, read_tag
from scheduler.core.slot_choice import Seat
from scheduler.execute.placeholder import (
    CLAIM_PRIORITY,
    SCRIPT,
    SCRIPT_MEMORY_MIB,
    Mode,
    submission,
)
from slurmapi import ApiVersion, JobSubmission
from slurmapi.submission import encode_submission
from tests.unit.core.things import REQUEST

OWNER = Owner("cluster-1", "slurm-scheduler")
UIDS = ("01234567-89ab", "fedcba98-7654")


def seats_of(uids: tuple[str, ...]) -> tuple[Seat, ...]:
    return tuple(Seat(rank, uid) for rank, uid in enumerate(uids))


def made(
    request: JobRequest = REQUEST,
    *,
    mode: Mode = "external",
    uids: tuple[str, ...] = UIDS[:1],
    nodes: tuple[str, ...] = (),
    environment: Mapping[str, str] | None = None,
):
    return submission(
        request,
        owner=OWNER,
        mode=mode,
        namespace="ns",
        name="train",
        key=uids[0],
        seats=seats_of(uids),
        nodes=nodes,
        environment=environment or {},
    )


def test_external_job_has_no_script():
    job = made()
    assert (job.external, job.script) == (True, None)


def test_script_job_has_the_script():
    job = made(mode="script")
    assert (job.external, job.script) == (False, SCRIPT)


@pytest.mark.parametrize(
    ("mode", "asked", "mebibytes"),
    [("script", 1, SCRIPT_MEMORY_MIB), ("script", 4096, 4096), ("external", 1, 1)],
)
def test_script_has_memory_of_its_own(mode, asked, mebibytes):
    request = msgspec.structs.replace(REQUEST, memory_mib=asked)
    job = made(request, mode=mode)
    assert job.memory_mib == mebibytes


def test_script_finds_its_programs_and_what_it_is_told():
    job = made(mode="script", environment={"A": "b"})
    assert job.environment["A"] == "b"
    assert "/usr/bin" in job.environment["PATH"]


def test_job_belongs_to_the_pod_of_its_unit():
    job = made()
    tag = read_tag(job.admin_comment)
    assert tag is not None
    assert (tag.owner, tag.uids, tag.namespace, tag.unit) == (OWNER, UIDS[:1], "ns", "train")
    assert (tag.key, job.name, job.nodes) == (UIDS[0], "ns.train.01234567", 1)


def test_job_is_named_after_its_unit_and_has_a_node_for_each_pod():
    job = submission(
        REQUEST,
        owner=OWNER,
        mode="external",
        namespace="ns",
        name="train",
        key="gang",
        group="job/train",
        seats=seats_of(UIDS),
    )
    assert (job.name, job.nodes) == ("ns.train.gang", 2)


def test_pinned_job_asks_for_its_node():
    assert made(nodes=("n1",)).required_nodes == ("n1",)
    assert made().required_nodes == ()


@pytest.mark.parametrize(("nodes", "text"), [((), ""), (("n1",), "n1"), (("n2", "n1"), "n2,n1")])
def test_tag_says_to_which_nodes_the_job_is_pinned(nodes, text):
    tag = read_tag(made(nodes=nodes).admin_comment)
    assert tag is not None
    assert (tag.node, tag.pinned) == (text, nodes)


def test_every_job_is_a_singleton_and_none_is_requeued():
    for job in (made(), made(mode="script")):
        assert isinstance(job, JobSubmission)
        assert job.singleton
        assert not job.requeue


def test_job_for_the_node_of_a_running_pod_is_never_requeued():
    """Slurm would requeue it if slurmd cannot start its script, and a requeue ends the pod."""
    wishes = msgspec.structs.replace(REQUEST, requeue=True)
    pinned, waits = (made(wishes, mode="script", nodes=nodes) for nodes in (("n1",), ()))
    assert (pinned.requeue, waits.requeue) == (False, True)


WISHES = msgspec.structs.replace(
    REQUEST,
    required_nodes=("n1", "n2"),
    excluded_nodes=("n3",),
    constraints="h100",
    prefer="nvlink",
    begin="now+1hour",
    dependency="afterok:1",
    hold=True,
    switches=Switches(1, 5),
    exclusive=Sharing.OK,
    user_id=7,
    group_id=8,
    priority=0,
    working_directory="/home/alice",
    contiguous=True,
    segment=2,
    no_kill=True,
)


def asked(**more: Any) -> JobSubmission:
    return submission(
        WISHES,
        owner=OWNER,
        mode="external",
        namespace="ns",
        name="train",
        key=UIDS[0],
        seats=seats_of(UIDS[:1]),
        **more,
    )


def test_pods_wishes_become_the_jobs():
    job = asked(excluded=("n3", "n4"))
    assert (job.required_nodes, job.excluded_nodes) == (("n1", "n2"), ("n3", "n4"))
    assert (job.constraints, job.prefer, job.shared) == ("h100", "nvlink", "oversubscribe")
    assert (job.begin, job.dependency, job.held) == ("now+1hour", "afterok:1", True)
    assert (job.switches, job.switch_wait_seconds) == (1, 300)
    assert (job.contiguous, job.segment_size, job.kill_on_node_fail) == (True, 2, False)
    assert (job.user_id, job.group_id, job.priority) == (7, 8, 0)
    assert job.working_directory == "/home/alice"
    assert job.singleton


def test_job_for_a_pod_that_runs_already_wishes_for_its_node_alone():
    job = asked(nodes=("n3",), excluded=("n3",))
    assert (job.required_nodes, job.excluded_nodes) == (("n3",), ())
    assert (job.constraints, job.prefer, job.switches) == (None, None, None)
    assert (job.begin, job.dependency, job.held) == (None, None, False)
    assert (job.contiguous, job.segment_size, job.kill_on_node_fail) == (False, None, False)
    assert (job.shared, job.user_id) == ("oversubscribe", 7)
    assert (job.priority, job.nice) == (0, asked().nice)


def test_job_for_a_pod_that_slurm_had_placed_comes_first():
    job = asked(nodes=("n3",), first=True)
    assert (job.priority, job.nice) == (CLAIM_PRIORITY, None)


@pytest.mark.parametrize(
    ("ours", "required", "excluded"),
    [
        ((), ("n1", "n2"), ("n3",)),
        (("n4",), ("n1", "n2"), ("n3", "n4")),
        (("n1", "n4"), ("n2",), ("n3", "n4")),
        (("n1", "n2"), ("n1", "n2"), ("n3",)),
    ],
)
def test_node_is_never_required_and_excluded(ours, required, excluded):
    """Its owner requires n1 and n2, and excludes n3."""
    job = asked(excluded=ours)
    assert (job.required_nodes, job.excluded_nodes) == (required, excluded)


@pytest.mark.parametrize("sharing", Sharing)
def test_every_way_to_share_is_one_that_slurm_knows(sharing):
    request = msgspec.structs.replace(REQUEST, exclusive=sharing)
    job = submission(
        request,
        owner=OWNER,
        mode="external",
        namespace="ns",
        name="train",
        key=UIDS[0],
        seats=seats_of(UIDS[:1]),
    )
    assert encode_submission(job, ApiVersion(45))
