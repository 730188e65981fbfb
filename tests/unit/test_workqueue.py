from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from scheduler.observe.wake import WakeCause
from scheduler.reconcile.lanes import USUAL_PATIENCE, Patience, TenantLine
from scheduler.reconcile.workqueue import (
    JITTER,
    LONGEST_SECONDS,
    QueueShutDown,
    WorkQueue,
)

pytestmark = pytest.mark.looptime


def now() -> float:
    return asyncio.get_running_loop().time()


async def taken(queue: WorkQueue[str], count: int) -> list[str]:
    """The next keys, for one worker after the other."""
    keys = []
    for _ in range(count):
        keys.append(await queue.get())
        queue.done(keys[-1])
    return keys


async def test_keys_come_in_the_order_they_were_added() -> None:
    queue = WorkQueue[str]()
    for key in "abc":
        queue.add(key, WakeCause.WATCH)
    assert [await queue.get() for _ in range(3)] == ["a", "b", "c"]


async def test_tenants_take_turns_and_keys_of_one_come_in_order() -> None:
    queue = WorkQueue[str](
        levels=2, level=lambda key: len(key) - 2, line=lambda key: TenantLine(key[0])
    )
    for key in ("a1", "a2", "a3", "b1", "c1", "b2", "a41"):
        queue.add(key, WakeCause.WATCH)
    assert await taken(queue, 1) == ["a1"]
    queue.add("d1", WakeCause.WATCH)
    assert await taken(queue, 5) == ["b1", "c1", "a2", "d1", "b2"]
    queue.add("b1", WakeCause.WATCH)
    assert await taken(queue, 3) == ["a3", "b1", "a41"]


async def test_kinds_of_keys_of_one_tenant_take_turns_and_delay_others_by_one_key_each() -> None:
    queue = WorkQueue[str](line=lambda key: TenantLine(key[0], key[1]))
    for key in ("ax1", "ax2", "ax3", "ax4", "ay1", "ay2", "bx1"):
        queue.add(key, WakeCause.WATCH)
    assert await taken(queue, 7) == ["ax1", "ay1", "bx1", "ax2", "ay2", "ax3", "ax4"]


async def test_tenant_has_one_share_of_the_workers_for_all_kinds_of_its_keys() -> None:
    queue = WorkQueue[str](line=lambda key: TenantLine(key[0], key[1]))
    for number in range(99):
        for line in ("ax", "ay", "bx"):
            queue.add(f"{line}{number}", WakeCause.WATCH)
    held = await holders(queue, *[0] * 48)
    assert [sum(key[0] == tenant for key in held) for tenant in "ab"] == [16, 16]


async def test_key_that_becomes_urgent_leaves_its_place_to_the_next_of_its_tenant() -> None:
    levels = {"a1": 1, "a2": 1, "b1": 1}
    queue = WorkQueue[str](levels=2, level=levels.__getitem__, line=lambda key: TenantLine(key[0]))
    for key in levels:
        queue.add(key, WakeCause.WATCH)
    levels["b1"] = levels["a1"] = 0
    queue.add("b1", WakeCause.WATCH)
    queue.add("a1", WakeCause.WATCH)
    assert await taken(queue, 3) == ["b1", "a1", "a2"]
    assert len(queue) == 0


async def holders(queue: WorkQueue[str], *least_urgent: int) -> list[str]:
    """Workers of these kinds, each of which works on its first key for ever; which keys that are,
    once all have settled.
    """
    tasks = [asyncio.ensure_future(queue.get(it)) for it in least_urgent]
    await asyncio.sleep(1)
    for task in tasks:
        if not task.done():
            task.cancel()
    return sorted(task.result() for task in tasks if task.done() and not task.cancelled())


def shared(keys: str, levels: int = 1) -> WorkQueue[str]:
    """With keys such as `a1` of tenant a and level 1, each named further."""
    queue = WorkQueue[str](
        levels=levels, level=lambda key: int(key[1]), line=lambda key: TenantLine(key[0])
    )
    for key in keys.split():
        queue.add(key, WakeCause.WATCH)
    return queue


async def test_tenant_has_no_more_workers_than_remain_free() -> None:
    many = " ".join(f"a0.{number}" for number in range(99))
    assert len(await holders(shared(many), *[0] * 48)) == 24
    for count, most in ((1, 1), (2, 1), (3, 2), (4, 2), (9, 5)):
        assert len(await holders(shared(many), *[0] * count)) == most


async def test_tenants_who_want_as_many_have_the_same_and_some_remain_free() -> None:
    many = " ".join(f"{tenant}0.{number}" for number in range(99) for tenant in "abc")
    held = await holders(shared(many), *[0] * 48)
    assert [sum(key[0] == tenant for key in held) for tenant in "abc"] == [12, 12, 12]


async def test_key_of_another_is_taken_past_a_tenant_who_has_his_share() -> None:
    queue = shared("a0.1 a0.2 a0.3 b1.1", levels=2)
    # One is kept for level 0: of the four who serve it two are a's, and b's waits for no more.
    assert await holders(queue, 0, 1, 1, 1) == ["a0.1", "a0.2", "b1.1"]


async def test_share_is_of_those_who_serve_the_level() -> None:
    queue = shared("a1.1 a1.2 a1.3 a1.4", levels=2)
    assert await holders(queue, 0, 0, 0, 0, 1, 1, 1, 1) == ["a1.1", "a1.2"]


async def test_who_has_done_goes_on_at_once() -> None:
    queue = shared(" ".join(f"a0.{number:02}" for number in range(40)))
    seen = []

    async def work() -> None:
        while True:
            key = await queue.get()
            await asyncio.sleep(1)
            seen.append(key)
            queue.done(key)

    tasks = [asyncio.ensure_future(work()) for _ in range(4)]
    await asyncio.sleep(20.5)
    assert len(seen) == 40, "two at a time"
    for task in tasks:
        task.cancel()


async def test_what_waits_at_the_end_is_handed_out_whoever_has_it() -> None:
    queue = shared("a0.1 a0.2 a0.3")
    first = asyncio.ensure_future(queue.get())
    second = asyncio.ensure_future(queue.get())
    await asyncio.sleep(1)
    assert not second.done()
    queue.shut_down()
    await asyncio.sleep(1)
    assert (first.result(), second.result()) == ("a0.1", "a0.2")


async def test_key_added_many_times_runs_once() -> None:
    queue = WorkQueue[str]()
    for _ in range(1000):
        queue.add("a", WakeCause.WATCH)
    queue.add("b", WakeCause.WATCH)
    assert len(queue) == 2
    assert await queue.get() == "a"
    assert await queue.get() == "b"


async def test_delay_below_the_resolution_of_the_clock_passes() -> None:
    queue = WorkQueue[str]()
    await asyncio.sleep(1000)
    began = now()
    queue.add_after("a", 1e-18)
    assert await queue.get() == "a"
    assert now() > began


async def test_key_added_while_processed_runs_once_more_and_only_after_done() -> None:
    queue = WorkQueue[str]()
    queue.add("a", WakeCause.WATCH)
    await queue.get()
    queue.add("a", WakeCause.WATCH)
    queue.add("a", WakeCause.WATCH)
    assert len(queue) == 0
    queue.done("a")
    assert await queue.get() == "a"
    queue.done("a")
    assert len(queue) == 0


async def test_done_without_get_is_harmless() -> None:
    queue = WorkQueue[str]()
    queue.add("a", WakeCause.WATCH)
    queue.done("a")
    assert await queue.get() == "a"


async def test_waiting_getters_are_served_one_key_each() -> None:
    queue = WorkQueue[int]()
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        tasks = [group.create_task(queue.get()) for _ in range(3)]
        await asyncio.sleep(1)
        for key in range(3):
            queue.add(key, WakeCause.WATCH)
    assert sorted(task.result() for task in tasks) == [0, 1, 2]


async def test_key_given_to_a_cancelled_getter_goes_to_another() -> None:
    queue = WorkQueue[str]()
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        first = group.create_task(queue.get())
        second = group.create_task(queue.get())
        await asyncio.sleep(1)
        queue.add("a", WakeCause.WATCH)  # wakes the first
        first.cancel()
    assert second.result() == "a"


async def test_cancelled_getter_takes_nothing() -> None:
    queue = WorkQueue[str]()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await queue.get()
    queue.add("a", WakeCause.WATCH)
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
    await queue.get()
    assert now() - start == pytest.approx(5)
    queue.done("a")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(100):
            await queue.get()


async def test_delayed_key_does_not_hold_back_an_immediate_one() -> None:
    queue = WorkQueue[str]()
    queue.add_after("a", 10)
    queue.add("a", WakeCause.WATCH)
    start = now()
    await queue.get()
    assert now() == start


async def test_delay_from_before_a_pass_brings_no_further_pass() -> None:
    queue = WorkQueue[str]()
    queue.add_after("a", 10)
    queue.add("a", WakeCause.WATCH)
    start = now()
    await queue.get()
    queue.add_after("a", 20)
    queue.done("a")
    await queue.get()
    assert now() - start == pytest.approx(20)


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
    queue = WorkQueue[str](first_seconds=0.005)
    delays = [queue.add_rate_limited("a") for _ in range(16)]
    for number, delay in enumerate(delays):
        full = min(0.005 * 2**number, LONGEST_SECONDS)
        assert full * (1 - JITTER) <= delay <= full
    assert queue.add_rate_limited("b") <= 0.005
    queue.forget("a")
    assert queue.failures("a") == 0
    assert queue.add_rate_limited("a") <= 0.005


async def test_failing_for_ever_does_not_overflow() -> None:
    queue = WorkQueue[str]()
    delays = [queue.add_rate_limited("a") for _ in range(5000)]
    assert LONGEST_SECONDS * (1 - JITTER) <= delays[-1] <= LONGEST_SECONDS


async def test_jitter_only_shortens() -> None:
    queue = WorkQueue[int](first_seconds=8)
    delays = [queue.add_rate_limited(key) for key in range(200)]
    assert min(delays) >= 6
    assert max(delays) <= 8
    assert len(set(delays)) > 100


async def test_shut_down_hands_out_what_waits_and_ignores_what_comes() -> None:
    queue = WorkQueue[str]()
    queue.add("a", WakeCause.WATCH)
    queue.add_after("b", 1)
    queue.shut_down()
    queue.add("c", WakeCause.WATCH)
    queue.add_after("d", 0)
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
        queue.add(key, WakeCause.WATCH)

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
        queue.add(key, WakeCause.WATCH)
    await queue.get()
    await asyncio.sleep(3)
    await queue.get()
    await asyncio.sleep(2)
    statistics = queue.statistics()
    assert statistics.depth == 1
    assert statistics.unfinished_seconds == pytest.approx(7)
    assert statistics.longest_seconds == pytest.approx(5)


class Metrics:
    def __init__(self) -> None:
        self.calls: list[tuple[str, float]] = []

    def added(self) -> None:
        self.calls.append(("added", 1))

    def waited(self, seconds: float, /) -> None:
        self.calls.append(("waited", round(seconds, 3)))

    def worked(self, seconds: float, /) -> None:
        self.calls.append(("worked", round(seconds, 3)))

    def retried(self) -> None:
        self.calls.append(("retried", 1))


async def test_metrics_hear_what_client_go_tells() -> None:
    metrics = Metrics()
    queue = WorkQueue[str](metrics=metrics)
    queue.add("a", WakeCause.WATCH)
    queue.add("a", WakeCause.WATCH)
    await asyncio.sleep(2)
    await queue.get()
    await asyncio.sleep(3)
    queue.done("a")
    queue.add_after("a", 1)
    assert metrics.calls == [
        ("added", 1),
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
            if step % 2:
                queue.add_rate_limited(key)
            else:
                queue.add(key, WakeCause.WATCH)
            await asyncio.sleep(0.003 * (step % 3))
        await asyncio.sleep(100)
        await queue.drain()
    assert seen == wanted


async def test_abandoned_queue_hands_out_nothing_more() -> None:
    queue = WorkQueue[str]()
    queue.add("a", WakeCause.WATCH)
    queue.add("b", WakeCause.WATCH)
    assert await queue.get() == "a"
    queue.add("a", WakeCause.WATCH)
    queue.abandon()
    assert not queue.has_work(), "what waits is the next process's work"
    queue.done("a")
    queue.add("c", WakeCause.WATCH)
    with pytest.raises(QueueShutDown):
        await queue.get()


async def test_queue_has_work_while_a_key_waits() -> None:
    queue = WorkQueue[str]()
    assert not queue.has_work()
    queue.add("a", WakeCause.WATCH)
    assert queue.has_work()
    await queue.get()
    assert not queue.has_work()


async def test_burst_is_over_when_few_keys_were_worked_on_for_a_second() -> None:
    """In a burst each key waits for an answer of the servers, and they have enough to do."""
    queue = WorkQueue[str]()
    for key in "abcdefg":
        queue.add(key, WakeCause.WATCH)
        await queue.get()
    assert not queue.has_work()
    queue.add("h", WakeCause.WATCH)
    await queue.get()
    for key in "abcdefgh":
        queue.done(key)
    await asyncio.sleep(0.9)
    assert queue.has_work()
    await asyncio.sleep(0.2)
    assert not queue.has_work()


async def test_abandoning_wakes_who_waits() -> None:
    queue = WorkQueue[str]()
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.abandon()
    with pytest.raises(QueueShutDown):
        await waiting


class Levelled:
    """A queue of three levels, whose keys have the level they are given."""

    def __init__(self) -> None:
        self.levels: dict[str, int] = {}
        self.queue = WorkQueue[str](levels=3, level=lambda key: self.levels.get(key, 2))

    def add(self, keys: str, level: int) -> None:
        for key in keys:
            self.levels[key] = level
            self.queue.add(key, WakeCause.WATCH)

    async def order(self, count: int, least_urgent: int | None = None) -> str:
        taken = [await self.queue.get(least_urgent) for _ in range(count)]
        for key in taken:
            self.queue.done(key)
        return "".join(taken)


async def test_more_urgent_keys_come_first() -> None:
    it = Levelled()
    it.add("xy", 2)
    it.add("mn", 1)
    it.add("ab", 0)
    assert await it.order(6) == "abmnxy"


async def test_key_that_waits_comes_sooner_once_it_is_urgent_and_never_later() -> None:
    it = Levelled()
    it.add("xyz", 2)
    it.add("a", 0)
    it.add("z", 0)
    it.add("a", 2)
    assert await it.order(4) == "azxy"


async def test_key_added_while_it_is_worked_on_waits_where_it_is_urgent_afterwards() -> None:
    it = Levelled()
    it.add("z", 2)
    await it.queue.get()
    it.add("x", 2)
    it.add("z", 0)
    it.queue.done("z")
    assert await it.order(2) == "zx"


async def test_worker_for_urgent_keys_takes_no_others() -> None:
    it = Levelled()
    it.add("xy", 2)
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        task = group.create_task(it.queue.get(0))
        await asyncio.sleep(1)
        assert not task.done()
        it.add("y", 0)
        assert await task == "y"
    assert await it.order(1) == "x"


async def test_everybody_who_could_take_a_key_is_woken_for_it() -> None:
    """No key is left lying, whatever the order in which the woken ones come to run."""
    it = Levelled()
    taken: list[str] = []

    async def work(least_urgent: int) -> None:
        while True:
            key = await it.queue.get(least_urgent)
            await asyncio.sleep(1)
            taken.append(key)
            it.queue.done(key)

    workers = [asyncio.ensure_future(work(least_urgent)) for least_urgent in (2, 0, 2, 0)]
    await asyncio.sleep(1)
    for key, level in ("x", 2), ("a", 0), ("y", 2), ("b", 0):
        it.add(key, level)
    await asyncio.sleep(2.5)
    assert sorted(taken) == ["a", "b", "x", "y"]
    for worker in workers:
        worker.cancel()
    await asyncio.gather(*workers, return_exceptions=True)


async def test_less_urgent_keys_do_not_starve() -> None:
    it = Levelled()
    it.add("x", 2)
    it.add("m", 1)
    await asyncio.sleep(USUAL_PATIENCE.seconds + 1)
    it.add("abcd", 0)
    assert await it.order(6) == "mabcxd"


async def test_level_with_less_patience_has_its_turns_sooner_and_more_often() -> None:
    patience = {1: Patience(seconds=0.3, every=2)}
    queue = WorkQueue[str](levels=3, level=lambda key: int(key[1]), patience=patience)
    for key in ("a1", "b1", "c1", "d1"):
        queue.add(key, WakeCause.WATCH)
    await asyncio.sleep(0.4)
    for key in ("a0", "b0", "c0", "d0"):
        queue.add(key, WakeCause.WATCH)
    assert await taken(queue, 8) == ["a1", "a0", "b1", "b0", "c1", "c0", "d1", "d0"]


async def test_level_with_less_patience_leaves_the_usual_turns_to_a_lower_one() -> None:
    patience = {1: Patience(seconds=0.3, every=2)}
    queue = WorkQueue[str](levels=3, level=lambda key: int(key[1]), patience=patience)
    queue.add("a2", WakeCause.WATCH)
    queue.add("b2", WakeCause.WATCH)
    await asyncio.sleep(USUAL_PATIENCE.seconds)
    queue.add("a1", WakeCause.WATCH)
    queue.add("b1", WakeCause.WATCH)
    await asyncio.sleep(0.4)
    for key in ("a0", "b0", "c0", "d0"):
        queue.add(key, WakeCause.WATCH)
    assert await taken(queue, 8) == ["a2", "a0", "a1", "b0", "b2", "c0", "b1", "d0"]


async def test_causes_of_one_key_are_kept_once_each_in_the_order_they_came() -> None:
    queue = WorkQueue[str]()
    for cause in (WakeCause.WATCH, WakeCause.WATCH, WakeCause.PULSE, WakeCause.WATCH):
        queue.add("a", cause)
    queue.add("b", WakeCause.HOOK)
    await queue.get()
    assert queue.causes("a") == (WakeCause.WATCH, WakeCause.PULSE)
    assert queue.causes("b") == (), "nobody works on it yet"


async def test_causes_that_come_during_the_work_are_those_of_the_next_time() -> None:
    queue = WorkQueue[str]()
    queue.add("a", WakeCause.WATCH)
    await queue.get()
    queue.add("a", WakeCause.EDIT)
    assert queue.causes("a") == (WakeCause.WATCH,)
    queue.done("a")
    assert queue.causes("a") == ()
    await queue.get()
    assert queue.causes("a") == (WakeCause.EDIT,)


async def test_causes_that_are_passed_on_do_not_grow() -> None:
    queue = WorkQueue[str]()
    for _ in range(3):
        for cause in WakeCause:
            queue.add("a", cause)
        await queue.get()
        assert queue.causes("a") == tuple(WakeCause)
        queue.add("a", *queue.causes("a"))
        queue.done("a")


async def test_delay_that_was_asked_for_is_told_from_a_pause_after_a_failure() -> None:
    queue = WorkQueue[str]()
    queue.add_after("a", 1)
    queue.add_rate_limited("b")
    queue.add_after("c", 0)
    causes = {}
    for _ in range(3):
        key = await queue.get()
        causes[key] = queue.causes(key)
        queue.done(key)
    assert causes == {"a": (WakeCause.TIMER,), "b": (WakeCause.RETRY,), "c": (WakeCause.TIMER,)}
