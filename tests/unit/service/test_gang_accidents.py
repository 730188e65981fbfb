"""Gangs whose jobs, pods or nodes have gone through something before: nothing more is taken from
them than was lost.
"""

from __future__ import annotations

import asyncio

import pytest

from slurmapi import BaseState
from tests.unit.service.test_gangs import member
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime
NODES = ("n1", "n2", "n3", "n4", "n5")


def five_nodes(slurm: TinySlurm, kube: TinyKube) -> None:
    for name in NODES[2:]:
        slurm.add_node(name)
        kube.set_node(name)
    slurm.nodes_in["main"] = NODES


async def gang_runs(slurm: TinySlurm, kube: TinyKube, service: Service) -> int:
    """Two pods on n1 and n2; the id of their job."""
    service.start()
    for rank in (0, 1):
        member(kube, rank)
    await asyncio.sleep(2)
    (job_id,) = slurm.submissions
    slurm.change(job_id, BaseState.RUNNING, nodes=("n1", "n2"), start_time=1)
    await asyncio.sleep(5)
    assert len(kube.bindings) == 2
    return job_id


@pytest.mark.parametrize("finished", [False, True])
async def test_job_that_replaces_a_lost_one_is_kept_by_the_next_process_whoever_has_finished(
    slurm, kube, finished
):
    first = Service(slurm, kube)
    job_id = await gang_runs(slurm, kube, first)
    if finished:
        kube.end_containers("uid-0")
    await asyncio.sleep(5)
    kube.refuses["patch"] = "no"  # the new job's id cannot be written
    slurm.end(job_id, BaseState.OUT_OF_MEMORY)
    await asyncio.sleep(5)
    instead = max(slurm.submissions)
    nodes = tuple(sorted(slurm.submissions[instead].required_nodes))
    assert nodes == (("n2",) if finished else ("n1", "n2"))
    slurm.change(instead, BaseState.RUNNING, nodes=nodes, start_time=1)
    await asyncio.sleep(2)
    await first.kill()
    kube.relist()
    kube.refuses.clear()
    successor = Service(slurm, kube)
    successor.start()
    await asyncio.sleep(60)
    await successor.kill()
    assert slurm.live(instead), "it holds the node of a pod that runs"
