"""A rolling update of a LeaderWorkerSet: other pods take its place."""

from __future__ import annotations

import asyncio

import pytest

from scheduler.kube.wire import OwnerReference
from slurmapi import BaseState
from tests.unit.service.test_gangs import member
from tests.unit.service.test_template_sizes import LWS, leader_worker_set, template
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime


def of_group(kube: TinyKube, worker: int, *, revision: str, cpu: str = "4") -> None:
    labels = {
        f"{LWS}name": "train",
        f"{LWS}group-index": "0",
        f"{LWS}group-key": "k",
        f"{LWS}worker-index": str(worker),
        f"{LWS}template-revision-hash": revision,
    }
    kube.create(
        f"{revision}-{worker}",
        name=f"train-0-{worker}",
        labels=labels,
        annotations={f"{LWS}size": "2"},
        owner=OwnerReference(
            "StatefulSet", "train-0" if worker else "train", "set", "apps/v1", controller=True
        ),
        cpu=cpu,
    )


async def replaced(slurm: TinySlurm, kube: TinyKube, service: Service, *, cpu: str) -> None:
    """The pods of a group that runs are replaced by pods of the next revision."""
    kube.groups["train"] = leader_worker_set(template("4"))
    service.start()
    for worker in (0, 1):
        of_group(kube, worker, revision="one")
    await asyncio.sleep(2)
    slurm.change(1, BaseState.RUNNING, nodes=("n1", "n2"), start_time=1)
    await asyncio.sleep(5)
    assert set(dict(kube.bindings)) == {"one-0", "one-1"}
    for worker in (0, 1):
        kube.delete(f"one-{worker}")
        kube.end_containers(f"one-{worker}")
    await asyncio.sleep(10)
    assert slurm.live(1)  # they may come again
    for worker in (0, 1):
        of_group(kube, worker, revision="two", cpu=cpu)


@pytest.mark.parametrize("cpu", ["4", "8"])
async def test_former_job_ends_as_soon_as_the_group_has_other_pods(slurm, kube, service, cpu):
    await replaced(slurm, kube, service, cpu=cpu)
    await asyncio.sleep(10)
    assert not slurm.live(1)
    assert slurm.live(2)
    assert slurm.submissions[2].cpus == int(cpu)


async def test_gang_of_another_source_with_the_name_of_a_group_is_not_replaced(
    slurm, kube, service
):
    service.start()
    for rank in (0, 1):
        member(kube, rank, gang="train-0")
    await asyncio.sleep(2)
    slurm.change(1, BaseState.RUNNING, nodes=("n1", "n2"), start_time=1)
    await asyncio.sleep(5)
    kube.groups["train"] = leader_worker_set(template("4"))
    for uid in ("uid-0", "uid-1"):
        kube.delete(uid)
        kube.end_containers(uid)
    for worker in (0, 1):
        of_group(kube, worker, revision="one")
    await asyncio.sleep(20)
    assert slurm.live(1)


async def test_group_that_comes_again_with_the_same_revision_keeps_its_job(slurm, kube, service):
    await replaced(slurm, kube, service, cpu="4")
    await asyncio.sleep(2)
    slurm.change(2, BaseState.RUNNING, nodes=("n1", "n2"), start_time=1)
    await asyncio.sleep(10)
    assert {"two-0", "two-1"} <= set(dict(kube.bindings))
    kube.delete("two-1")
    kube.end_containers("two-1")
    await asyncio.sleep(20)
    assert slurm.live(2)
    assert slurm.calls["submit"] == 2
