"""How many pods of a gang share a node: within the limit, and the remainder on a last one."""

from __future__ import annotations

import asyncio
from typing import cast

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
from tests.unit.service.tiny_slurm import TinySlurm

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
