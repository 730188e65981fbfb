"""How many pods of a gang share a node: within the limit, and the remainder on a last one."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from msgspec.structs import replace

from annotations import Sharing, Switches
from scheduler.core.owner_tag import read_tag
from scheduler.core.packing import Packed, Part
from scheduler.nodes.layout import Layouts
from scheduler.nodes.node_kinds import NodeKinds
from scheduler.nodes.records import SlurmNodes
from slurmapi import BaseState, SlurmClient
from tests.unit.core.things import REQUEST
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import NODES, TinySlurm

pytestmark = pytest.mark.looptime


def layouts(slurm: TinySlurm) -> Layouts:
    client, clock = cast("SlurmClient", slurm), asyncio.get_running_loop().time
    nodes = SlurmNodes(client, clock=clock, on_change=lambda: None)
    return Layouts(NodeKinds(client, nodes, may_serve=lambda _node: True, clock=clock))


@pytest.mark.parametrize(
    ("cpus", "pods", "most", "parts"),
    [
        (16, 8, 3, [(8, 1)]),  # two nodes have 64 CPUs each
        (16, 6, 3, [(2, 3)]),
        (16, 4, 2, [(2, 2)]),
        (16, 8, 2, [(8, 1)]),  # two nodes have room for four only
        (64, 2, 8, [(2, 1)]),
        (1, 7, 4, [(1, 4), (1, 3)]),
        (1, 1, 4, [(1, 1)]),
        (999, 2, 2, [(2, 1)]),  # Slurm says that no node is large enough
    ],
)
async def test_as_many_as_a_node_takes_and_the_rest_on_another(slurm, cpus, pods, most, parts):
    request = replace(REQUEST, cpus=cpus, partition="main")
    found = await layouts(slurm).parts(request, pods, most=most)
    assert found == tuple(Part(*it) for it in parts)


async def test_slurm_packs_pods_where_that_is_safe(slurm: TinySlurm) -> None:
    request = replace(REQUEST, cpus=16, partition="main")
    assert await layouts(slurm).parts(request, 8, most=4) == (Packed(8),)
    assert slurm.calls["partitions"] == 1
    no_kill = replace(request, no_kill=True)
    assert await layouts(slurm).parts(no_kill, 7, most=4) == (Packed(7),)


@pytest.mark.parametrize(
    "wish",
    [
        *({"contiguous": True}, {"segment": 2}, {"switches": Switches(1)}, {"threads_per_core": 1}),
        *({"required_nodes": ("n1", "n2")}, {"exclusive": Sharing.NONE}),
    ],
    ids=str,
)
async def test_slurm_packs_no_pods_that_want_their_nodes_chosen(slurm, wish):
    request = replace(REQUEST, cpus=16, partition="main", **wish)
    assert await layouts(slurm).parts(request, 8, most=4) == (Part(2, 4),)


async def test_slurm_packs_no_pods_on_whole_nodes(slurm: TinySlurm) -> None:
    request = replace(REQUEST, cpus=16)
    shared = await layouts(slurm).parts(request, 8, most=4, sharing=Sharing.NONE)
    assert shared == (Part(2, 4),)
    slurm.whole_nodes.add("main")
    assert await layouts(slurm).parts(request, 8, most=4) == (Part(2, 4),)


async def test_slurm_packs_pods_with_gpus_only_where_each_node_has_a_slurmd(
    slurm: TinySlurm,
) -> None:
    slurm.gres = "gpu:h100:4"
    request = replace(REQUEST, cpus=1, gpus=1, gres="gres/gpu:h100:1", partition="main")
    slurm.with_slurmd = {"n1"}
    assert await layouts(slurm).parts(request, 8, most=8) == (Part(2, 4),)
    slurm.with_slurmd = {"n1", "n2"}
    assert await layouts(slurm).parts(request, 8, most=8) == (Packed(8),)


@pytest.mark.parametrize(
    "wish",
    [{"contiguous": True}, {"segment": 2}, {"no_kill": True}, {"required_nodes": ("n1",)}],
    ids=str,
)
async def test_job_in_one_piece_has_a_number_that_divides_the_gang(slurm, wish):
    request = replace(REQUEST, cpus=1, partition="main", **wish)
    assert await layouts(slurm).parts(request, 7, most=4) == (Part(7, 1),)
    assert await layouts(slurm).parts(request, 6, most=4) == (Part(2, 3),)


async def test_gpus_count_too(slurm: TinySlurm) -> None:
    slurm.gres = "gpu:h100:4"
    request = replace(REQUEST, cpus=1, gpus=1, gres="gres/gpu:h100:1", partition="main")
    assert await layouts(slurm).parts(request, 8, most=8) == (Part(2, 4),)
    other = replace(request, gres="gres/gpu:a100:1")
    assert await layouts(slurm).parts(other, 8, most=8) == (Part(8, 1),)


@pytest.mark.parametrize(
    ("wish", "of_node", "of_partition"),
    [
        ({}, {"job_cpus": 60}, {}),  # CoreSpecCount
        ({"memory_mib": 1024 * 256}, {"specialized_memory_mib": 1024}, {}),  # MemSpecLimit
        ({}, {}, {"max_cpus_per_node": 60}),
        ({"memory_mib": 1024 * 256}, {}, {"max_memory_per_node_mib": 1024 * 1000}),
        ({"cpus": 8, "threads_per_core": 1}, {"threads_per_core": 2, "job_cpus": 60}, {}),
        ({"gres": "gres/gpu:1,gres/nic:1"}, {"gres": "gpu:8,nic:3"}, {}),
    ],
    ids=str,
)
async def test_what_jobs_may_not_have_of_a_node_is_room_for_no_pod(
    slurm: TinySlurm, wish, of_node, of_partition
) -> None:
    """Each node has room for three of the pods. Slurm would never start four on one."""
    for name in NODES:
        slurm.of_node[name] = of_node
    slurm.of_partition["main"] = of_partition
    request = replace(REQUEST, **{"cpus": 16, "partition": "main", **wish})
    found = await layouts(slurm).parts(request, 4, most=16, may_pack=False)
    assert found == (Part(2, 2),)


async def test_nodes_that_the_job_does_not_get_do_not_count(slurm: TinySlurm) -> None:
    """Such as those that the pods' nodeSelector rules out: here those that are larger."""
    slurm.add_node("n3")
    slurm.nodes_in["main"] = ("n1", "n2", "n3")
    slurm.of_node["n3"] = {"job_cpus": 128}
    request = replace(REQUEST, cpus=16, partition="main")

    async def parts(pods: int, *avoided: str, **more: Any) -> tuple[Part | Packed, ...]:
        asked = replace(request, **more)
        return await layouts(slurm).parts(asked, pods, most=8, may_pack=False, avoided=avoided)

    assert await parts(8) == (Part(1, 8),)
    assert await parts(8, "n3") == (Part(2, 4),)
    assert await parts(8, excluded_nodes=("n3",)) == (Part(2, 4),)
    assert await parts(16, "n3") == (Part(1, 8), Part(2, 4)), "none fits elsewhere, so it waits"
    assert await parts(2, "n1", "n2", no_kill=True) == (Part(1, 2),)
    assert await parts(8, "n3", no_kill=True) == (Part(2, 4),)


@pytest.mark.parametrize("less", [{"cpu": "63500m"}, {"memory": "1000Gi"}, {"pods": "3"}], ids=str)
async def test_no_more_pods_go_on_a_node_than_kubernetes_lets_them(
    slurm: TinySlurm, kube: TinyKube, less: dict[str, Any]
) -> None:
    """Slurm has 64 CPUs and 1 TiB of each node. Four pods would never be bound there."""
    for name in NODES:
        kube.set_node(name, **less)
    service = Service(slurm, kube)
    service.start()
    said = {"gang": "train", "gang-size": "4", "pods-per-node": "4"}
    said |= {"exclusive": "none"}  # so that Slurm does not pack them
    for rank in range(4):
        prefixed = {f"sunk.coreweave.com/{key}": value for key, value in said.items()}
        name = f"train-{rank}"
        kube.create(f"uid-{rank}", name=name, annotations=prefixed, cpu="16", memory="256Gi")
    await asyncio.sleep(2)
    (submission,) = slurm.submissions.values()
    assert (submission.nodes, submission.tasks_per_node) == (2, 2)
    service.unharmed()
    await service.kill()


async def test_nodes_of_several_partitions_are_not_added_up(slurm: TinySlurm) -> None:
    """Slurm gives a job, or component, nodes of one of the partitions that it names."""
    large, small = [f"l{it}" for it in range(6)], [f"s{it}" for it in range(10)]
    for name in (*large, *small):
        slurm.add_node(name)
    for name in small:
        slurm.of_node[name] = {"job_cpus": 2}
    slurm.nodes_in = {"a": tuple(large[:3]), "b": (*large[3:], *small)}
    request = replace(REQUEST, cpus=1, memory_mib=1, partition="a,b")
    found = await layouts(slurm).parts(request, 20, most=4, may_pack=False)
    assert found == (Part(10, 2),)


async def test_pods_that_share_a_node_are_bound_there_together(
    slurm: TinySlurm, kube: TinyKube
) -> None:
    service = Service(slurm, kube)
    service.start()
    for rank in range(4):
        said = {"gang": "train", "gang-size": "4", "pods-per-node": "2"}
        prefixed = {f"sunk.coreweave.com/{key}": value for key, value in said.items()}
        kube.create(f"uid-{rank}", name=f"train-{rank}", annotations=prefixed)
    await asyncio.sleep(2)
    (submission,) = slurm.submissions.values()
    assert (submission.nodes, submission.tasks_per_node) == (2, 2)
    tag = read_tag(submission.admin_comment)
    assert tag is not None
    assert tag.per_node == 2
    slurm.change(1, BaseState.RUNNING, nodes=("n2", "n1"), start_time=1)
    await asyncio.sleep(3)
    assert dict(kube.bindings) == {"uid-0": "n2", "uid-1": "n2", "uid-2": "n1", "uid-3": "n1"}
    service.unharmed()
    await service.kill()


async def test_node_without_room_for_both_pods_gets_none_and_the_next_job_avoids_it(
    slurm: TinySlurm, kube: TinyKube
) -> None:
    kube.set_node("n1", cpu="6")
    service = Service(slurm, kube)
    service.start()
    for rank in range(2):
        said = {"gang": "train", "gang-size": "2", "pods-per-node": "2"}
        prefixed = {f"sunk.coreweave.com/{key}": value for key, value in said.items()}
        kube.create(f"uid-{rank}", name=f"train-{rank}", annotations=prefixed)
    await asyncio.sleep(2)
    slurm.change(1, BaseState.RUNNING, nodes=("n1",), start_time=1)
    await asyncio.sleep(5)
    assert kube.bindings == []
    assert slurm.submissions[2].excluded_nodes == ("n1",)
    said_of = [it.message for it in service.recorder.events if it.reason == "NodeUnavailable"]
    assert "n1 has 6 CPUs, 2 pods of the gang request 8" in said_of[0]
    service.unharmed()
    await service.kill()
