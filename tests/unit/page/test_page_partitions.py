"""What a namespace may ask for: the sums over nodes, the policy, and what an answer costs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from time import perf_counter
from typing import Any

import msgspec
import pytest

from scheduler.core.node_suitability import NodeFacts, Taint
from scheduler.kube.neighbours import neighbour
from scheduler.page import partitions, server
from scheduler.page.board import NODES_SECONDS
from scheduler.page.partitions import NotKnownError
from scheduler.page.turns import TURN_SECONDS
from scheduler.view.partition_row import (
    LONGEST_ANSWER,
    LONGEST_TEXT,
    MOST_KINDS,
    MOST_ROWS,
    MOST_SAID,
    GpuCount,
    PartitionRow,
    PartitionsTold,
    SizeTold,
)
from slurmapi import Partition, SlurmNode, SlurmUnreachable
from tests.unit.kube.server import ApiStub, until
from tests.unit.page.conftest import Caller, World
from tests.unit.page.test_page_server import ALICE, reviews
from tests.unit.policy.policies import policy
from tests.unit.view.pods import decoded, pod

GIB = 1024
UP = ("UP",)
H100 = "gpu:h100:8(S:0-1)"


def node(
    name: str, *, states: str = "IDLE EXTERNAL", cpus: int = 0, used: int = 0, **more: Any
) -> SlurmNode:
    """A node of 64 CPUs, 256 GiB and 8 GPUs, of which so many are allocated."""
    given: dict[str, Any] = {
        "gres": H100,
        "gres_used": f"gpu:h100:{used}(IDX:N/A)",
        "partitions": ("gpu",),
        "memory_mib": 256 * GIB,
        "allocated_memory_mib": cpus * GIB,
    }
    return SlurmNode(
        name=name,
        states=frozenset(states.split()),
        cpus=64,
        job_cpus=64,
        allocated_cpus=cpus,
        **(given | more),
    )


def facts(name: str, **more: Any) -> NodeFacts:
    """A Node that has as much as `node`, and something for the system."""
    there = {"cpu": 63_500, "memory": 250 * 2**30, "nvidia.com/gpu": 8, "pods": 110}
    return NodeFacts(name=name, labels={}, **({"allocatable": there} | more))


async def ask(world: World, namespace: str = "default", *, after: str = "") -> PartitionsTold:
    """An answer that nothing was counted for before."""
    world.now += NODES_SECONDS + 1
    body = await world.partitions.answer(namespace, after=after)
    return msgspec.json.decode(body, type=PartitionsTold)


async def only(world: World, namespace: str = "default") -> PartitionRow:
    (row,) = (await ask(world, namespace)).items
    return row


def tell(world: World, *nodes: SlurmNode, **limits: Any) -> None:
    world.slurm.told = (Partition(name="gpu", **({"states": UP} | limits)),)
    world.records.listed = list(nodes)


async def test_largest_pod_is_what_both_ledgers_have_on_one_node(world: World) -> None:
    tell(world, node("n1", cpus=60, used=6), node("n2", cpus=40, used=8))
    world.nodes.known = {"n1": facts("n1"), "n2": facts("n2")}
    row = await only(world)
    # With GPUs, and for a pod without any.
    assert row.now == (SizeTold(4, 196 * GIB, {"h100": 2}), SizeTold(24, 216 * GIB, {}))
    assert row.gpus == {"h100": GpuCount(2, 16)}
    body = pod("other", nodeName="n1", schedulerName="other")
    body["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "61"
    world.fit.around.changed(None, neighbour(decoded(body)))
    row = await only(world)
    # 63.5 CPUs less 61 there, and one of the GPUs is taken by a pod that Slurm does not know.
    assert row.now[0] == SizeTold(2, 196 * GIB, {"h100": 2})


async def test_gang_has_the_idle_nodes_of_one_kind_within_the_partitions_limits(
    world: World,
) -> None:
    idle = [node(f"n{number}") for number in range(5)]
    small = node("s", gres="", gres_used="")
    tell(world, *idle, small, node("busy", states="MIXED EXTERNAL", cpus=1))
    (row,) = (await ask(world)).items
    assert row.gang is not None
    assert (row.gang.gang, row.gang.room) == (5, SizeTold(64, 256 * GIB, {"h100": 8}))
    tell(world, *idle, max_nodes=3, max_cpus_per_node=32, max_memory_per_node_mib=GIB)
    (row,) = (await ask(world)).items
    assert row.gang is not None
    assert (row.gang.gang, row.gang.idle) == (3, 5)
    assert row.gang.room == SizeTold(32, GIB, {"h100": 8})
    assert row.now == (SizeTold(32, GIB, {"h100": 8}),)
    assert row.limits == (
        "at most 3 nodes in a job",
        "at most 32 CPUs on a node",
        "at most 1024 MiB of memory on a node",
    )


async def test_room_of_a_gang_is_what_each_of_its_nodes_has(world: World) -> None:
    tell(world, node("n1"), node("n2"))
    world.nodes.known = {"n1": facts("n1"), "n2": facts("n2")}
    daemon = pod("daemon", nodeName="n2", schedulerName="other")
    world.fit.around.changed(None, neighbour(decoded(daemon)))
    (row,) = (await ask(world)).items
    assert row.gang is not None
    assert (row.gang.gang, row.gang.room) == (2, SizeTold(62, 248 * GIB, {"h100": 7}))
    assert row.now == (SizeTold(63, 250 * GIB, {"h100": 8}),)


CLOSED = (
    "DOWN",
    "IDLE DRAIN",
    "IDLE MAINTENANCE RESERVED",
    "IDLE RESERVED",
    "FUTURE",
    "IDLE NOT_RESPONDING",
)


@pytest.mark.parametrize("states", CLOSED)
async def test_node_that_slurm_starts_nothing_on_is_of_no_use(world: World, states: str) -> None:
    tell(world, node("n1", states=states), node("n2", cpus=63, used=8))
    row = await only(world)
    assert (row.usable, row.nodes) == (1, 2)
    assert row.now == (SizeTold(1, 193 * GIB, {}),)
    assert row.gpus == {"h100": GpuCount(0, 16)}
    assert row.notes[0].startswith("1 of 2 nodes is ")


@pytest.mark.parametrize("states", ["IDLE POWERED_DOWN", "IDLE PLANNED", "IDLE POWERING_UP"])
async def test_node_that_starts_pods_later_has_no_room_now(world: World, states: str) -> None:
    tell(world, node("n1", states=states))
    row = await only(world)
    assert (row.usable, row.nodes, row.now, row.gang) == (1, 1, (), None)
    assert row.notes[0].startswith("1 of 1 nodes is p")


async def test_node_is_of_use_only_if_kubernetes_takes_pods_there(world: World) -> None:
    names = ("ready", "cordoned", "not-ready", "absent", "unmapped", "full")
    tell(world, *map(node, names))
    known = {
        "ready": facts("ready", taints=(Taint("team", "NoSchedule", "a"),)),
        "cordoned": facts("cordoned", unschedulable=True),
        "not-ready": facts("not-ready", ready=False),
        "full": facts("full", allocatable={"cpu": 8000, "memory": 2**34, "pods": 0}),
    }
    world.nodes.known, world.nodes.absent = known, {"unmapped"}
    row = await only(world)
    assert (row.usable, row.nodes) == (2, 6)
    assert row.gang is not None
    assert row.gang.gang == 1
    assert set(row.notes) == {
        "2 of 6 nodes are without a Kubernetes Node",
        "1 of 6 nodes is cordoned in Kubernetes",
        "1 of 6 nodes is not ready in Kubernetes",
        "1 of 6 nodes only for pods that tolerate team=a:NoSchedule",
    }


async def test_nothing_starts_in_a_partition_that_is_not_up(world: World) -> None:
    tell(world, node("n1"), states=("DRAIN",))
    row = await only(world)
    assert (row.state, row.now, row.usable) == ("DRAIN", (), 1)
    assert "the partition is DRAIN: Slurm takes no new jobs" in row.notes
    tell(world, node("n1"), flags=frozenset({"REQ_RESV"}))
    row = await only(world)
    assert (row.now, row.limits) == ((), ("only with a reservation",))


async def test_whole_nodes_leave_nothing_of_a_node_that_has_a_job(world: World) -> None:
    tell(world, node("n1", cpus=1), whole_nodes=True)
    row = await only(world)
    assert (row.now, row.gang, row.limits) == ((), None, ("each job gets whole nodes",))
    tell(world, node("n1"), whole_nodes=True)
    assert (await only(world)).now == (SizeTold(64, 256 * GIB, {"h100": 8}),)


RULES = """
    rules:
      - name: fixed
        namespaces: [fixed]
        forced: {partition: cpu}
      - name: physics
        namespaces: [physics]
        defaults: {partition: gpu, account: lab}
        allowed: {partition: [gpu, "gpu-*"], timeout: {max: 3600}, qos: [low]}
      - name: urgent
        priorityClassNames: [urgent]
        forced: {qos: high}
"""


async def test_policy_says_what_the_namespace_may_ask_for(world: World) -> None:
    flags = frozenset({"DEFAULT"})
    world.slurm.told = (
        Partition(name="cpu", states=UP, flags=flags, is_default=True, max_minutes=2880),
        Partition(name="gpu", states=UP, max_minutes=30),
        Partition(name="gpu-big", states=UP),
    )
    world.records.listed = []

    async def told(namespace: str) -> Mapping[str, tuple[bool | None, bool | None, int | None]]:
        found = (await ask(world, namespace)).items
        return {it.name: (it.allowed, it.default, it.max_seconds) for it in found}

    assert await told("biology") == {
        "cpu": (True, True, 172_800),
        "gpu": (True, False, 1800),
        "gpu-big": (True, False, None),
    }
    world.rulebook.take(policy(RULES))
    assert await told("physics") == {
        "cpu": (False, False, 3600),
        "gpu": (True, True, 1800),
        "gpu-big": (True, False, 3600),
    }
    assert await told("fixed") == {
        "cpu": (True, True, 172_800),
        "gpu": (False, False, 1800),
        "gpu-big": (False, False, None),
    }
    answer = await ask(world, "physics")
    assert answer.items[0].notes[0] == "policy rule 'physics' allows one of 'gpu', 'gpu-*'"
    assert answer.limits == (
        "account: 'lab' if the pod gives none (policy rule 'physics')",
        "qos: one of 'low' (policy rule 'physics')",
        "timeout: at most 3600 (policy rule 'physics')",
    )
    assert any("PriorityClass" in it for it in answer.notes)


async def test_rules_by_labels_of_an_unknown_namespace_are_not_guessed(world: World) -> None:
    tell(world, node("n1"))
    selector = "{matchLabels: {team: a}}"
    world.rulebook.take(
        policy(f"rules: [{{name: a, namespaceSelector: {selector}, forced: {{qos: x}}}}]")
    )
    row = await only(world)
    assert (row.allowed, row.default) == (None, None)
    assert "not known yet" in row.notes[0]


async def test_hidden_partition_is_told_to_those_alone_who_get_it(world: World) -> None:
    tell(world, node("n1"), flags=frozenset({"HIDDEN"}))
    assert (await ask(world)).items == ()
    world.rulebook.take(policy("rules: [{name: a, defaults: {partition: gpu}}]"))
    assert (await only(world)).default


async def test_default_partition_is_unknown_where_slurm_does_not_tell_it(world: World) -> None:
    tell(world, node("n1"), flags=None)
    answer = await ask(world)
    assert answer.items[0].default is None
    assert "Slurm tells its default partition from 26.05 on only" in answer.notes


async def test_slurm_is_asked_rarely_and_nodes_are_counted_once_for_all_who_ask(
    world: World,
) -> None:
    tell(world, node("n1"))
    names = [f"ns{number}" for number in range(50)]
    await asyncio.gather(*map(world.partitions.answer, names))
    assert (world.slurm.asked, world.partitions.counted) == (1, 1)
    world.now += partitions.TALLY_SECONDS
    await world.partitions.answer("again")
    assert (world.slurm.asked, world.partitions.counted) == (1, 2)


async def test_slurm_that_does_not_answer_is_asked_once_for_all_who_ask(world: World) -> None:
    world.slurm.fails = SlurmUnreachable("nobody listens")
    asked = (world.partitions.answer(f"ns{number}") for number in range(50))
    found = await asyncio.gather(*asked, return_exceptions=True)
    assert {type(it) for it in found} == {NotKnownError}
    assert world.slurm.asked == 1


async def test_who_leaves_before_the_answer_does_not_have_slurm_asked_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(world, node("n1"))
    asked, told = asyncio.Semaphore(0), asyncio.Event()
    begun: list[str] = []

    async def slowly() -> tuple[Partition, ...]:
        begun.append("asked")
        asked.release()
        await told.wait()
        return world.slurm.told

    monkeypatch.setattr(world.slurm, "partitions", slowly)
    first = asyncio.create_task(world.partitions.answer("ns"))
    await asyncio.wait_for(asked.acquire(), 10)
    leaving = [first, *(asyncio.create_task(world.partitions.answer("ns")) for _ in range(50))]
    await asyncio.sleep(0)
    for task in leaving:
        task.cancel()
        await asyncio.wait([task])
    told.set()
    await world.partitions.answer("ns")
    assert begun == ["asked"]


async def test_slurm_that_does_not_answer_costs_the_age_and_not_the_answer(world: World) -> None:
    world.records.listed = []
    world.slurm.fails = SlurmUnreachable("nobody listens")
    with pytest.raises(NotKnownError, match="nobody listens"):
        await ask(world)
    world.slurm.fails = None
    tell(world, node("n1"))
    world.records.listed_at = world.now
    await ask(world)
    world.slurm.fails = SlurmUnreachable("nobody listens")
    answer = await ask(world)
    assert [it.name for it in answer.items] == ["gpu"]
    assert answer.age_seconds == 2 * (NODES_SECONDS + 1)


async def test_answer_is_bounded_whatever_slurm_has(world: World) -> None:
    """1000 partitions with long names, of which each node is in two hundred."""
    names = [f"p{number:04}-" + "x" * 50 for number in range(partitions.MOST_PARTITIONS + 10)]
    many = tuple(f"account-{number}" for number in range(5000))
    world.slurm.told = tuple(
        Partition(name=it, states=UP, accounts=many, qos=many, groups=many) for it in names
    )
    types = ",".join(f"gpu:t{number}:1" for number in range(40))
    world.records.listed = [
        node(f"n{number}", partitions=tuple(names[:200]), gres=types, memory_mib=number + 5)
        for number in range(2 * MOST_KINDS)
    ]
    answer = await ask(world)
    body = msgspec.json.encode(answer)
    assert len(body) < LONGEST_ANSWER
    assert (len(answer.items), answer.continue_) == (MOST_ROWS, names[MOST_ROWS - 1])
    assert "there are more partitions or nodes than were counted" in answer.notes
    row = answer.items[0]
    assert len(row.kinds) == MOST_KINDS
    assert "there are more kinds of nodes than the 8 that are shown" in row.notes
    said = [*row.limits, *row.notes]
    assert len(row.limits) <= MOST_SAID
    assert max(len(it.encode()) for it in said) <= LONGEST_TEXT
    found = {it.name for it in answer.items}
    while answer.continue_:
        answer = await ask(world, after=answer.continue_)
        found |= {it.name for it in answer.items}
    assert found == set(names[: partitions.MOST_PARTITIONS])


async def test_nodes_are_counted_up_to_a_bound_and_leave_the_loop_to_others(world: World) -> None:
    each = tuple(f"p{number:02}" for number in range(30))
    world.slurm.told = tuple(Partition(name=it, states=UP) for it in each)
    count = partitions.MOST_MEMBERSHIPS // len(each)
    world.records.listed = [node(f"n{number}", partitions=each) for number in range(count + 1)]
    turns: list[float] = []

    async def watch() -> None:
        while True:
            before = perf_counter()
            await asyncio.sleep(0)
            turns.append(perf_counter() - before)

    watching = asyncio.create_task(watch())
    answer = await ask(world)
    watching.cancel()
    assert {it.nodes for it in answer.items} == {count}
    assert "there are more partitions or nodes than were counted" in answer.notes
    turns.sort()
    # Nearly all: others may have the processor for a while.
    assert turns[int(len(turns) * 0.99)] < 10 * TURN_SECONDS


async def test_partitions_are_told_to_those_who_may_list_the_pods_of_the_namespace(
    closed_page: Caller, world: World, stub: ApiStub
) -> None:
    tell(world, node("n1"))
    reviews(stub, may={("list", "pods", "a")})
    path = "/api/partitions?namespace="
    async with closed_page.client.get(f"{path}a", headers=ALICE) as answer:
        assert (await answer.json())["items"][0]["name"] == "gpu"
        assert "n1" not in await answer.text()
    async with closed_page.client.get(f"{path}b", headers=ALICE) as answer:
        assert answer.status == 403
        assert "you may not list pods in namespace b" in (await answer.json())["error"]
    async with closed_page.client.get(f"{path}a") as answer:
        assert answer.status == 401
    for name in ("", "A", "../a", "x" * 64):
        async with closed_page.client.get(f"{path}{name}", headers=ALICE) as answer:
            assert answer.status == 400
    assert len(closed_page.known) == 2, "those with a token that Kubernetes knows"


async def test_partitions_that_are_not_known_yet_are_not_there(
    open_page: Caller, world: World
) -> None:
    world.slurm.fails = SlurmUnreachable("nobody listens")
    async with open_page.client.get("/api/partitions?namespace=a") as answer:
        assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
        assert "nobody listens" in (await answer.json())["error"]


async def test_one_user_has_a_bounded_number_of_questions_about_partitions(
    open_page: Caller, world: World
) -> None:
    tell(world, node("n1"))
    waits = asyncio.Event()
    asked = world.slurm.partitions

    async def slow() -> tuple[Partition, ...]:
        await waits.wait()
        return await asked()

    world.slurm.partitions = slow  # type: ignore[method-assign]
    questions = [
        asyncio.create_task(open_page.client.get("/api/partitions?namespace=a"))
        for _ in range(server.MOST_ASKING_OF_A_USER)
    ]
    async with asyncio.timeout(60):
        await until(lambda: len(open_page.known) == len(questions))
        refused = await open_page.client.get("/api/partitions?namespace=a")
    assert (refused.status, refused.headers["Retry-After"]) == (503, "5")
    waits.set()
    assert {(await it).status for it in questions} == {200}


async def test_namespace_that_is_not_served_is_told_so(world: World) -> None:
    tell(world, node("n1"))
    world.partitions = world.partition_board(served=("a",))
    assert any("does not serve" in it for it in (await ask(world, "b")).notes)
    assert not any("does not serve" in it for it in (await ask(world, "a")).notes)


async def test_gpus_beside_native_jobs_are_told_apart(world: World) -> None:
    tell(world, node("n1", states="IDLE"))
    assert any("1 nodes have a slurmd" in it for it in (await only(world)).notes)
