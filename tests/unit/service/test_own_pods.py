"""Our own pods on Nodes are counted once, by the watch of our own pods."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from scheduler.config.settings import Settings
from scheduler.kube.neighbours import neighbour, on_nodes
from scheduler.kube.slim import MOST_POD_BYTES, slim
from scheduler.kube.wire import (
    Container,
    ContainerStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    Quantity,
    ResourceRequirements,
)
from scheduler.nodes.neighbourhood import Neighbourhood
from scheduler.nodes.own_pods import OwnPods
from scheduler.service.known_cluster import own_left_out


def pod(node: str = "", *, cpu: str = "4", **labels: str) -> Pod:
    container = Container("c", ResourceRequirements(requests={"cpu": cpu}))
    spec = PodSpec(node_name=node, scheduler_name="ours", containers=(container,))
    return Pod(ObjectMeta(name="a", namespace="ns", uid="uid-a", labels=labels), spec)


class World:
    """The pods around the Nodes, and our own among them."""

    def __init__(self) -> None:
        self.around = Neighbourhood()
        self.own = OwnPods(self.around)

    def claim(self, waiting: Pod, node: str) -> None:
        self.around.assume(neighbour(waiting, node=node))
        self.own.claimed(waiting)

    def used(self, node: str) -> list[int]:
        """The millicores of each pod that is counted there."""
        load = self.around.load(node)
        assert sum(dict(it.shape.requests)["cpu"] for it in load.pods) == load.used.get("cpu", 0)
        return [dict(it.shape.requests)["cpu"] for it in load.pods]


@pytest.fixture
def world() -> World:
    return World()


def test_binding_that_the_watch_shows_is_counted_once(world):
    waiting = pod()
    world.claim(waiting, "n1")
    changes = world.around.changes
    world.own.changed(waiting, pod("n1"))
    assert world.used("n1") == [4000]
    assert world.around.changes == changes, "what was known already is no change"
    assert "uid-a" in world.own.items
    assert not world.around.assumed()


def test_pod_that_was_bound_to_another_node_is_counted_there(world):
    waiting = pod()
    world.claim(waiting, "n1")
    world.own.changed(waiting, pod("n2"))
    assert (world.used("n1"), world.used("n2")) == ([], [4000])


@pytest.mark.parametrize("edited", [pod("n1", app="web"), pod("n1", cpu="8")], ids=["label", "cpu"])
def test_pod_that_was_edited_while_it_was_bound_is_counted_as_it_is_now(world, edited):
    waiting = pod()
    world.claim(waiting, "n1")
    world.own.changed(waiting, replace(edited, spec=replace(edited.spec, node_name="")))
    world.own.changed(replace(edited, spec=replace(edited.spec, node_name="")), edited)
    (counted,) = world.around.load("n1").pods
    assert counted.like(neighbour(edited))


def test_pod_that_is_there_when_the_process_starts_is_counted(world):
    world.own.changed(None, pod("n1"))
    assert world.used("n1") == [4000]


def test_report_of_a_kubelet_changes_nothing(world):
    world.own.changed(None, pod("n1"))
    changes = world.around.changes
    world.own.changed(pod("n1"), replace(pod("n1"), status=PodStatus(phase="Running")))
    assert world.around.changes == changes


def test_resized_pod_is_counted_with_its_new_size(world):
    before = pod("n1")
    world.own.changed(None, before)
    larger: dict[str, Quantity] = {"cpu": "6"}
    status = ContainerStatus(
        name="c", resources=ResourceRequirements(requests=larger), allocated_resources=larger
    )
    world.own.changed(before, replace(before, status=PodStatus(container_statuses=(status,))))
    assert world.used("n1") == [6000]


@pytest.mark.parametrize("after", [None, replace(pod("n1"), status=PodStatus(phase="Failed"))])
def test_pod_that_is_gone_or_has_ended_is_not_counted(world, after):
    world.own.changed(None, pod("n1"))
    world.own.changed(pod("n1"), after)
    assert world.used("n1") == []
    assert "uid-a" not in world.own.items


def test_pod_that_is_too_large_to_be_kept_still_takes_its_room(world):
    large = pod("n1", app="web")
    large = replace(large, metadata=replace(large.metadata, annotations=_too_many()))
    kept = slim(large, ("slurm/",))
    assert kept.oversize is not None
    assert kept.spec.containers == ()
    world.own.changed(None, kept)
    assert world.used("n1") == [4000]
    (there,) = world.around.load("n1").pods
    assert there.labels == "\napp=web\n"


def _too_many() -> dict[str, str]:
    return {f"slurm/{number}": "x" * 1024 for number in range(2 * MOST_POD_BYTES // 1024)}


def test_watch_of_pods_on_nodes_leaves_our_own_out_unless_we_see_only_some_of_them():
    everywhere = Settings.model_validate({"scheduler-name": "ours"})
    somewhere = Settings.model_validate({"scheduler-name": "ours", "watch-namespace": ("ns",)})
    assert own_left_out(everywhere) == "ours"
    assert own_left_out(somewhere) == ""
    selector = on_nodes(but_those_of=own_left_out(everywhere))["fieldSelector"]
    assert selector.endswith(",spec.schedulerName!=ours")
    assert "schedulerName" not in on_nodes()["fieldSelector"]


@pytest.mark.looptime
async def test_pods_that_we_have_bound_take_room_from_those_that_come_later(service, slurm, kube):
    kube.set_node("n1", cpu="8")
    for number in range(3):
        kube.create(f"uid-{number}", name=f"p-{number}", cpu="4")
    service.start()
    await asyncio.sleep(5)
    for job in sorted(slurm.jobs):
        slurm.start(job, node="n1")
        await asyncio.sleep(5)
    assert [uid for uid, _ in kube.bindings] == ["uid-0", "uid-1"]
    kube.end_containers("uid-0")
    await asyncio.sleep(5)
    assert len(service.fit.around.load("n1").pods) == 1
