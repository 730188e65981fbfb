from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from scheduler.workqueue import QueueShutDown, WorkQueue

pytestmark = pytest.mark.looptime


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_keys_come_in_the_order_they_were_added() -> None:
    queue = WorkQueue[str]()
    for key in "abc":
        queue.add(key)
    assert [await queue.get() for _ in range(3)] == ["a", "b", "c"]


async def test_key_added_many_times_runs_once() -> None:
    queue = WorkQueue[str]()
    for _ in range(1000):
        queue.add("a")
    queue.add("b")
    assert len(queue) == 2
    assert await queue.get() == "a"
    assert await queue.get() == "b"


async def test_key_added_while_processed_runs_once_more_and_only_after_done() -> None:
    queue = WorkQueue[str]()
    queue.add("a")
    await queue.get()
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0
    queue.done("a")
    assert await queue.get() == "a"
    queue.done("a")
    assert len(queue) == 0


async def test_done_without_get_is_harmless() -> None:
    queue = WorkQueue[str]()
    queue.add("a")
    queue.done("a")
    assert await queue.get() == "a"


async def test_waiting_getters_are_served_one_key_each() -> None:
    queue = WorkQueue[int]()
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        tasks = [group.create_task(queue.get()) for _ in range(3)]
        await asyncio.sleep(1)
        for key in range(3):
            queue.add(key)
    assert sorted(task.result() for task in tasks) == [0, 1, 2]


async def test_key_given_to_a_cancelled_getter_goes_to_another() -> None:
    queue = WorkQueue[str]()
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        first = group.create_task(queue.get())
        second = group.create_task(queue.get())
        await asyncio.sleep(1)
        queue.add("a")  # wakes the first
        first.cancel()
    assert second.result() == "a"


async def test_cancelled_getter_takes_nothing() -> None:
    queue = WorkQueue[str]()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await queue.get()
    queue.add("a")
    assert await queue.get() == "a"


async def test_delayed_key_comes_when_due() -> None:
    queue = WorkQueue[str]()
    start = now()
    queue.add_after("later", 20)
    queue.add_after("sooner", 10)
    queue.add_after("now", 0)
    got = [(await queue.get(), round(now() - start, 3)) for _ in range(3)]
    assert got == [("now", 0), ("sooner", 10), ("later", 20)]


@pytest.mark.parametrize("delays", [(30.0, 5.0), (5.0, 30.0), (5.0, 5.0)])
async def test_of_several_delays_the_earliest_counts(delays: tuple[float, float]) -> None:
    queue = WorkQueue[str]()
    start = now()
    for delay in delays:
        queue.add_after("a", delay)
    assert queue.statistics().delayed == 1
    await queue.get()
    assert now() - start == pytest.approx(5)
    queue.done("a")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(100):
            await queue.get()


async def test_delayed_key_does_not_hold_back_an_immediate_one() -> None:
    queue = WorkQueue[str]()
    queue.add_after("a", 10)
    queue.add("a")
    start = now()
    await queue.get()
    assert now() == start
    queue.done("a")
    await queue.get()  # as client-go: the delayed add still comes
    assert now() - start == pytest.approx(10)


async def test_key_brought_forward_again_and_again_leaves_no_garbage() -> None:
    queue = WorkQueue[str]()
    queue.add_after("b", 3000)  # stands before what "a" leaves behind
    for _ in range(1000):
        queue.add_after("a", 3600)
        queue.add_after("a", 1)
        await queue.get()
        queue.done("a")
    assert len(queue._delays._heap) < 200


async def test_failures_back_off_exponentially_to_the_longest_delay() -> None:
    queue = WorkQueue[str](first_seconds=0.005, longest_seconds=60, jitter=0)
    delays = [queue.add_rate_limited("a") for _ in range(16)]
    assert delays[:4] == [0.005, 0.01, 0.02, 0.04]
    assert delays[-1] == 60
    assert queue.add_rate_limited("b") == 0.005
    queue.forget("a")
    assert queue.failures("a") == 0
    assert queue.add_rate_limited("a") == 0.005


async def test_failing_for_ever_does_not_overflow() -> None:
    queue = WorkQueue[str](jitter=0)
    delays = [queue.add_rate_limited("a") for _ in range(5000)]
    assert delays[-1] == 60


async def test_jitter_only_shortens() -> None:
    queue = WorkQueue[int](first_seconds=8, jitter=0.25)
    delays = [queue.add_rate_limited(key) for key in range(200)]
    assert min(delays) >= 6
    assert max(delays) <= 8
    assert len(set(delays)) > 100


async def test_shut_down_hands_out_what_waits_and_ignores_what_comes() -> None:
    queue = WorkQueue[str]()
    queue.add("a")
    queue.add_after("b", 1)
    queue.shut_down()
    queue.add("c")
    queue.add_after("d", 0)
    assert queue.shutting_down
    assert await queue.get() == "a"
    with pytest.raises(QueueShutDown):
        await queue.get()


async def test_shut_down_ends_waiting_getters() -> None:
    queue = WorkQueue[str]()

    async def worker() -> str:
        try:
            return await queue.get()
        except QueueShutDown:
            return "ended"

    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        tasks = [group.create_task(worker()) for _ in range(4)]
        await asyncio.sleep(1)
        queue.shut_down()
    assert [task.result() for task in tasks] == ["ended"] * 4


async def test_drain_waits_for_what_is_waiting_and_processed() -> None:
    queue = WorkQueue[str]()
    for key in "ab":
        queue.add(key)

    async def worker() -> None:
        for _ in range(2):
            key = await queue.get()
            await asyncio.sleep(5)
            queue.done(key)

    start = now()
    async with asyncio.TaskGroup() as group:
        group.create_task(worker())
        await queue.drain()
        assert now() - start == pytest.approx(10)


async def test_drain_of_an_idle_queue_returns_at_once() -> None:
    async with asyncio.timeout(1):
        await WorkQueue[str]().drain()


async def test_statistics_tell_of_work_under_way() -> None:
    queue = WorkQueue[str]()
    for key in "abc":
        queue.add(key)
    await queue.get()
    await asyncio.sleep(3)
    await queue.get()
    await asyncio.sleep(2)
    queue.add_after("d", 60)
    statistics = queue.statistics()
    assert statistics[:3] == (1, 1, 2)
    assert statistics.unfinished_seconds == pytest.approx(7)
    assert statistics.longest_seconds == pytest.approx(5)


class Metrics:
    def __init__(self) -> None:
        self.told: list[tuple[str, float]] = []

    def depth(self, keys: int, /) -> None:
        self.told.append(("depth", keys))

    def added(self) -> None:
        self.told.append(("added", 1))

    def waited(self, seconds: float, /) -> None:
        self.told.append(("waited", round(seconds, 3)))

    def worked(self, seconds: float, /) -> None:
        self.told.append(("worked", round(seconds, 3)))

    def retried(self) -> None:
        self.told.append(("retried", 1))


async def test_metrics_hear_what_client_go_tells() -> None:
    metrics = Metrics()
    queue = WorkQueue[str](metrics=metrics)
    queue.add("a")
    queue.add("a")
    await asyncio.sleep(2)
    await queue.get()
    await asyncio.sleep(3)
    queue.done("a")
    queue.add_after("a", 1)
    assert metrics.told == [
        ("added", 1),
        ("depth", 1),
        ("depth", 0),
        ("waited", 2),
        ("worked", 3),
        ("retried", 1),
    ]


@pytest.mark.parametrize("workers", [1, 7])
async def test_no_key_is_ever_processed_twice_at_once_nor_lost(workers: int) -> None:
    queue = WorkQueue[int]()
    running: set[int] = set()
    seen: dict[int, int] = {}
    wanted: dict[int, int] = {}

    async def work(handle: Callable[[int], Awaitable[None]]) -> None:
        while True:
            try:
                key = await queue.get()
            except QueueShutDown:
                return
            await handle(key)
            queue.done(key)

    async def handle(key: int) -> None:
        assert key not in running
        running.add(key)
        version = wanted[key]
        await asyncio.sleep(0.01 * (key % 5))
        seen[key] = version
        running.discard(key)

    async with asyncio.timeout(600), asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(work(handle))
        for step in range(500):
            key = (step * 7) % 23
            wanted[key] = step
            (queue.add, queue.add_rate_limited)[step % 2](key)
            await asyncio.sleep(0.003 * (step % 3))
        await asyncio.sleep(100)
        await queue.drain()
    assert seen == wanted


async def test_abandoned_queue_hands_out_nothing_more() -> None:
    queue = WorkQueue[str]()
    queue.add("a")
    queue.add("b")
    assert await queue.get() == "a"
    queue.add("a")
    queue.abandon()
    queue.done("a")
    queue.add("c")
    with pytest.raises(QueueShutDown):
        await queue.get()


async def test_abandoning_wakes_who_waits() -> None:
    queue = WorkQueue[str]()
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.abandon()
    with pytest.raises(QueueShutDown):
        await waiting
