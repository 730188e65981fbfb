"""What is told about a job that starts at once, and about one that waits: in a burst, each pod
costs a submit, a look and a Binding.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from scheduler.core.intervals import LONGEST_UNTOLD_SECONDS, UNTOLD_SECONDS
from scheduler.core.naming import JOB_ID
from scheduler.facts.unit_jobs import UnitJobs
from scheduler.state.member import Member, by_uid
from scheduler.state.units import Placeholder, Unit
from slurmapi import BaseState, JobState, JobSubmission, SlurmUnreachable
from tests.unit.service.bursts import burst
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime
UID = "01234567-89ab"
COUNT = 40


@pytest.mark.parametrize(("answers", "starts"), [(0.002, 0.1), (1.0, 2.0)], ids=["fast", "slow"])
async def test_burst_costs_one_write_to_kubernetes_a_pod(
    service: Service, slurm: TinySlurm, kube: TinyKube, answers: float, starts: float
) -> None:
    slurm.seconds["states"] = answers
    await burst(service, slurm, kube, count=COUNT, after=starts)
    assert kube.patches == []
    assert service.recorder.reasons() == ["Scheduled"] * COUNT
    recorded = sorted(int(pod.metadata.annotations[JOB_ID]) for pod in kube.pods.values())
    assert recorded == sorted(slurm.jobs)


@pytest.mark.parametrize(("answers", "starts"), [(0.002, 0.1), (1.0, 2.0)], ids=["fast", "slow"])
async def test_burst_costs_two_requests_to_slurm_a_pod(
    service: Service, slurm: TinySlurm, kube: TinyKube, answers: float, starts: float
) -> None:
    slurm.seconds["states"] = answers
    await burst(service, slurm, kube, count=COUNT, after=starts)
    assert (slurm.calls["submit"], slurm.calls["job"]) == (COUNT, COUNT)


async def test_pod_that_still_waits_is_told_in_one_write(service: Service, kube: TinyKube) -> None:
    kube.create(UID)
    service.start()
    await asyncio.sleep(UNTOLD_SECONDS)
    assert kube.patches == []
    await asyncio.sleep(UNTOLD_SECONDS)
    ((_, (condition,)), *_) = kube.patches
    assert (condition.status, condition.reason) == ("False", "SlurmPending")
    assert "Slurm job 1 is pending" in condition.message
    assert kube.pods[UID].metadata.annotations[JOB_ID] == "1"
    assert service.recorder.reasons()[0] == "PlaceholderSubmitted"


async def test_pod_is_told_in_time_even_if_slurm_says_no_more(
    service: Service, slurm: TinySlurm, kube: TinyKube
) -> None:
    kube.create(UID)
    service.start()
    await asyncio.sleep(0.5)
    assert list(slurm.jobs) == [1]
    slurm.fail["states"].extend(SlurmUnreachable("connection refused") for _ in range(50))
    await asyncio.sleep(LONGEST_UNTOLD_SECONDS + UNTOLD_SECONDS)
    assert kube.pods[UID].metadata.annotations[JOB_ID] == "1"
    assert kube.condition_of(UID) is not None


async def test_job_that_runs_but_cannot_be_looked_at_is_written_on_its_pod(
    service: Service, slurm: TinySlurm, kube: TinyKube
) -> None:
    """It can be neither bound nor told about with Slurm's words."""
    kube.create(UID)
    service.start()
    await asyncio.sleep(0.5)
    slurm.fail["job"].extend(SlurmUnreachable("connection refused") for _ in range(500))
    slurm.start(1)
    await asyncio.sleep(2 * LONGEST_UNTOLD_SECONDS)
    assert kube.bindings == []
    assert kube.pods[UID].metadata.annotations[JOB_ID] == "1"
    assert service.recorder.reasons() == ["PlaceholderSubmitted"]


async def test_job_that_follows_another_is_told_at_once_when_it_waits(
    service: Service, slurm: TinySlurm, kube: TinyKube
) -> None:
    """The condition about the former job is no reason to wait with the new one."""
    kube.create(UID)
    service.start()
    await asyncio.sleep(5)
    slurm.end(1, BaseState.NODE_FAIL)
    await asyncio.sleep(10)
    assert kube.pods[UID].metadata.annotations[JOB_ID] == "2"
    assert service.recorder.reasons().count("PlaceholderSubmitted") == 2


def untold_unit(**job: Any) -> Unit:
    """A unit whose job was submitted at 10.0, and of which nothing was told yet."""
    placeholder = Placeholder(7, submitted_at=10.0, **job)
    return Unit(
        "a", "ns", "train", seen_at=0.0, job=placeholder, members=by_uid([Member("a", "train")])
    )


def test_pod_is_told_of_a_start_that_a_look_saw_before_the_states_did() -> None:
    """Its node may be made ready for minutes, and no look follows until then."""
    runs = JobState(BaseState.RUNNING, frozenset({"CONFIGURING"}))
    unit = untold_unit(state=runs, looked_at=11.5, running_since=11.5, allocated_at=12.0)
    assert UnitJobs.tell_at(unit) == 10.0 + LONGEST_UNTOLD_SECONDS


def test_pod_is_told_in_time_if_the_look_after_the_start_hangs() -> None:
    unit = untold_unit(state=JobState(BaseState.RUNNING), looked_at=11.5, allocated_at=12.0)
    assert UnitJobs.tell_at(unit) == 12.0 + LONGEST_UNTOLD_SECONDS


async def test_job_that_no_answer_shows_is_written_on_its_pod_in_time(
    service: Service, slurm: TinySlurm, kube: TinyKube
) -> None:
    """Slurm's states lack it, and looks at it fail: the pod must not stay without a word."""
    kube.create(UID)
    service.start()
    await asyncio.sleep(0.5)
    slurm.fail["job"].extend(SlurmUnreachable("connection refused") for _ in range(500))
    slurm.forget(1)
    await asyncio.sleep(2 * LONGEST_UNTOLD_SECONDS)
    assert kube.pods[UID].metadata.annotations[JOB_ID] == "1"


async def test_pod_whose_jobs_end_at_once_is_told_about_the_second(
    service: Service, slurm: TinySlurm, kube: TinyKube
) -> None:
    def ends_at_once(_submission: JobSubmission) -> None:
        job_id = slurm.next_id
        asyncio.get_running_loop().call_later(0.3, slurm.end, job_id, BaseState.NODE_FAIL)

    slurm.job_submit = ends_at_once
    kube.create(UID)
    service.start()
    await asyncio.sleep(10)
    assert len(slurm.jobs) > 1
    assert kube.condition_of(UID) is not None
