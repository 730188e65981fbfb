"""A pod gets only a Node that it may go to, and that belongs to its Slurm node, whatever the names
of the two are.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support import pods
from tests.support.kube import Kube, Object
from tests.support.world import World

MARK: Final = "stories.test/mark"
SLURM_NAME: Final = "stories.test/slurm-name"


@asynccontextmanager
async def marked(world: World, node: str, **patch: Any) -> AsyncIterator[None]:
    """Within the block the Node has other labels, annotations or taints."""
    before = await world.kube.get("nodes", node)
    undo: Object = {"metadata": {}, "spec": {"taints": before["spec"].get("taints")}}
    for field in ("labels", "annotations"):
        given = patch.get("metadata", {}).get(field, {})
        undo["metadata"][field] = dict.fromkeys(given)
    await world.kube.patch("nodes", node, patch)
    try:
        yield
    finally:
        await world.kube.patch("nodes", node, undo)


def labelled(world: World, node: str) -> Any:
    """Within the block the Node has the label that the selector below requires."""
    return marked(world, node, metadata={"labels": {MARK: "yes"}})


WANTS_MARK: Final[Object] = {"nodeSelector": {MARK: "yes"}}


def affinity(operator: str) -> Object:
    """A spec with a required node affinity about the label `MARK`."""
    term = {"matchExpressions": [{"key": MARK, "operator": operator}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"affinity": {"nodeAffinity": required}}


@pytest.mark.parametrize("wants", [WANTS_MARK, affinity("Exists")], ids=["selector", "affinity"])
@pytest.mark.live_on("26.05")
async def test_pod_gets_a_node_that_it_wants(world: World, wants: Object) -> None:
    last = world.cluster.nodes[-1]
    async with labelled(world, last):
        await world.create(**wants)
        pod = await world.running()
    assert pods.node_of(pod) == last
    job = await world.placeholder(pod)
    assert job.nodes == last
    assert job.raw["excluded_nodes"] != ""


@pytest.mark.live_on("26.05")
async def test_pod_that_no_node_can_take_says_so_and_starts_once_one_can(world: World) -> None:
    await world.create(**WANTS_MARK)
    event = await world.event("NoNodeFits")
    assert f"has no label {MARK}" in event["message"]
    assert await world.slurm.placeholders(world.namespace) == []
    async with labelled(world, world.cluster.nodes[0]):
        assert pods.node_of(await world.running()) == world.cluster.nodes[0]


@pytest.mark.live_on("26.05")
async def test_tainted_node_is_left_to_pods_that_tolerate_it(world: World) -> None:
    first, *others = world.cluster.nodes
    taint = {"key": MARK, "value": "gpu", "effect": "NoSchedule"}
    async with marked(world, first, spec={"taints": [taint]}), AsyncExitStack() as stack:
        await stack.enter_async_context(labelled(world, first))
        await world.create("avoids", **affinity("DoesNotExist"))
        assert pods.node_of(await world.running("avoids")) in others
        tolerates = {"key": MARK, "operator": "Exists"}
        await world.create("tolerates", tolerations=[tolerates], **WANTS_MARK)
        assert pods.node_of(await world.running("tolerates")) == first
        await world.create("refused", **WANTS_MARK)
        event = await world.event("NoNodeFits", name="refused")
        assert f"has the taint {MARK}=gpu:NoSchedule" in event["message"]


@pytest.mark.slow
@pytest.mark.live_on("26.05")
async def test_job_that_waits_learns_which_nodes_its_pod_cannot_use(world: World) -> None:
    filler = await world.fill()
    first = world.cluster.nodes[0]
    await world.create()
    job = await world.placeholder(await world.waiting())

    async def excluded() -> str:
        record = await world.slurm.job(job.job_id)
        assert record is not None
        return str(record.raw["excluded_nodes"])

    async def none_excluded() -> bool:
        return not await excluded()

    async with marked(world, first, spec={"taints": [{"key": MARK, "effect": "NoExecute"}]}):
        await world.until("the tainted node is excluded", excluded)
        assert await excluded() == first
    await world.until("no node is excluded any more", none_excluded)
    await world.end_native(filler)
    assert pods.annotation(await world.running(), pods.JOB_ID) == str(job.job_id)


@pytest.mark.live_on("26.05")
async def test_pod_that_insists_on_a_tainted_node_holds_nothing_until_the_taint_is_gone(
    world: World,
) -> None:
    first = world.cluster.nodes[0]
    async with marked(world, first, spec={"taints": [{"key": MARK, "effect": "NoSchedule"}]}):
        await world.create(slurm={"required-nodes": first})
        event = await world.event("NodeUnavailable")
        assert f"Kubernetes Node {first} has the taint {MARK}:NoSchedule" in event["message"]
        await world.event("PlaceholderLost")
    assert pods.node_of(await world.running()) == first


# --- other names ----------------------------------------------------------------------------------

Arrange = Callable[[World, str, str], Awaitable[Callable[[], Awaitable[object]]]]


def slurm_field(field: str) -> Arrange:
    """A field of Slurm's record of a node names the Node."""

    async def arrange(world: World, node: str, target: str) -> Callable[[], Awaitable[object]]:
        async def write(value: str) -> None:
            answer = await world.slurm.ask("POST", f"node/{node}", body={field: value})
            assert answer.ok, answer

        await write(target)
        return lambda: write("")

    return arrange


async def instance_id(world: World, node: str, target: str) -> Callable[[], Awaitable[object]]:
    """InstanceId in Slurm's record of a node is the Node's name."""
    await world.cluster.set_instance_id(node, target)
    return lambda: world.cluster.set_instance_id(node, "")


async def address(world: World, node: str, target: str) -> Callable[[], Awaitable[object]]:
    """NodeAddr is the Node's InternalIP; all of 127.0.0.0/8 is this machine."""
    before = (await world.slurm.ask("GET", f"node/{node}")).body["nodes"][0]["address"]
    here = f"127.0.1.{1 + world.cluster.nodes.index(target)}"
    status = (await world.kube.get("nodes", target))["status"]

    async def write(ip: str, addresses: list[Object]) -> None:
        await world.kube.patch(
            "nodes", target, {"status": {"addresses": addresses}}, subresource="status"
        )
        answer = await world.slurm.ask("POST", f"node/{node}", body={"address": [ip]})
        assert answer.ok, answer

    await write(here, [{"type": "InternalIP", "address": here}])
    return lambda: write(before, status["addresses"])


def node_mark(field: str) -> Arrange:
    """A label or annotation of the Node holds the Slurm node's name."""

    async def arrange(world: World, node: str, target: str) -> Callable[[], Awaitable[object]]:
        async def write(value: str | None) -> None:
            await world.kube.patch("nodes", target, {"metadata": {field: {SLURM_NAME: value}}})

        await write(node)
        return lambda: write(None)

    return arrange


async def slurmd_pod(world: World, node: str, target: str) -> Callable[[], Awaitable[object]]:
    """A pod with the Slurm node's name runs on the Node."""
    body = pods.pod(node, scheduler="nobody", nodeName=target)
    body["metadata"]["labels"] = {"role": f"slurmd-{world.namespace}"}
    await world.kube.create("pods", body, namespace=world.namespace)
    return lambda: world.kube.delete("pods", node, namespace=world.namespace, grace_seconds=0)


async def in_file(world: World, node: str, target: str) -> Callable[[], Awaitable[object]]:
    """A line of the map file maps the Slurm node to the Node."""
    with _file(world).open("a") as file:
        file.write(f"{node}: {target}\n")

    async def forget() -> None:
        return

    return forget


def _file(world: World) -> Path:
    return world.scheduler.log.parent / "nodes.yaml"


SLURM_WAYS: Final[dict[str, tuple[str, Arrange]]] = {
    "comment": ("comment", slurm_field("comment")),
    "extra": ("extra", slurm_field("extra")),
    "instance-id": ("instance-id", instance_id),
    "address": ("address", address),
}
OTHER_WAYS: Final[dict[str, tuple[str, Arrange]]] = {
    "label": (f"label:{SLURM_NAME}", node_mark("labels")),
    "annotation": (f"annotation:{SLURM_NAME}", node_mark("annotations")),
    "slurmd-pod": ("slurmd-pod:role=slurmd-NAMESPACE", slurmd_pod),
    "file": ("file:FOLDER/nodes.yaml", in_file),
}


@pytest.mark.parametrize("way", SLURM_WAYS)
async def test_pod_goes_to_the_node_that_slurm_names_and_a_restart_finds_back(
    world: World, way: str
) -> None:
    await _goes_and_is_found(world, *SLURM_WAYS[way])


@pytest.mark.parametrize("way", OTHER_WAYS)
@pytest.mark.live_on("26.05")
async def test_pod_goes_to_the_node_that_names_its_slurm_node_and_a_restart_finds_back(
    world: World, way: str
) -> None:
    await _goes_and_is_found(world, *OTHER_WAYS[way])


async def _goes_and_is_found(world: World, mapping: str, arrange: Arrange) -> None:
    one, other = world.cluster.nodes[:2]
    _file(world).write_text("")
    mapping = mapping.replace("FOLDER", str(_file(world).parent))
    mapping = mapping.replace("NAMESPACE", world.namespace)
    async with AsyncExitStack() as stack:
        for node, target in ((one, other), (other, one)):
            stack.push_async_callback(await arrange(world, node, target))
        await stack.enter_async_context(labelled(world, other))
        world.audit.slurm_nodes |= {one: other, other: one}
        await restart(world, f"--node-mapping={mapping},name")
        await world.create(**WANTS_MARK)
        pod = await world.running()
        job = await world.placeholder(pod)
        assert (pods.node_of(pod), job.nodes) == (other, one)
        assert pods.annotation(pod, pods.NODES) == one
        await restart(world, f"--node-mapping={mapping},name")
        await world.slurm.cancel(job.job_id)
        await world.gone()
    told = [it["reason"] for it in await world.kube.events_of("train", namespace=world.namespace)]
    assert "PlaceholderLost" not in told


async def restart(world: World, *flags: str) -> None:
    """Restart the scheduler with these flags in addition."""
    world.scheduler.stop()
    world.scheduler.add_flags(*flags)
    world.scheduler.start()


@pytest.mark.live_on("26.05")
async def test_node_that_maps_to_nothing_is_given_back_and_the_pod_says_so(world: World) -> None:
    await restart(world, "--node-mapping=label:stories.test/on-no-node")
    await world.create()
    event = await world.event("NodeUnavailable")
    assert "maps to no Kubernetes Node" in event["message"]
    await world.event("PlaceholderLost")
    pod = await world.kube.get("pods", "train", namespace=world.namespace)
    assert pods.node_of(pod) is None


@pytest.mark.flags("--node-access=none")
class TestWithoutNodes:
    """The scheduler does not read Nodes."""

    @pytest.mark.live_on("26.05")
    async def test_pods_are_served_and_the_log_says_what_is_not_checked(self, world: World) -> None:
        await world.create()
        pod = await world.running()
        assert pods.node_of(pod) == (await world.placeholder(pod)).nodes
        assert "kubernetes nodes are not read" in world.scheduler.log.read_text()
        assert world.scheduler.metrics()["slurm_pod_scheduler_node_checks"] == 0.0


@pytest.mark.live_on("26.05")
async def test_checks_are_on_where_nodes_can_be_read(world: World, kube: Kube) -> None:
    assert await kube.items("nodes")
    assert world.scheduler.metrics()["slurm_pod_scheduler_node_checks"] == 1.0
