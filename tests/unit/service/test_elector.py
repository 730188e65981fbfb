"""Who leads, when, and when it stops: processes around one lease in virtual time."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import pytest
from structlog.testing import capture_logs

from scheduler.core.lease import LeaseRecord, Observed, Timing
from scheduler.election.elector import Alone, Elector, LeaseLostError, awake
from scheduler.kube.errors import Conflict, Forbidden, KubeError, KubeInterrupted, NotFound
from scheduler.kube.recorder import ObjectRef

pytestmark = pytest.mark.looptime

TIMING = Timing(lease=15, renew=10, retry=2)


class TinyLease:
    """The object in the API server; each process has a view of its own."""

    def __init__(self) -> None:
        self.stored: Observed | None = None
        self.reads = 0

    def view(self) -> TinyView:
        return TinyView(self)

    def put(self, record: LeaseRecord) -> Observed:
        version = 1 if self.stored is None else int(self.stored.version) + 1
        self.stored = Observed(record, str(version))
        return self.stored

    @property
    def holder(self) -> str:
        return "" if self.stored is None else self.stored.record.holder


class TinyView:
    """One process' way to it: `down` answers nothing, `fail` are the next errors, `lose` the
    answers of the next writes.
    """

    namespace, name = "ours", "lease"
    ref = ObjectRef(kind="Lease", namespace=namespace, name=name, uid="u-1")

    def __init__(self, lease: TinyLease) -> None:
        self._lease = lease
        self._known: str | None = None
        self.down = False
        self.lose = 0
        self.fail: deque[KubeError] = deque()

    async def read(self) -> Observed | None:
        await self._on_its_way()
        self._lease.reads += 1
        self._known = None if self._lease.stored is None else self._lease.stored.version
        return self._lease.stored

    async def write(self, record: LeaseRecord) -> Observed:
        await self._on_its_way()
        stored = self._lease.stored
        if stored is None and self._known is not None:
            raise NotFound(404)
        if (None if stored is None else stored.version) != self._known:
            raise Conflict(409)
        written = self._lease.put(record)
        if self.lose:
            self.lose -= 1
            raise KubeInterrupted("the answer was lost")
        self._known = written.version
        return written

    async def _on_its_way(self) -> None:
        await asyncio.sleep(0.01)
        if self.down:
            await asyncio.sleep(3600)
        if self.fail:
            raise self.fail.popleft()


class Process:
    """An elector at work; `ended` is when it gave up and why."""

    def __init__(self, lease: TinyLease, identity: str, *, skew: float = 0.0) -> None:
        loop = asyncio.get_running_loop()
        self.view = lease.view()
        self.elector = Elector(
            self.view, identity=identity, timing=TIMING, clock=lambda: loop.time() + skew
        )
        self.ended: tuple[float, LeaseLostError] | None = None
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            await self.elector.run()
        except LeaseLostError as error:
            self.ended = asyncio.get_running_loop().time(), error

    @property
    def may_write(self) -> bool:
        return self.elector.seconds_left() > 0

    async def stop(self) -> None:
        """As a graceful end."""
        await self.kill()
        await self.elector.release()

    async def kill(self) -> None:
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


Start = Callable[..., Process]


@pytest.fixture
def lease() -> TinyLease:
    return TinyLease()


@pytest.fixture
async def start(lease: TinyLease) -> AsyncIterator[Start]:
    async with AsyncExitStack() as stack:

        def begin(identity: str, *, skew: float = 0.0) -> Process:
            process = Process(lease, identity, skew=skew)
            stack.push_async_callback(process.kill)
            return process

        yield begin


@asynccontextmanager
async def took(at_most: float, *, at_least: float = 0.0) -> AsyncIterator[None]:
    loop = asyncio.get_running_loop()
    began = loop.time()
    yield
    assert at_least <= loop.time() - began <= at_most


async def test_first_one_leads_at_once_and_keeps_the_lease(start: Start) -> None:
    one = start("one")
    async with took(0.1):
        await one.elector.elected.wait()
    for _ in range(100):
        await asyncio.sleep(3)
        assert one.elector.seconds_left() > 11
    assert one.ended is None


async def test_second_one_stands_by_and_may_not_write(lease: TinyLease, start: Start) -> None:
    one, two = start("one"), start("two")
    await asyncio.sleep(60)
    assert (one.may_write, two.may_write) == (True, False)
    assert not two.elector.elected.is_set()
    assert two.elector.not_ready() == []
    assert lease.stored is not None
    assert lease.stored.record.transitions == 0
    assert lease.reads < 60 / 0.5, "looks are paced"


async def test_released_lease_is_taken_within_a_second(lease: TinyLease, start: Start) -> None:
    one = start("one")
    await one.elector.elected.wait()
    two = start("two")
    await asyncio.sleep(100)
    async with took(1.0):
        await one.stop()
        assert not one.may_write
        await two.elector.elected.wait()
    assert lease.stored is not None
    assert lease.stored.record == LeaseRecord(holder="two", seconds=15, transitions=1)


async def test_killed_leader_is_followed_when_its_lease_is_over(start: Start) -> None:
    one = start("one")
    await one.elector.elected.wait()
    two = start("two")
    await asyncio.sleep(100)
    await one.kill()
    async with took(16.0, at_least=12.0):
        await two.elector.elected.wait()


@pytest.mark.parametrize("skew", [-1e6, 1e6])
async def test_clocks_far_apart_do_no_harm(start: Start, skew: float) -> None:
    one = start("one")
    await one.elector.elected.wait()
    two = start("two", skew=skew)
    await asyncio.sleep(100)
    assert (one.may_write, two.may_write) == (True, False)
    await one.kill()
    async with took(16.0, at_least=12.0):
        await two.elector.elected.wait()


async def test_leader_that_reaches_nothing_gives_up_before_another_can_lead(start: Start) -> None:
    one = start("one")
    await one.elector.elected.wait()
    two = start("two")
    await asyncio.sleep(100)
    one.view.down = True
    async with took(12.0, at_least=8.0):
        await one.task
    assert one.ended is not None
    assert "lease ours/lease could not be renewed for 10 s: no answer in time" in str(one.ended[1])
    assert not two.elector.elected.is_set()
    await two.elector.elected.wait()
    assert not one.may_write
    assert two.may_write


async def test_lost_answers_and_errors_in_between_do_not_end_a_reign(
    lease: TinyLease, start: Start
) -> None:
    one = start("one")
    await one.elector.elected.wait()
    for _ in range(10):
        one.view.lose = 1
        await asyncio.sleep(7)
        one.view.fail.append(KubeInterrupted("cut"))
        await asyncio.sleep(7)
        assert one.may_write
    assert one.ended is None
    assert lease.stored is not None
    assert lease.stored.record.transitions == 0


async def test_lost_answer_of_the_first_write_is_found_out(start: Start) -> None:
    one = start("one")
    one.view.lose = 1
    async with took(6.0):
        await one.elector.elected.wait()
    assert one.may_write


async def test_leader_that_finds_another_in_the_lease_stops_at_once(
    lease: TinyLease, start: Start
) -> None:
    one = start("one")
    await one.elector.elected.wait()
    lease.put(LeaseRecord(holder="usurper", seconds=15, transitions=1))
    async with took(2.5):
        await one.task
    assert one.ended is not None
    assert "is held by usurper now" in str(one.ended[1])
    assert not one.may_write


@pytest.mark.parametrize("down", [False, True], ids=["leader answers", "leader hangs"])
@pytest.mark.parametrize(
    "edit", [{"holder": ""}, {"seconds": 1.0}, {"seconds": 0.0}], ids=["holder", "second", "none"]
)
async def test_lease_that_somebody_edits_has_one_writer(
    lease: TinyLease, start: Start, edit: dict[str, Any], *, down: bool
) -> None:
    """As people do to make another process lead, when this one seems to hang."""
    one = start("one")
    await one.elector.elected.wait()
    two = start("two")
    await asyncio.sleep(30.1)
    one.view.down = down
    assert lease.stored is not None
    lease.put(dataclasses.replace(lease.stored.record, **edit))
    for _ in range(400):
        await asyncio.sleep(0.1)
        assert not (one.may_write and two.may_write)
    assert (one.may_write, two.may_write) == (not down, down)


async def test_deleted_lease_is_made_anew_by_its_holder(lease: TinyLease, start: Start) -> None:
    one = start("one")
    await one.elector.elected.wait()
    two = start("two")
    await asyncio.sleep(30)
    lease.stored = None
    await asyncio.sleep(30)
    assert lease.holder == "one"
    assert (one.may_write, two.may_write) == (True, False)


async def test_of_many_that_start_together_one_leads(lease: TinyLease, start: Start) -> None:
    many = [start(f"p{number}") for number in range(10)]
    await asyncio.sleep(5)
    assert sum(process.may_write for process in many) == 1
    await asyncio.sleep(30)
    assert sum(process.may_write for process in many) == 1
    assert lease.stored is not None
    assert lease.stored.record.transitions == 0


async def test_process_that_stood_still_may_not_write_when_it_goes_on() -> None:
    """The clock went on, and no timer of the process had a chance to run."""
    jump = 0.0
    loop = asyncio.get_running_loop()
    lease = TinyLease()
    elector = Elector(lease.view(), identity="one", timing=TIMING, clock=lambda: loop.time() + jump)
    task = asyncio.create_task(elector.run())
    await elector.elected.wait()
    jump = 14.0
    assert elector.seconds_left() <= 0
    with pytest.raises(LeaseLostError):
        await task


async def test_trouble_is_said_once_and_in_the_readiness(start: Start) -> None:
    with capture_logs() as logs:
        one = start("one")
        one.view.fail.extend(Forbidden(403, message="no") for _ in range(3))
        await asyncio.sleep(1)
        assert one.elector.not_ready() == ["lease ours/lease: 403 no"]
        await one.elector.elected.wait()
    assert one.elector.not_ready() == []
    assert sum(line["event"] == "lease not reached" for line in logs) == 1


async def test_release_that_fails_only_costs_time(lease: TinyLease, start: Start) -> None:
    one = start("one")
    await one.elector.elected.wait()
    one.view.down = True
    async with took(6.0):
        await one.stop()
    assert not one.may_write
    assert lease.holder == "one"


async def test_one_that_stands_by_releases_nothing(lease: TinyLease, start: Start) -> None:
    one = start("one")
    await one.elector.elected.wait()
    two = start("two")
    await asyncio.sleep(10)
    await two.stop()
    assert lease.holder == "one"
    assert one.may_write


async def test_renewal_that_was_cut_off_does_not_keep_the_lease_from_being_released(
    lease: TinyLease, start: Start
) -> None:
    one = start("one")
    await one.elector.elected.wait()
    one.view.lose = 1
    await asyncio.sleep(2.5)
    await one.stop()
    assert lease.holder == ""


async def test_without_an_election_one_may_always_write() -> None:
    alone = Alone()
    assert alone.elected.is_set()
    assert alone.seconds_left() == float("inf")
    assert alone.not_ready() == []
    await alone.release()


async def test_clock_counts_the_sleep_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "clock_gettime", float)
    assert awake() == time.CLOCK_BOOTTIME
