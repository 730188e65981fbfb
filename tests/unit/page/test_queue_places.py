"""Where waiting pods stand: the order, who may know it, and what an answer costs."""

from __future__ import annotations

import asyncio

import msgspec

from scheduler.page.queue_places import PLACES_SECONDS, QueuePlaces
from scheduler.view.partition_row import LONGEST_ANSWER
from scheduler.view.queue_place import MOST_QUEUE_PLACES, PlacesTold
from tests.unit.kube.server import ApiStub
from tests.unit.page.conftest import Caller, World
from tests.unit.page.test_page_server import ALICE, reviews
from tests.unit.view.pods import OURS, SUNK, waiting


def put(
    world: World,
    name: str,
    *,
    job: int,
    priority: int = 1,
    partition: str = "gpu",
    namespace: str = "default",
    claims: int | None = None,
) -> None:
    """A pod whose job Slurm has put into its queue. It may claim another job."""
    words = f"Slurm job {job} is pending: Priority (priority {priority}, partition {partition})"
    named = {OURS + "job-id": str(claims or job)}
    world.put(name, namespace=namespace, annotations=named, status=waiting(words))


async def places(
    world: World, namespace: str = "", *, kept: QueuePlaces | None = None
) -> dict[str, tuple[str, int, int]]:
    """Partition, place and number of waiting jobs, by the pod's name."""
    world.now += 10
    asked = kept or world.queue_places()
    told = msgspec.json.decode(await asked.answer(namespace), type=PlacesTold)
    return {it.uid.removeprefix("uid-"): (it.partition, it.place, it.of) for it in told.items}


async def test_order_is_by_priority_and_then_by_the_id_of_the_job(world: World) -> None:
    put(world, "later", job=12, priority=5)
    put(world, "sooner", job=11, priority=5)
    put(world, "first", job=13, priority=9)
    put(world, "elsewhere", job=14, partition="cpu")
    assert await places(world) == {
        "first": ("gpu", 1, 3),
        "sooner": ("gpu", 2, 3),
        "later": ("gpu", 3, 3),
        "elsewhere": ("cpu", 1, 1),
    }


async def test_pods_of_one_job_have_one_place(world: World) -> None:
    put(world, "gang-0", job=7, priority=2)
    put(world, "gang-1", job=7, priority=2)
    put(world, "alone", job=8)
    found = await places(world)
    assert found["gang-0"] == found["gang-1"] == ("gpu", 1, 2)
    assert found["alone"] == ("gpu", 2, 2)


async def test_job_for_several_partitions_is_told_where_it_stands_best(world: World) -> None:
    put(world, "before", job=1, priority=9, partition="gpu")
    put(world, "either", job=2, partition="gpu,cpu")
    assert (await places(world))["either"] == ("cpu", 1, 1)


async def test_pods_that_do_not_wait_in_slurms_queue_have_no_place(world: World) -> None:
    world.put("new")
    world.put("unfit", status=waiting("None of the 2 Nodes can take the pod", "NoNodeFits"))
    world.put("runs", nodeName="n", status={"phase": "Running"}, annotations={OURS + "job-id": "1"})
    put(world, "waits", job=2)
    assert await places(world) == {"waits": ("gpu", 1, 1)}


async def test_pod_cannot_push_itself_or_a_job_before_others(world: World) -> None:
    """Annotations are written by whoever creates the pod, conditions are not."""
    asked = {SUNK + "priority": "99", SUNK + "partition": "gpu", OURS + "job-id": "1"}
    world.put("forged", annotations=asked)
    put(world, "liar", job=5, claims=3)
    put(world, "honest", job=4)
    assert await places(world) == {"honest": ("gpu", 1, 1)}


async def test_only_the_namespace_is_told_and_the_others_are_counted(world: World) -> None:
    put(world, "ours", job=2, namespace="a")
    put(world, "theirs", job=1, namespace="b")
    assert await places(world, "a") == {"ours": ("gpu", 2, 2)}


async def test_places_are_told_to_those_who_may_list_the_pods(
    closed_page: Caller, world: World, stub: ApiStub
) -> None:
    put(world, "ours", job=2, namespace="a")
    put(world, "theirs", job=1, namespace="b")
    reviews(stub, may={("list", "pods", "a")})
    async with closed_page.client.get("/api/places?namespace=a", headers=ALICE) as answer:
        (item,) = (await answer.json())["items"]
        assert item == {"uid": "uid-ours", "partition": "gpu", "place": 2, "of": 2}
    for query, named in (("?namespace=b", "in namespace b"), ("", "in all namespaces")):
        async with closed_page.client.get(f"/api/places{query}", headers=ALICE) as answer:
            assert answer.status == 403
            assert f"you may not list pods {named}" in (await answer.json())["error"]
    async with closed_page.client.get("/api/places?namespace=a") as answer:
        assert answer.status == 401
    async with closed_page.client.get("/api/places?namespace=A", headers=ALICE) as answer:
        assert answer.status == 400


async def test_jobs_are_put_in_order_once_for_all_who_ask_at_the_same_time(world: World) -> None:
    put(world, "waits", job=1)
    kept = world.queue_places()
    for _ in range(5):
        await kept.answer("default")
        world.now += PLACES_SECONDS / 10
    assert kept.ranked == 1
    world.now += PLACES_SECONDS
    await kept.answer("other")
    assert kept.ranked == 2


async def test_long_answer_comes_in_bounded_parts(world: World) -> None:
    for number in range(2 * MOST_QUEUE_PLACES + 1):
        put(world, f"p{number}", job=number + 1, partition="p" * 200)
    kept = world.queue_places()
    seen: list[int] = []
    after, parts = "", 0
    while after or not parts:
        body = await kept.answer("default", after=after)
        assert len(body) <= LONGEST_ANSWER
        told = msgspec.json.decode(body, type=PlacesTold)
        seen += [it.place for it in told.items]
        after, parts = told.continue_, parts + 1
    assert parts == 3
    assert sorted(seen) == list(range(1, 2 * MOST_QUEUE_PLACES + 2))


async def test_places_and_partitions_take_the_loop_in_turn(world: World) -> None:
    """Together they take a third of its time, not a third each."""
    put(world, "waits", job=1)
    async with world.answers.next():
        asked = [asyncio.create_task(world.places.answer("default"))]
        asked.append(asyncio.create_task(world.partitions.answer("default")))
        for _ in range(100):
            await asyncio.sleep(0)
        assert not any(it.done() for it in asked)
    assert len(await asyncio.gather(*asked)) == 2
