"""What a failure in the middle leaves behind is found and finished, and harms no pod meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from scheduler.core.naming import JOB_ID, JOB_NODES
from scheduler.kube.errors import KubeUnreachable
from slurmapi import BaseState, JobState, SlurmBusy, SlurmUnreachable
from tests.unit.core.things import tag as tag_of
from tests.unit.service.tiny_kube import TinyKube

pytestmark = pytest.mark.looptime
UID = "uid-0"
RUNNING = JobState(BaseState.RUNNING)
PENDING = JobState(BaseState.PENDING)
NODE_FAIL = JobState(BaseState.NODE_FAIL)
PREEMPTED = JobState(BaseState.PREEMPTED)


def tag() -> str:
    return tag_of(uids=(UID,))


async def seen(kube: TinyKube) -> None:
    """Until the watch has shown all pods there are."""
    await asyncio.sleep(2 * kube.lag)


async def until(holds: Callable[[], bool], *, seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while True:
            if holds():
                return
            await asyncio.sleep(0.05)


# --- an ended job in the annotation of a former process -------------------------------------------


async def test_end_of_an_old_job_is_no_end_where_a_newer_one_holds_the_node(slurm, kube, service):
    """The former process asked for a new job on the pod's node, and died before it told the pod."""
    old = slurm.add(admin_comment=tag(), state=PREEMPTED, nodes=("n1",))
    new = slurm.add(admin_comment=tag_of(uids=(UID,), node="n1"), state=RUNNING, nodes=("n1",))
    kube.create(UID, node="n1", annotations={JOB_ID: str(old), JOB_NODES: "n1"})
    await seen(kube)
    slurm.fail["all_states"].extend([SlurmBusy("later")] * 5)
    service.start()
    await asyncio.sleep(30)
    assert kube.deleted == []
    assert slurm.live(new)
    assert kube.pods[UID].metadata.annotations[JOB_ID] == str(new)


@pytest.mark.parametrize("twin", [PENDING, RUNNING])
async def test_job_that_came_late_keeps_no_pod_on_a_node_that_slurm_has_taken(
    slurm, kube, service, twin
):
    """A process asked for it before the pod was bound, and died; it holds another node, or none."""
    old = slurm.add(admin_comment=tag(), state=NODE_FAIL, nodes=("n1",))
    late = slurm.add(admin_comment=tag(), state=twin, nodes=("n2",) if twin is RUNNING else ())
    kube.create(UID, node="n1", annotations={JOB_ID: str(old), JOB_NODES: "n1"})
    await seen(kube)
    service.start()
    await until(lambda: kube.deleted == [UID], seconds=30)
    await until(lambda: not slurm.live(late), seconds=30)


async def test_own_job_that_the_census_came_by_while_another_was_asked_for_is_found_soon(
    slurm, kube, service
):
    """The pod names another's job, and a process before this one has left its own."""
    foreign = slurm.add(state=RUNNING, nodes=("n1",))
    own = slurm.add(admin_comment=tag(), state=RUNNING, nodes=("n1",))
    kube.create(UID, node="n1", annotations={JOB_ID: str(foreign), JOB_NODES: "n1"})
    await seen(kube)
    slurm.seconds["submit"] = 2.0
    service.start()
    await until(lambda: kube.pods[UID].metadata.annotations[JOB_ID] == str(own), seconds=30)
    assert kube.deleted == []
    assert slurm.live(foreign), "another's job is left alone"
    await until(lambda: len([it for it in slurm.jobs if slurm.live(it)]) == 2, seconds=30)


async def test_end_while_nobody_watched_ends_the_pod_once_all_jobs_are_known(slurm, kube, service):
    old = slurm.add(admin_comment=tag(), state=PREEMPTED, nodes=("n1",))
    kube.create(UID, node="n1", annotations={JOB_ID: str(old), JOB_NODES: "n1"})
    await seen(kube)
    slurm.fail["all_states"].extend([SlurmBusy("later")] * 3)
    service.start()
    await asyncio.sleep(4)
    assert kube.deleted == []
    await until(lambda: kube.deleted == [UID], seconds=10)


async def test_end_that_this_process_saw_come_needs_no_census(slurm, kube, service):
    job_id = slurm.add(admin_comment=tag(), state=RUNNING, nodes=("n1",))
    kube.create(UID, node="n1", annotations={JOB_ID: str(job_id), JOB_NODES: "n1"})
    await seen(kube)
    slurm.fail["all_states"].extend([SlurmBusy("later")] * 1000)
    service.start()
    await asyncio.sleep(5)
    slurm.end(job_id, BaseState.PREEMPTED)
    await until(lambda: kube.deleted == [UID], seconds=10)


# --- an outage ------------------------------------------------------------------------------------


async def test_job_that_became_anothers_during_an_outage_is_noticed_soon_after(
    slurm, kube, service
):
    """Same id, same state: no pulse would ever tell."""
    service.start()
    await asyncio.sleep(3)
    kube.create(UID)
    await until(lambda: bool(slurm.jobs), seconds=5)
    slurm.start(1)
    await until(lambda: kube.bindings == [(UID, "n1")], seconds=5)
    slurm.fail["states"].append(SlurmUnreachable("refused"))
    await until(lambda: not slurm.fail["states"], seconds=30)
    slurm.forget(1)
    slurm.next_id = 1
    slurm.add(state=RUNNING, nodes=("n2",))
    await until(lambda: len(slurm.jobs) == 2, seconds=20)
    assert kube.deleted == []
    assert slurm.live(1), "another's job is left alone"
    assert slurm.submissions[2].required_nodes == ("n1",)


# --- a job that was given back --------------------------------------------------------------------


@pytest.mark.parametrize("failures", [1, 5])
async def test_give_back_that_slurm_did_not_take_is_made_good_soon(slurm, kube, service, failures):
    service.start()
    await asyncio.sleep(3)
    kube.create(UID)
    await until(lambda: bool(slurm.jobs), seconds=5)
    kube.set_node("n1", ready=False)
    slurm.start(1)
    slurm.fail["cancel"].extend([SlurmBusy("later", status=429)] * failures)
    await until(lambda: not slurm.live(1), seconds=60 + 5 + 2 * failures)
    await until(lambda: slurm.live(2), seconds=30)
    slurm.start(2, node="n2")
    await until(lambda: kube.bindings == [(UID, "n2")], seconds=10)


async def test_replaced_job_that_slurm_did_not_end_is_ended_soon(slurm, kube, service):
    old = slurm.add(admin_comment=tag())  # a crash of slurmctld forgot that it was started
    kube.create(UID, node="n1", annotations={JOB_ID: str(old), JOB_NODES: "n1"})
    await seen(kube)
    slurm.fail["cancel"].append(SlurmBusy("later", status=429))
    service.start()
    await until(lambda: not slurm.live(old), seconds=15)
    assert slurm.live(2)
    assert kube.deleted == []


@pytest.mark.parametrize("state", [PENDING, RUNNING])
async def test_replaced_job_goes_though_the_pod_cannot_be_told_of_the_new_one(
    slurm, kube, service, state
):
    """A crash of slurmctld forgot that it was started, and may have started it elsewhere since."""
    nodes = ("n2",) if state is RUNNING else ()
    old = slurm.add(admin_comment=tag(), state=state, nodes=nodes)
    kube.create(UID, node="n1", annotations={JOB_ID: str(old), JOB_NODES: "n1"})
    await seen(kube)
    kube.fail["patch"].extend([KubeUnreachable("away")] * 2)
    service.start()
    await until(lambda: not slurm.live(old), seconds=15)
    await asyncio.sleep(60)
    assert slurm.calls["submit"] == 1
    assert slurm.live(2)
    assert kube.deleted == []
