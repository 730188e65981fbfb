"""Gangs that wait for what people have to create, or that can never start: what their pods say."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from scheduler.core.gang_objects import (
    GangPolicy,
    GroupMeta,
    PluginsPodGroup,
    PluginsPodGroupSpec,
    PodGroup,
    PodGroupSpec,
    SchedulingPolicy,
)
from scheduler.core.gang_patience import NO_MORE_SECONDS, REREAD_SECONDS
from scheduler.kube.errors import Forbidden, KubeGarbled
from scheduler.kube.wire import Container, PodSpec, ResourceRequirements, SchedulingGroup
from slurmapi import BaseState, SlurmInvalid, SlurmRefused
from tests.unit.service.test_gangs import job, member, of_job
from tests.unit.service.tiny_kube import TinyKube

pytestmark = pytest.mark.looptime
LABEL: Final = "scheduling.x-k8s.io/pod-group"
META: Final = GroupMeta(name="ring", uid="ring-uid")
OF_PLUGINS: Final = PluginsPodGroup(META, PluginsPodGroupSpec(min_member=2))
OF_KUBERNETES: Final = PodGroup(META, PodGroupSpec(SchedulingPolicy(GangPolicy(min_count=2))))


def in_group(kube: TinyKube, number: int, *, own: bool = False, uid: str = "") -> str:
    """A pod of the PodGroup `ring`."""
    uid = uid or f"uid-{number}"
    if not own:
        kube.create(uid, name=f"ring-{number}", labels={LABEL: "ring"})
        return uid
    requests = ResourceRequirements(requests={"cpu": "1", "memory": "1Gi"})
    spec = PodSpec(
        termination_grace_period_seconds=20,
        containers=(Container(name="c", resources=requests),),
        scheduling_group=SchedulingGroup("ring"),
    )
    kube.create(uid, name=f"ring-{number}", spec=spec)
    return uid


def said(kube: TinyKube, uid: str = "uid-0") -> str:
    condition = kube.condition_of(uid)
    return "" if condition is None else f"{condition.reason}: {condition.message}"


@pytest.mark.parametrize(("own", "group"), [(False, OF_PLUGINS), (True, OF_KUBERNETES)])
async def test_pods_wait_for_a_pod_group_that_is_created_after_them(
    slurm, kube, service, own, group
):
    service.start()
    for number in (0, 1):
        in_group(kube, number, own=own)
    await asyncio.sleep(20)
    assert slurm.calls["submit"] == 0
    assert said(kube).startswith(
        "GangIncomplete: Gang ring waits because its PodGroup ring does not exist"
    )
    assert "gang: none" in said(kube)
    kube.groups["ring"] = group
    await asyncio.sleep(REREAD_SECONDS + 1)
    assert [it.nodes for it in slurm.submissions.values()] == [2]


async def test_pod_group_that_never_comes_costs_few_requests(slurm, kube, service):
    service.start()
    in_group(kube, 0)
    in_group(kube, 1)
    before = kube.asked["get_group"]
    await asyncio.sleep(60)
    assert kube.asked["get_group"] - before <= 7
    before = kube.asked["get_group"]
    await asyncio.sleep(10 * REREAD_SECONDS)
    assert kube.asked["get_group"] - before <= 11
    assert slurm.calls["submit"] == 0


async def test_pod_group_that_lets_pods_start_singly_counts_also_when_it_comes_late(
    slurm, kube, service
):
    service.start()
    in_group(kube, 0)
    await asyncio.sleep(10)
    kube.groups["ring"] = PluginsPodGroup(META, PluginsPodGroupSpec(min_member=1))
    await asyncio.sleep(REREAD_SECONDS)
    assert [it.nodes for it in slurm.submissions.values()] == [1]


async def test_pod_group_that_may_not_be_read_holds_no_pod(slurm, kube, service):
    kube.fail["get_group"].append(Forbidden(403, message="podgroups is forbidden"))
    service.start()
    in_group(kube, 0)
    await asyncio.sleep(3)
    assert [it.nodes for it in slurm.submissions.values()] == [1]


async def test_next_group_of_a_name_may_be_a_gang(slurm, kube, service):
    """The first one let its pods start singly."""
    kube.groups["ring"] = PluginsPodGroup(META, PluginsPodGroupSpec(min_member=1))
    service.start()
    in_group(kube, 0)
    await asyncio.sleep(3)
    kube.force_delete("uid-0")
    await asyncio.sleep(3)
    kube.groups["ring"] = OF_PLUGINS
    for number in (0, 1):
        in_group(kube, number, uid=f"next-{number}")
    await asyncio.sleep(5)
    assert [it.nodes for it in slurm.submissions.values()] == [1, 2]


async def test_gang_that_can_never_be_complete_says_so_after_a_while(slurm, kube, service):
    """Size 8, and its owner makes 4."""
    service.start()
    for rank in range(4):
        member(kube, rank, size=8)
    await asyncio.sleep(NO_MORE_SECONDS / 2)
    begin = "GangIncomplete: Gang train (4 of 8 pods exist): waiting for train-4"
    assert said(kube).startswith(begin)
    assert "never start" not in said(kube)
    await asyncio.sleep(NO_MORE_SECONDS)
    assert said(kube).startswith(begin)
    assert "unless whoever creates them makes 8 of them, they never start" in said(kube)
    assert "gang: none" in said(kube)
    for rank in range(4, 8):
        member(kube, rank, size=8)
    await asyncio.sleep(3)
    assert [it.nodes for it in slurm.submissions.values()] == [8]


@pytest.mark.parametrize(
    ("kind", "error"), [(SlurmInvalid, 2014), (SlurmInvalid, 2015), (SlurmRefused, 2050)]
)
async def test_batch_job_that_is_larger_than_the_partition_is_told_that_it_is_a_gang(
    slurm, kube, service, kind, error
):
    refused = kind("Requested node configuration is not available", error_number=error, status=422)
    slurm.fail["submit"].extend([refused] * 20)
    kube.groups["train"] = job()
    service.start()
    of_job(kube, 0)
    of_job(kube, 1)
    await asyncio.sleep(2)
    for uid in ("uid-0", "uid-1"):
        assert "SlurmRejected: Slurm refused the job" in said(kube, uid)
        assert "the job is for 2 pods, which are taken as one gang, train" in said(kube, uid)
        assert "create them anew with the annotation gang: none" in said(kube, uid)


async def test_single_pod_that_is_refused_is_told_nothing_of_gangs(slurm, kube, service):
    refused = SlurmInvalid("too large", error_number=2014, status=422)
    slurm.fail["submit"].extend([refused] * 20)
    service.start()
    kube.create("uid-0")
    await asyncio.sleep(2)
    assert "SlurmRejected" in said(kube)
    assert "gang" not in said(kube)


async def test_gang_that_waits_for_more_nodes_than_the_partition_gives_is_told(
    slurm, kube, service
):
    service.start()
    for rank in (0, 1):
        member(kube, rank)
    await asyncio.sleep(2)
    slurm.change(1, BaseState.PENDING, state_reason="PartitionNodeLimit")
    await asyncio.sleep(90)
    assert "is pending: PartitionNodeLimit" in said(kube)
    assert "the job is for 2 pods, which are taken as one gang, train" in said(kube)


async def test_object_that_cannot_be_read_is_told_on_the_pods(slurm, kube, service):
    kube.groups["train"] = job()
    kube.fail["get_group"].extend([KubeGarbled("nested too deeply")] * 6)
    service.start()
    for rank in (0, 1):
        of_job(kube, rank)
    await asyncio.sleep(0.5)
    assert "cannot be read: nested too deeply" in said(kube)
    await asyncio.sleep(60)
    assert [it.nodes for it in slurm.submissions.values()] == [2]
