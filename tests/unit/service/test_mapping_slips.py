"""Nodes that are mapped anew while pods run on them: no pod and no job is lost by that."""

from __future__ import annotations

import asyncio

import pytest

from scheduler.config.settings import Settings
from scheduler.core.mapping_strategies import Strategy
from slurmapi import BaseState
from tests.unit.service.test_gangs import job_started
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service

pytestmark = pytest.mark.looptime
UID = "uid-0"


def label(kube: TinyKube, **slurm_nodes: str) -> None:
    for node, slurm_node in slurm_nodes.items():
        kube.set_node(node, labels={"slurm": slurm_node})


@pytest.fixture
def by_label(kube: TinyKube, monkeypatch: pytest.MonkeyPatch) -> None:
    """A label of each Node names its Slurm node."""
    strategies = (Strategy.parse("label:slurm"),)
    monkeypatch.setattr(Settings, "strategies", property(lambda _self: strategies))
    label(kube, n1="n1", n2="n2")


@pytest.mark.parametrize("seconds", [400.0, 4000.0])
async def test_labels_that_are_swapped_for_a_while_cost_no_pod_and_no_job(
    slurm, kube, by_label, seconds
):
    service = Service(slurm, kube)
    service.start()
    job_id = await service.bound(UID)
    native = slurm.add(name="native")
    slurm.change(native, BaseState.RUNNING, nodes=("n2",))
    slurm.allocated["n2"] = slurm.CPUS
    await asyncio.sleep(20)
    label(kube, n1="n2", n2="n1")
    await asyncio.sleep(seconds)
    label(kube, n1="n1", n2="n2")
    await asyncio.sleep(1000)
    assert (slurm.live(job_id), kube.deleted, slurm.calls["submit"]) == (True, [], 1)
    said = [it.message for it in service.recorder.events if it.reason == "PlaceholderLost"]
    assert [it for it in said if "correct the mapping of Nodes" in it] == said != []
    slurm.end(job_id, BaseState.CANCELLED)
    await asyncio.sleep(60)
    assert kube.deleted == [UID]
    await service.kill()


async def test_pod_of_a_gang_that_has_given_a_node_back_is_not_on_it_by_a_label(
    slurm, kube, by_label
):
    service = Service(slurm, kube)
    job_id = await job_started(slurm, kube, service)
    kube.end_containers("uid-0")
    await asyncio.sleep(5)
    assert slurm.jobs[job_id].nodes == ("n2",)
    label(kube, n1="n2", n2="n1")
    await asyncio.sleep(400)
    assert (slurm.live(job_id), kube.deleted) == (True, [])
    label(kube, n1="n1", n2="n2")
    await asyncio.sleep(1000)
    assert (slurm.live(job_id), kube.deleted, slurm.calls["submit"]) == (True, [], 1)
    await service.kill()


async def test_node_of_a_pod_that_runs_is_not_given_back_for_a_label(slurm, kube, by_label):
    """That says that the pod which has succeeded was there."""
    service = Service(slurm, kube)
    job_id = await job_started(slurm, kube, service)
    label(kube, n1="n2", n2="n1")
    await asyncio.sleep(5)
    kube.end_containers("uid-0")
    await asyncio.sleep(400)
    assert "n2" in slurm.jobs[job_id].nodes
    label(kube, n1="n1", n2="n2")
    await asyncio.sleep(1000)
    assert (slurm.live(job_id), kube.deleted, slurm.calls["submit"]) == (True, [], 1)
    assert slurm.jobs[job_id].nodes == ("n2",)
    await service.kill()
