"""Nodes that are mapped anew while pods run on them: no pod and no job is lost by that."""

from __future__ import annotations

import asyncio

import pytest

from scheduler.config.settings import Settings
from scheduler.core.mapping_strategies import Strategy
from slurmapi import BaseState
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service

pytestmark = pytest.mark.looptime
UID = "uid-0"


def label(kube: TinyKube, **slurm_nodes: str) -> None:
    for node, slurm_node in slurm_nodes.items():
        kube.set_node(node, labels={"slurm": slurm_node})


@pytest.mark.parametrize("seconds", [400.0, 4000.0])
async def test_labels_that_are_swapped_for_a_while_cost_no_pod_and_no_job(
    slurm, kube, monkeypatch, seconds
):
    by_label = (Strategy.parse("label:slurm"),)
    monkeypatch.setattr(Settings, "strategies", property(lambda _self: by_label))
    label(kube, n1="n1", n2="n2")
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
