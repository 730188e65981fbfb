"""From a Slurm node to its Kubernetes Node, each way by itself and in order, and back again."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.core.mapping_strategies import Strategy, Way
from scheduler.core.node_suitability import Wishes
from scheduler.kube.store import Joined
from scheduler.kube.wire import (
    Node,
    NodeAddress,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
)
from scheduler.nodes.map_file import MapFile, MapFileError
from scheduler.nodes.records import RECORD_FRESH_SECONDS
from tests.support.costs import calls
from tests.unit.service.test_nodes import World, ruled_out, slurm_node
from tests.unit.service.test_nodes import node as ready_node


def node(
    name: str,
    *,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    address: str = "",
    provider_id: str = "",
) -> Node:
    meta = ObjectMeta(
        name=name, uid=f"uid-{name}", labels=labels or {}, annotations=annotations or {}
    )
    addresses = (NodeAddress("Hostname", name), NodeAddress("InternalIP", address or "192.0.2.9"))
    return Node(meta, NodeSpec(provider_id=provider_id), NodeStatus(addresses=addresses))


@pytest.mark.parametrize(
    ("text", "strategy"),
    [
        ("name", Strategy(Way.NAME)),
        ("instance-id", Strategy(Way.INSTANCE_ID)),
        ("label:a.b/c", Strategy(Way.LABEL, "a.b/c")),
        ("file:/etc/nodes.yaml", Strategy(Way.FILE, "/etc/nodes.yaml")),
        ("slurmd-pod", Strategy(Way.SLURMD_POD, "app.kubernetes.io/name=slurmd")),
        ("slurmd-pod:a.b/c=d&e", Strategy(Way.SLURMD_POD, "a.b/c=d,e")),
        ("slurmd-pod:slurm:app=d", Strategy(Way.SLURMD_POD, "app=d", "slurm")),
    ],
)
def test_strategy(text, strategy):
    assert Strategy.parse(text) == strategy


@pytest.mark.parametrize(
    "text", ["", "nam", "label", "label:", "file", "name:x", "comment:x", "slurmd-pod:N S:a=b"]
)
def test_what_is_no_strategy_is_refused_with_what_is(text):
    with pytest.raises(ValueError, match="expected"):
        Strategy.parse(text)


def test_same_name():
    world = World("name")
    world.put(node("n1"))
    assert world.target("n1") == "n1"
    assert world.target("n2") == ""
    assert world.slurm.asked == []


@pytest.mark.parametrize("field", ["comment", "extra", "instance-id"])
async def test_field_of_the_slurm_node_names_the_node(field):
    world = World(field)
    world.put(node("k1"))
    await world.list(
        slurm_node("s1", **{field.replace("-", "_"): "k1"}),
        slurm_node("s2", **{field.replace("-", "_"): "in repair"}),
        slurm_node("s3"),
    )
    assert [world.target(name) for name in ("s1", "s2", "s3", "unheard-of")] == ["k1", "", "", None]
    behind = world.map.behind("s2")
    assert behind is not None
    assert f"its {field} is 'in repair', which names no Node" in behind.why


async def test_instance_id_is_the_end_of_the_provider_id():
    world = World("instance-id")
    world.put(node("k1", provider_id="aws:///zone-a/i-0123"))
    await world.list(slurm_node("s1", instance_id="i-0123"))
    assert world.target("s1") == "k1"


async def test_address_is_an_internal_address_of_exactly_one_node():
    world = World("address")
    world.put(node("k1", address="10.0.0.1"), node("k2"), node("k3"))
    await world.list(
        slurm_node("s1", address="10.0.0.1"),
        slurm_node("s2", address="192.0.2.9"),
        slurm_node("s3", address="k1"),
    )
    assert [world.target(name) for name in ("s1", "s2", "s3")] == ["k1", "", ""]


@pytest.mark.parametrize("way", ["label", "annotation"])
def test_mark_on_the_node(way):
    world = World(f"{way}:site/slurm")

    def marked(name: str, mark: str) -> Node:
        marks = {"site/slurm": mark}
        return node(name, labels=marks) if way == "label" else node(name, annotations=marks)

    world.put(marked("k1", "s1"), marked("k2", "twice"), marked("k3", "twice"))
    assert [world.target(name) for name in ("s1", "twice", "s2")] == ["k1", "", ""]
    behind = world.map.behind("twice")
    assert behind is not None
    assert f"{way}:site/slurm has twice on 2 Nodes" in behind.why
    world.put(node("k3"))
    assert world.target("twice") == "k2"


def slurmd(name: str, on: str, *, hostname: str = "", phase: str = "Running") -> Pod:
    meta = ObjectMeta(name=name, namespace="slurm", uid=f"uid-{name}")
    return Pod(meta, PodSpec(node_name=on, hostname=hostname), PodStatus(phase=phase))


def test_pod_of_slurmd_shows_the_node():
    strategy = Strategy.parse("slurmd-pod")
    pods = Joined[Pod]()
    pods.new().replace(
        [
            slurmd("gpu-0", "k1"),
            slurmd("slurm-worker-x-1", "k2", hostname="x-1"),
            slurmd("over-0", "k1", phase="Failed"),
            slurmd("pending-0", ""),
            slurmd("stray-0", "k9"),
        ]
    )
    world = World("slurmd-pod", pods={strategy: pods})
    world.put(node("k1"), node("k2"))
    names = ("gpu-0", "x-1", "slurm-worker-x-1", "over-0", "pending-0", "stray-0")
    assert [world.target(name) for name in names] == ["k1", "k2", "k2", "", "", ""]


def test_file_says_so(tmp_path: Path):
    path = tmp_path / "nodes.yaml"
    path.write_text("s1: k1\ns2: k9\n")
    strategy = Strategy(Way.FILE, str(path))
    world = World(str(strategy), files={strategy: MapFile(path)})
    world.put(node("k1"))
    assert [world.target(name) for name in ("s1", "s2", "s3")] == ["k1", "", ""]


@pytest.mark.parametrize("text", ["- a", "s1: [k1]", "s1: ''", "7: k1", "a: b: c"])
def test_file_that_is_no_map_is_refused_with_its_name(tmp_path: Path, text: str):
    path = tmp_path / "nodes.yaml"
    path.write_text(text)
    with pytest.raises(MapFileError, match=r"nodes\.yaml"):
        MapFile(path)


async def test_first_strategy_that_names_a_node_wins_and_slurm_is_asked_only_if_needed():
    world = World("name", "comment", "extra")
    world.put(node("s1"), node("k1"), node("k2"))
    assert world.target("s1") == "s1"
    assert world.target("s2") is None
    await world.list(
        slurm_node("s1", comment="k1"),
        slurm_node("s2", comment="k1", extra="k2"),
        slurm_node("s3", comment="gone", extra="k2"),
    )
    assert [world.target(name) for name in ("s1", "s2", "s3")] == ["s1", "k1", "k2"]


async def test_record_that_is_too_old_to_bind_on_is_asked_for_again():
    world = World("comment")
    world.put(node("k1"), node("k2"))
    await world.list(slurm_node("s1", comment="k1"))
    assert world.nodes.place("s1", Wishes()) is not None
    world.slurm.items["s1"] = slurm_node("s1", comment="k2")
    world.now += RECORD_FRESH_SECONDS + 1
    assert world.nodes.place("s1", Wishes()) is None
    await world.nodes.learn(["s1"])
    assert world.slurm.asked == ["*", "s1"]
    place = world.nodes.place("s1", Wishes())
    assert place is not None
    assert place.target == "k2"


async def test_nodes_are_listed_once_whoever_asks_first():
    world = World("comment")
    world.slurm.items = {"s1": slurm_node("s1"), "s2": slurm_node("s2")}
    await world.nodes.learn(["s1"])
    await world.nodes.learn(["s2"])
    await world.nodes.learn(["s3"])
    assert world.slurm.asked == ["*", "s3"]
    assert world.target("s3") == ""


async def test_way_back():
    world = World("comment")
    world.put(node("k1"), node("k2"), node("k3"), node("k4"))
    assert world.map.node_of("k1") is None
    await world.list(
        slurm_node("s1", comment="k1"),
        slurm_node("s2", comment="k2"),
        slurm_node("s2b", comment="k2"),
        slurm_node("k4"),
    )
    assert world.map.node_of("k1") == "s1"
    assert world.map.node_of("k1", said="s2") == "s1"
    assert world.map.node_of("k2") == ""
    assert world.map.node_of("k2", held=("s2b",)) == "s2b"
    assert world.map.node_of("k3") == ""
    assert world.map.node_of("k4") == ""


async def test_ways_back_of_all_pods_of_a_gang_cost_as_much_as_it_has_pods():
    """With 1024 pods on as many nodes, one edit of one of them took 0.5 s."""
    names = [f"k{number}" for number in range(256)]
    world = World("comment")
    world.put(*map(node, names))
    held = tuple(f"s-{it}" for it in names)
    await world.list(*(slurm_node(it, comment=it[2:]) for it in held))
    with calls() as made:
        found = [world.map.node_of(it, held=held) for it in names]
    assert found == [*held]
    assert made[0] < 60 * len(names)
    world.put(node("k256"))
    world.map.changed()
    assert world.map.node_of("k256", held=held) == ""


async def test_way_back_by_name_needs_no_list_and_respects_one():
    world = World("name")
    world.put(node("n1"), node("n2"))
    assert world.map.node_of("n1") == "n1"
    await world.list(slurm_node("n1"))
    assert world.map.node_of("n1") == "n1"
    assert world.map.node_of("n2") == ""


@pytest.mark.parametrize(("comment", "target"), [("k1", "k1"), ("In Repair!", ""), ("", "")])
async def test_without_nodes_the_word_of_a_strategy_must_at_least_be_a_name(comment, target):
    world = World("comment", read=False)
    await world.list(slurm_node("s1", comment=comment))
    assert world.target("s1") == target


async def test_the_handover_guard_looks_at_the_node_behind_a_slurm_node():
    world = World("comment")
    world.put(node("k1"))
    assert world.nodes.kube_node("s1") == "s1"
    await world.list(slurm_node("s1", comment="k1"), slurm_node("s2"))
    assert world.nodes.kube_node("s1") == "k1"
    assert world.nodes.kube_node("s2") == "s2"


# --- two Slurm nodes that lead to one Node ---


def unfit(world: World, name: str) -> str:
    """Why no pod goes to that Slurm node; empty where pods do."""
    place = world.nodes.place(name, Wishes())
    assert place is not None
    return str(place.unfit or "")


async def twofold(*states: str) -> World:
    """Slurm's n1 and old, which leads to n1 by its comment, and n2."""
    world = World("comment", "name")
    world.put(ready_node("n1"), ready_node("n2"))
    nodes = (slurm_node("n1"), slurm_node("old", *states, comment="n1"), slurm_node("n2"))
    await world.list(*nodes)
    return world


async def test_node_that_two_slurm_nodes_lead_to_takes_no_pod_through_either():
    world = await twofold()
    for name, other in (("n1", "old"), ("old", "n1")):
        assert unfit(world, name) == (
            f"maps to Kubernetes Node n1, and so does Slurm node {other}: correct one of them"
        )
    assert not unfit(world, "n2")


async def test_both_are_left_out_of_what_is_asked_for():
    world = await twofold()
    why = "Kubernetes Node n1 is behind the Slurm nodes n1 and old"
    assert ruled_out(world, Wishes()) == {"n1": why, "old": why}


async def test_guard_looks_at_the_node_behind_each_of_the_two():
    world = await twofold()
    assert (world.nodes.kube_node("old"), world.nodes.kube_node("n1")) == ("n1", "n1")


async def test_running_pod_is_found_by_the_node_that_its_job_holds():
    world = await twofold()
    assert world.nodes.node_of("n1", said="old") == "old"


@pytest.mark.parametrize("state", ["DOWN", "FUTURE", "POWERED_DOWN"])
async def test_node_that_can_start_nothing_keeps_its_old_comment_in_nobodys_way(state):
    world = await twofold(state)
    assert not unfit(world, "n1")


async def test_running_pod_is_found_though_its_slurm_node_is_down():
    world = World("comment")
    world.put(ready_node("n1"))
    await world.list(slurm_node("gpu-1", "DOWN", comment="n1"))
    assert world.nodes.node_of("n1") == "gpu-1"


async def test_node_that_comes_back_with_its_old_comment_is_noticed():
    world = await twofold("DOWN")
    assert not unfit(world, "n1")
    await world.list(slurm_node("n1"), slurm_node("old", "IDLE", comment="n1"), slurm_node("n2"))
    assert unfit(world, "n1")
