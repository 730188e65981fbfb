"""All Nodes are lost at once, for example because the kubelets' network fails. Running pods keep
their jobs, no pod is bound, and waiting pods say why. When the Nodes are back, all pods go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import pytest

from tests.rigs.kube import KubeRig
from tests.rigs.node_sim import SimulatedNodes
from tests.stories.clusters import LIVE, told_on
from tests.support import pods
from tests.support.kube import Object
from tests.support.world import World

pytestmark = [pytest.mark.live_on("26.05"), pytest.mark.live]

_READY_AGAIN_SECONDS: Final = 90
_UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_STEADY: Final = ("steady-0", "steady-1", "steady-2")
_WAITING: Final = ("before", "later")


cluster = told_on(*LIVE)


async def test_nodes_that_are_all_lost_cost_no_pod_and_get_none(
    world: World, live_kube: KubeRig, live_nodes: SimulatedNodes
) -> None:
    steady = await world.small_ones(*_STEADY)
    (leaves,) = await world.small_ones("leaves")
    jobs = await world.one_job_id_each()
    await world.set_partition(world.cluster.partition, state="DOWN")
    await world.create("before", cpus="1")
    await world.waiting("before")
    async with _all_lost(world, live_nodes):
        await world.delete("leaves")
        await world.create("later", cpus="1")
        await world.waiting("later")
        await world.set_partition(world.cluster.partition)
        for name in _WAITING:
            await world.message_with("is allocated, but Kubernetes Node", "is not ready", name=name)
        assert jobs.items() <= (await world.one_job_id_each()).items()
        assert not [it for it in _WAITING if pods.node_of(await _pod(world, it))]
        assert (await world.placeholder(leaves)).states == ("RUNNING",), "no kubelet has ended it"
    await world.until(
        "all Nodes are ready",
        lambda: _are_ready(live_kube, live_nodes),
        seconds=_READY_AGAIN_SECONDS,
    )
    for name in _WAITING:
        await world.running(name)
    await world.gone("leaves")
    await world.job_ended(jobs.pop(leaves["metadata"]["uid"]), state="CANCELLED")
    world.unharmed(*steady)
    assert jobs.items() <= (await world.one_job_id_each()).items()
    await world.until("it is ready, and has ended no pod", lambda: _is_well(world))


@asynccontextmanager
async def _all_lost(world: World, nodes: SimulatedNodes) -> AsyncIterator[None]:
    """Within the block no kubelet reports. The conditions that the node controller would set later
    are set at once; the controller then taints the Nodes itself.
    """
    with nodes.silent():
        await asyncio.gather(*(_lose(world, name) for name in nodes.names))
        await world.until("all Nodes are tainted", lambda: _are_tainted(world, nodes))
        yield
        await world.until("all Nodes are tainted still", lambda: _are_tainted(world, nodes))


async def _lose(world: World, name: str) -> None:
    unknown = {"status": "Unknown", "reason": "NodeStatusUnknown"}
    conditions = (await world.kube.get("nodes", name))["status"]["conditions"]
    status = {"status": {"conditions": [it | unknown for it in conditions]}}
    await world.kube.patch("nodes", name, status, subresource="status")


async def _are_tainted(world: World, nodes: SimulatedNodes) -> bool:
    tainted = {
        it["metadata"]["name"]
        for it in await world.kube.items("nodes")
        if _UNREACHABLE in {taint["key"] for taint in it["spec"].get("taints", ())}
    }
    return tainted.issuperset(nodes.names)


async def _are_ready(kube: KubeRig, nodes: SimulatedNodes) -> bool:
    return (await asyncio.to_thread(kube.ready_nodes)).issuperset(nodes.names)


async def _is_well(world: World) -> bool:
    wanted = {
        "slurm_pod_scheduler_brake_held_pods": 0,
        "slurm_pod_scheduler_evictions_total": 0,
        "slurm_pod_scheduler_ready": 1,
    }
    return wanted.items() <= (await asyncio.to_thread(world.scheduler.metrics)).items()


async def _pod(world: World, name: str) -> Object:
    return await world.kube.get("pods", name, namespace=world.namespace)
