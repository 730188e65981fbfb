"""What befalls a whole site at once ends no pod that runs, and afterwards all is as before."""

from __future__ import annotations

import asyncio
import time

import pytest

from scheduler.core.owner_tag import read_tag
from slurmapi import BaseState, SlurmDenied
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import NODES, TinySlurm
from tests.unit.service.twenty_pods import PODS, fill

pytestmark = pytest.mark.looptime
HOUR = 3600.0


def owners(slurm: TinySlurm) -> list[str]:
    """The uids of all live jobs of ours, with those that were asked for on the pods' node."""
    tags = [read_tag(job.admin_comment) for job in slurm.jobs.values() if slurm.live(job.job_id)]
    return sorted(tag.uids[0] for tag in tags if tag is not None)


async def test_token_that_has_expired_ends_nothing(slurm, kube, service):
    """511 comes with an empty list of jobs (measured on 26.05.5), which is no answer."""
    await fill(slurm, kube, service)
    refused = SlurmDenied("Protocol authentication error", error_number=1007, status=511)
    for operation in ("states", "all_states", "job", "submit", "cancel", "ping", "nodes"):
        slurm.fail[operation].extend([refused] * 10_000)
    kube.create("later-uid", name="later")
    await asyncio.sleep(300)
    assert kube.deleted == []
    assert owners(slurm) == PODS
    for operation in slurm.fail:
        slurm.fail[operation].clear()
    await asyncio.sleep(60)
    assert kube.deleted == []
    assert owners(slurm) == [*PODS, "later-uid"]


async def test_jobs_that_were_purged_while_nobody_looked_are_asked_for_again(slurm, kube):
    """MinJobAge: how they ended is not known any more, and what is not known ends nothing."""
    former = Service(slurm, kube)
    await fill(slurm, kube, former)
    await former.kill()
    for job_id in list(slurm.jobs):
        slurm.forget(job_id)
    kube.relist()
    successor = Service(slurm, kube)
    successor.start()
    await asyncio.sleep(120)
    assert kube.deleted == []
    assert owners(slurm) == PODS
    assert all(job.required_nodes == ("n1",) for job in slurm.submissions.values())
    assert successor.brake.trouble == ""
    successor.unharmed()
    await successor.kill()


async def test_nodes_that_are_all_not_ready_cost_running_pods_nothing(slurm, kube, service):
    await fill(slurm, kube, service)
    for name in NODES:
        kube.set_node(name, ready=False)
    kube.create("later-uid", name="later")
    await asyncio.sleep(5)
    (job_id,) = [it for it in slurm.jobs if it > len(PODS)]
    slurm.start(job_id, node="n2")
    submits = slurm.calls["submit"]
    await asyncio.sleep(300)
    assert kube.deleted == []
    assert owners(slurm)[:20] == PODS
    assert slurm.calls["submit"] - submits <= 2, "what cannot help is not done again and again"
    for name in NODES:
        kube.set_node(name)
    await asyncio.sleep(300)
    waiting = max(slurm.jobs)
    if slurm.jobs[waiting].state.base is BaseState.PENDING:
        slurm.start(waiting, node="n2")
    await asyncio.sleep(10)
    assert kube.bindings[-1] == ("later-uid", "n2")
    assert owners(slurm) == [*PODS, "later-uid"]


@pytest.mark.parametrize("step", [HOUR, -HOUR], ids=["forward", "back"])
async def test_step_of_the_wall_clock_ends_nothing_and_holds_nothing_up(
    slurm, kube, service, monkeypatch, step
):
    await fill(slurm, kube, service)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + step)
    kube.create("later-uid", name="later")
    await asyncio.sleep(60)
    slurm.start(max(slurm.jobs), node="n2")
    await asyncio.sleep(10)
    assert kube.bindings[-1] == ("later-uid", "n2")
    assert kube.deleted == []
    assert owners(slurm) == [*PODS, "later-uid"]
    slurm.end(1, BaseState.TIMEOUT)
    await asyncio.sleep(10)
    assert kube.deleted == PODS[:1]


async def test_list_of_pods_that_is_empty_by_mistake_ends_no_job(slurm, kube, service):
    await fill(slurm, kube, service)
    shown = list(kube.pods.values())
    kube.show_only([])
    await asyncio.sleep(120)
    assert owners(slurm) == PODS
    kube.show_only(shown)
    await asyncio.sleep(60)
    assert kube.deleted == []
    assert owners(slurm) == PODS
    assert slurm.calls["cancel"] == 0


async def test_pods_that_vanished_unseen_leave_no_job(slurm, kube, service):
    await fill(slurm, kube, service)
    kube.pods.clear()
    kube.show_only([])
    await asyncio.sleep(60)
    assert owners(slurm) == []
