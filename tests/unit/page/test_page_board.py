"""The lines of pods and nodes: what they hold and cost, and that only changes make new ones."""

from __future__ import annotations

import asyncio
import json
from time import perf_counter
from typing import Any

from msgspec.structs import replace

from scheduler.core.gang_sources import Membership, Source
from scheduler.page.board import MOST_PODS, NODES_SECONDS, Board
from scheduler.page.ledger import MOST_REMOVED, Ledger
from scheduler.page.turns import TURN_SECONDS
from slurmapi import SlurmNode
from tests.unit.page.conftest import World
from tests.unit.view.pods import PENDING, SITE, condition, decoded, pod, waiting

MARKUP = "<img src=x onerror=alert(1)>\x1b\u202e"


def read(board: Board, since: int = 0) -> list[dict[str, Any]]:
    return [json.loads(it.data) for it in board.pods.since(since)]


async def test_line_of_a_pod_has_what_the_queue_shows(world: World) -> None:
    world.put("train", status=waiting(PENDING))
    await world.refresh()
    (line,) = read(world.board)
    assert (line["state"], line["reason"], line["partition"]) == ("PENDING", "Resources", "gpu")
    assert (line["cpus"], line["gpus"], "job" in line) == (2, 1, False)


async def test_only_what_has_changed_gets_a_new_line(world: World) -> None:
    for name in ("one", "two"):
        world.put(name)
    await world.refresh()
    before = world.board.pods.version
    await world.refresh()
    assert world.board.pods.version == before
    world.put("two", node_name="", status=waiting(PENDING))
    world.store.remove("uid-one")
    await world.refresh()
    assert sorted((it["id"], it.get("gone", False)) for it in read(world.board, before)) == [
        ("uid-one", True),
        ("uid-two", False),
    ]
    assert world.board.namespaces == {"default"}


async def test_gang_is_that_of_the_scheduler(world: World) -> None:
    world.put("r0")
    member = Membership(
        source=Source.ANNOTATIONS,
        namespace="default",
        name="trainer",
        identity="trainer",
        size=2,
        rank=0,
    )
    world.members.known["uid-r0"] = member
    await world.refresh()
    (line,) = read(world.board)
    assert line["gang"] == {"key": member.key, "name": "trainer", "rank": 0, "size": 2}


async def test_markup_stays_text_and_control_characters_are_escaped(world: World) -> None:
    world.put("train", annotations={f"{SITE}partition": MARKUP})
    await world.refresh()
    (line,) = read(world.board)
    assert line["partition"] == r"<img src=x onerror=alert(1)>\x1b\u202e"
    assert b"\n" not in world.board.pods.since(0)[0].data


async def test_gpus_of_native_jobs_are_what_slurm_had_given_besides_pods(world: World) -> None:
    world.put("train", nodeName="n1", status={"phase": "Running"})
    mixed = frozenset({"MIXED"})
    world.records.listed = [
        SlurmNode(name="n1", states=mixed, cpus=8, job_cpus=8, gres="gpu:8", gres_used="gpu:4")
    ]
    await world.refresh()
    (line,) = world.board.nodes.since(0)
    assert json.loads(line.data)["gpus"] == [1, 3, 4, 8]
    world.store.remove("uid-train")  # Slurm's record is as old as before
    await world.refresh()
    (line,) = world.board.nodes.since(0)
    assert json.loads(line.data)["gpus"] == [0, 3, 5, 8]


async def test_slurm_is_asked_for_its_nodes_once_for_all_who_look(world: World) -> None:
    """Also if it does not answer: each stream asks when it is opened."""
    for _ in range(5):
        await world.board.renew_nodes()
    assert world.records.renewed == 1
    world.now += NODES_SECONDS
    await world.board.renew_nodes()
    assert world.records.renewed == 2


async def test_pods_beyond_the_bound_are_left_out_and_this_is_said(world: World) -> None:
    body = decoded(pod("many"))
    for number in range(MOST_PODS + 5):
        meta = replace(body.metadata, uid=f"u{number}", name=f"many-{number}")
        world.store.apply(replace(body, metadata=meta))
    await world.refresh()
    assert len(world.board.pods) == MOST_PODS
    assert not world.board.whole


async def test_ten_thousand_pods_leave_the_loop_to_others(world: World) -> None:
    body = decoded(pod("many", status={"conditions": [condition("PodScheduled", "False")]}))
    for number in range(10_000):
        meta = replace(body.metadata, uid=f"u{number}", name=f"many-{number}")
        world.store.apply(replace(body, metadata=meta))
    turns: list[float] = []

    async def watch() -> None:
        while True:
            before = perf_counter()
            await asyncio.sleep(0)
            turns.append(perf_counter() - before)

    watching = asyncio.create_task(watch())
    await world.refresh()
    watching.cancel()
    turns.sort()
    assert len(world.board.pods) == 10_000
    # Nearly all: others may have the processor for a while.
    assert turns[int(len(turns) * 0.99)] < 10 * TURN_SECONDS


async def test_many_who_ask_at_once_share_one_refresh(world: World) -> None:
    world.put("train")
    world.now += 10
    await asyncio.gather(*(world.board.refresh() for _ in range(100)))
    assert world.board.pods.version == 1


def test_reader_gets_each_line_once_in_its_last_state() -> None:
    found = Ledger()
    found.put("a", b"1", scope="x")
    found.put("b", b"1", scope="x")
    found.put("a", b"2", scope="x")
    found.put("a", b"2", scope="x")
    assert [(it.key, it.data) for it in found.since(0)] == [("b", b"1"), ("a", b"2")]
    assert [it.key for it in found.since(2)] == ["a"]


def test_removals_are_remembered_up_to_a_bound() -> None:
    found = Ledger()
    for number in range(2 * MOST_REMOVED + 2):
        found.put(str(number), b"1", scope="")
        found.remove(str(number), b"gone")
    assert len(found) == 0
    assert len(found.since(1)) <= MOST_REMOVED
    assert found.floor > 0
    assert found.since(0) == ()


def test_readers_who_are_equally_far_share_one_answer() -> None:
    found = Ledger()
    found.put("a", b"1", scope="x")
    assert found.since(0) is found.since(0)
    found.put("b", b"1", scope="x")
    assert [it.key for it in found.since(0)] == ["a", "b"]
