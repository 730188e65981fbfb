from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from scheduler.kube import recorder as recorder_module
from scheduler.kube.recorder import CAPACITY, OBJECT_BURST, TOTAL_BURST, ObjectRef, Recorder
from scheduler.kube.session import KubeSession
from scheduler.kube.wire import ObjectMeta, Pod
from tests.unit.kube.server import ApiStub, Handler, Writing, hang, ok, status, until

EVENTS = "/api/v1/namespaces/ns/events"
REF = ObjectRef.of_pod(
    Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="u", resource_version="7"))
)


def another(name: str) -> ObjectRef:
    return ObjectRef(kind="Pod", namespace="ns", name=name, uid=f"uid-{name}")


@pytest.fixture
def api(session: KubeSession) -> Writing:
    return Writing(session)


@pytest.fixture
def dropped() -> list[str]:
    """Why each Event that was dropped was."""
    return []


@pytest.fixture
async def recorder(api: Writing, dropped: list[str]) -> AsyncIterator[Recorder]:
    recorder = Recorder(api, component="slurm", instance="me", on_drop=dropped.append)
    task = asyncio.ensure_future(recorder.run())
    yield recorder
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def patched(stub: ApiStub, handler: Handler) -> None:
    """Answer patches of the event that was created."""
    name = stub.requests("POST")[-1].body["metadata"]["name"]
    stub.answer("PATCH", f"{EVENTS}/{name}", handler)


async def test_event_tells_what_happened_to_whom(
    stub: ApiStub, api: Writing, recorder: Recorder
) -> None:
    stub.answer("POST", EVENTS, ok({}, 201))
    recorder.record(REF, type="Warning", reason="Why", message="because", action="Binding")
    await until(lambda: api.written == 1)
    body = stub.seen[0].body
    assert body["metadata"]["namespace"] == "ns"
    assert body["metadata"]["name"].startswith("p.")
    assert body["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "ns",
        "name": "p",
        "uid": "u",
        "resourceVersion": "7",
    }
    assert (body["type"], body["reason"], body["message"]) == ("Warning", "Why", "because")
    assert (body["action"], body["count"]) == ("Binding", 1)
    assert body["reportingComponent"] == body["source"]["component"] == "slurm"
    assert body["reportingInstance"] == "me"


async def test_repetition_adds_to_the_count(
    stub: ApiStub, api: Writing, recorder: Recorder
) -> None:
    stub.answer("POST", EVENTS, ok({}, 201))
    recorder.record(REF, type="Normal", reason="Why", message="because")
    await until(lambda: api.written == 1)
    patched(stub, ok({}))
    recorder.record(REF, type="Normal", reason="Why", message="because")
    recorder.record(REF, type="Normal", reason="Why", message="because")
    await until(lambda: api.written == 2)
    assert [s.method for s in stub.seen] == ["POST", "PATCH"]
    assert stub.seen[1].body["count"] == 3
    assert stub.seen[1].headers["Content-Type"] == "application/merge-patch+json"


async def test_another_message_is_another_event(
    stub: ApiStub, api: Writing, recorder: Recorder
) -> None:
    stub.answer("POST", EVENTS, ok({}, 201))
    for message in ("one", "two"):
        recorder.record(REF, type="Normal", reason="Why", message=message)
    await until(lambda: api.written == 2)
    assert [s.body["message"] for s in stub.requests("POST")] == ["one", "two"]


async def test_expired_event_is_told_anew(stub: ApiStub, api: Writing, recorder: Recorder) -> None:
    stub.answer("POST", EVENTS, ok({}, 201))
    recorder.record(REF, type="Normal", reason="Why", message="because")
    await until(lambda: api.written == 1)
    patched(stub, status(404))
    recorder.record(REF, type="Normal", reason="Why", message="because")
    await until(lambda: api.written == 2)
    assert stub.requests("POST")[1].body["count"] == 1


@pytest.mark.parametrize(
    "name", ["a" * 253, "a" * 219 + "." + "b" * 33, "a" * 218 + "--" + "b" * 33]
)
async def test_name_of_an_event_about_a_long_name_is_valid_and_its_own(
    stub: ApiStub, api: Writing, recorder: Recorder, name: str
) -> None:
    stub.answer("POST", EVENTS, ok({}, 201), ok({}, 201))
    for message in ("one", "two"):
        recorder.record(another(name), type="Normal", reason="R", message=message)
    await until(lambda: api.written == 2)
    names = [it.body["metadata"]["name"] for it in stub.requests("POST")]
    assert len(set(names)) == 2
    part = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
    assert all(len(it) <= 253 and re.fullmatch(rf"{part}(\.{part})*", it) for it in names)


async def test_long_messages_and_names_are_cut(
    stub: ApiStub, api: Writing, recorder: Recorder
) -> None:
    stub.answer("POST", EVENTS, ok({}, 201))
    recorder.record(another("n" * 253), type="Normal", reason="Why", message="m" * 5000)
    await until(lambda: api.written == 1)
    assert len(stub.seen[0].body["message"].encode()) == 1024
    assert len(stub.seen[0].body["metadata"]["name"]) <= 253


async def test_refusal_is_dropped_and_counted_and_nothing_else_suffers(
    stub: ApiStub, api: Writing, recorder: Recorder, dropped: list[str]
) -> None:
    stub.answer("POST", EVENTS, status(403), ok({}, 201))
    recorder.record(another("a"), type="Normal", reason="Why", message="because")
    recorder.record(another("b"), type="Normal", reason="Why", message="because")
    await until(lambda: api.written == 1)
    assert dropped == ["refused"]


async def test_event_survives_a_server_that_is_away(
    stub: ApiStub, api: Writing, recorder: Recorder
) -> None:
    stub.answer("POST", EVENTS, status(503), ok({}, 201))
    recorder.record(REF, type="Normal", reason="Why", message="because")
    await until(lambda: api.written == 1)
    first, second = stub.requests("POST")
    assert first.body["metadata"] == second.body["metadata"]  # repeating cannot make two


async def test_event_that_was_written_after_all_counts_as_written(
    stub: ApiStub, api: Writing, recorder: Recorder
) -> None:
    stub.answer("POST", EVENTS, status(409, reason="AlreadyExists"))
    recorder.record(REF, type="Normal", reason="Why", message="because")
    await until(lambda: api.written == 1)


async def test_oldest_events_give_way_when_too_many_wait(api: Writing, dropped: list[str]) -> None:
    recorder = Recorder(api, component="c", instance="i", on_drop=dropped.append)
    for n in range(CAPACITY + 7):
        recorder.record(another(str(n)), type="Normal", reason="Why", message="because")
    assert dropped == ["full"] * 7


async def test_burst_has_no_rate(stub: ApiStub, api: Writing) -> None:
    recorder = Recorder(api, component="c", instance="i", qps=0.01)
    stub.answer("POST", EVENTS, ok({}, 201))
    for n in range(TOTAL_BURST):
        recorder.record(another(str(n)), type="Normal", reason="Why", message="because")
    async with asyncio.timeout(45), asyncio.TaskGroup() as group:
        group.create_task(recorder.run())
        await until(lambda: api.written == TOTAL_BURST)
        recorder.stop()


async def test_rate_is_bounded_after_a_burst(stub: ApiStub, api: Writing) -> None:
    recorder = Recorder(api, component="c", instance="i", qps=20)
    stub.answer("POST", EVENTS, ok({}, 201))
    for n in range(TOTAL_BURST + 6):
        recorder.record(another(str(n)), type="Normal", reason="Why", message="because")
    began = asyncio.get_running_loop().time()
    async with asyncio.TaskGroup() as group:
        group.create_task(recorder.run())
        await until(lambda: api.written == TOTAL_BURST + 6)
        recorder.stop()
    assert stub.seen[-1].at - began >= 6 / 20


async def test_stop_writes_what_waits_without_the_rate(
    stub: ApiStub, api: Writing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the rate the 20 Events beyond the burst would take 2000 s."""
    monkeypatch.setattr(recorder_module, "DRAIN_SECONDS", 40.0)
    recorder = Recorder(api, component="c", instance="i", qps=0.01)
    stub.answer("POST", EVENTS, ok({}, 201))
    for n in range(TOTAL_BURST + 20):
        recorder.record(another(str(n)), type="Normal", reason="Why", message="because")
    async with asyncio.timeout(50), asyncio.TaskGroup() as group:
        group.create_task(recorder.run())
        await stub.wait_for_requests(1, "POST")
        recorder.stop()
    assert api.written == TOTAL_BURST + 20


async def test_stop_does_not_wait_for_a_server_that_hangs(
    stub: ApiStub, api: Writing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder_module, "DRAIN_SECONDS", 0.1)
    recorder = Recorder(api, component="c", instance="i")
    stub.answer("POST", EVENTS, hang())
    recorder.stop()
    recorder.record(REF, type="Normal", reason="Why", message="because")
    async with asyncio.timeout(30):
        await recorder.run()
    assert api.written == 0


async def test_one_object_has_a_budget_and_what_is_beyond_is_counted_by_cause(
    api: Writing, dropped: list[str]
) -> None:
    recorder = Recorder(
        api, component="c", instance="i", important={"Scheduled"}, on_drop=dropped.append
    )
    for number in range(1000):
        recorder.record(REF, type="Normal", reason="Why", message=f"message {number}")
    assert dropped == ["object"] * (1000 - OBJECT_BURST)
    recorder.record(
        REF, type="Normal", reason="Scheduled", message="what counts has its own budget"
    )
    assert len(dropped) == 1000 - OBJECT_BURST


async def test_crowd_delays_nobody_elses_events(stub: ApiStub, api: Writing) -> None:
    recorder = Recorder(api, component="c", instance="i", important={"Scheduled"})
    stub.answer("POST", EVENTS, ok({}, 201))
    for number in range(80):
        recorder.record(another(str(number)), type="Normal", reason="Why", message="because")
    recorder.record(another("calm"), type="Normal", reason="Scheduled", message="bound")
    async with asyncio.timeout(45), asyncio.TaskGroup() as group:
        group.create_task(recorder.run())
        await until(lambda: api.written == 81)
        recorder.stop()
    assert stub.seen[0].body["reason"] == "Scheduled"


class OtherWork:
    """Work of the scheduler that waits, but not at each look whose number `idle_every` divides, and
    how often the recorder has looked.
    """

    def __init__(self, *, idle_every: int = 0) -> None:
        self.waits = True
        self.asked = 0
        self._idle_every = idle_every

    def __call__(self) -> bool:
        self.asked += 1
        return self.waits and not (self._idle_every and self.asked % self._idle_every == 0)


async def written_beside(
    stub: ApiStub, api: Writing, others: OtherWork, *, events: int, written: int
) -> None:
    """Record so many Events, and return when so many are written beside other work, and the
    recorder has ended.
    """
    recorder = Recorder(api, component="c", instance="i")
    stub.answer("POST", EVENTS, ok({}, 201))
    for n in range(events):
        recorder.record(another(str(n)), type="Normal", reason="Why", message="because")
    async with asyncio.timeout(45), asyncio.TaskGroup() as group:
        group.create_task(recorder.run(others_wait=others))
        await until(lambda: api.written == written)
        recorder.stop()


async def test_events_give_way_while_other_work_waits(stub: ApiStub, api: Writing) -> None:
    recorder, others = Recorder(api, component="c", instance="i"), OtherWork()
    stub.answer("POST", EVENTS, ok({}, 201))
    recorder.record(REF, type="Normal", reason="Why", message="because")
    async with asyncio.timeout(45), asyncio.TaskGroup() as group:
        group.create_task(recorder.run(others_wait=others))
        await until(lambda: others.asked > 12)  # each writer, several times
        assert api.written == 0
        others.waits = False
        await until(lambda: api.written == 1)
        recorder.stop()


async def test_events_that_give_way_wake_no_writer(stub: ApiStub, api: Writing) -> None:
    recorder, others = Recorder(api, component="c", instance="i"), OtherWork()
    stub.answer("POST", EVENTS, ok({}, 201))
    recorder.record(another("first"), type="Normal", reason="Why", message="because")
    async with asyncio.timeout(45), asyncio.TaskGroup() as group:
        group.create_task(recorder.run(others_wait=others))
        await until(lambda: others.asked >= 4)  # each writer
        asked = others.asked
        for n in range(500):
            recorder.record(another(str(n)), type="Normal", reason="Why", message="because")
            await asyncio.sleep(0)
        assert others.asked - asked < 100, "they look for themselves, five times a second"
        others.waits = False
        await until(lambda: api.written > 4)
        recorder.stop()


async def test_events_give_way_for_a_while_only(
    stub: ApiStub, api: Writing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder_module, "YIELD_SECONDS", 0.1)
    await written_beside(stub, api, OtherWork(), events=3, written=3)


async def test_namespace_whose_events_fail_ends_nobodys_giving_way(
    stub: ApiStub, api: Writing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder_module, "YIELD_SECONDS", 2.0)
    recorder, others = Recorder(api, component="c", instance="i"), OtherWork()
    stub.answer("POST", EVENTS, ok({}, 201))
    stub.answer("POST", "/api/v1/namespaces/bad/events", status(500))
    bad = ObjectRef(kind="Pod", namespace="bad", name="p", uid="bad")
    recorder.record(bad, type="Normal", reason="Why", message="because")
    async with asyncio.timeout(45), asyncio.TaskGroup() as group:
        group.create_task(recorder.run(others_wait=others))
        others.waits = False
        await until(lambda: bool(stub.requests("POST")))
        others.waits, began = True, time.monotonic()
        # It pauses for 1 s, and then gives way.
        await until(lambda: time.monotonic() - began > 2.6)
        asked = others.asked
        recorder.record(REF, type="Normal", reason="Why", message="because")
        await until(lambda: others.asked - asked >= 20)  # each writer, several times
        assert api.written == 0
        others.waits = False
        await until(lambda: api.written == 1)
        recorder.stop()


def test_page_says_how_late_events_may_be() -> None:
    page = (Path(__file__).parents[3] / "docs" / "events.md").read_text()
    assert f"up to {recorder_module.YIELD_SECONDS:.0f} seconds later" in page


async def test_moment_without_other_work_does_not_have_events_wait_anew(
    stub: ApiStub, api: Writing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder_module, "YIELD_SECONDS", 0.5)
    others = OtherWork(idle_every=10)
    await written_beside(stub, api, others, events=60, written=60)
    assert others.asked < 400, "they would have been written one by one, each after a wait"


async def test_events_that_may_soon_be_too_many_give_way_to_nothing(
    stub: ApiStub, api: Writing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder_module, "YIELD_EVENTS", 5)
    await written_beside(stub, api, OtherWork(), events=8, written=4)
    assert api.written == 8  # what waits at the end is written all the same
