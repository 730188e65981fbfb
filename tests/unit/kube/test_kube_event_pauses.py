"""A namespace whose Events cannot be written, in virtual time: whose others wait for it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any, cast

import pytest

from scheduler.kube.api import KubeApi
from scheduler.kube.errors import KubeError, KubeInterrupted, KubeUnreachable, refused
from scheduler.kube.event_pauses import EventPauses
from scheduler.kube.recorder import WRITERS, ObjectRef, Recorder

pytestmark = pytest.mark.looptime
WEBHOOK = refused(
    500, reason="InternalError", message='failed calling webhook "audit.bad": no such host'
)
ENDS = refused(
    403, reason="Forbidden", message="it is being terminated", causes=["NamespaceTerminating"]
)
QUOTA = refused(403, reason="Forbidden", message="exceeded quota: events")
AWAY = refused(503, reason="ServiceUnavailable", message="the server is currently unable")
BUSY = refused(429, reason="TooManyRequests", message="later", retry_after=5.0)


class Server:
    """Takes Events, slowly or not at all where a test says so."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.fails: Callable[[str], KubeError | None] = lambda _namespace: None
        self.tries: Counter[str] = Counter()
        self.written: Counter[str] = Counter()
        self.now: Counter[str] = Counter()
        self.most_at_once = 0

    async def create_event(self, namespace: str, _event: Mapping[str, Any]) -> None:
        self.tries[namespace] += 1
        self.now[namespace] += 1
        self.most_at_once = max(self.most_at_once, *self.now.values())
        try:
            await asyncio.sleep(self.seconds.get(namespace, 0.005))
        finally:
            self.now[namespace] -= 1
        error = self.fails(namespace)
        if error is not None:
            raise error
        self.written[namespace] += 1


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
async def recorder(server: Server) -> AsyncIterator[Recorder]:
    recorder = Recorder(cast("KubeApi", server), component="c", instance="i")
    task = asyncio.ensure_future(recorder.run())
    yield recorder
    assert not task.done()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def record(recorder: Recorder, namespace: str, count: int = 1) -> None:
    for number in range(count):
        ref = ObjectRef(
            kind="Pod", namespace=namespace, name=f"p{number}", uid=f"{namespace}-{number}"
        )
        recorder.record(ref, type="Normal", reason="Why", message="because")


@pytest.mark.parametrize("error", [WEBHOOK, ENDS, QUOTA, AWAY, BUSY], ids=str)
async def test_namespace_whose_events_fail_holds_up_no_other(
    server: Server, recorder: Recorder, error: KubeError
) -> None:
    """Also where it says what an API server in trouble says, once others are served again."""
    server.fails = lambda namespace: error if namespace == "bad" else None
    record(recorder, "bad", 40)
    await asyncio.sleep(5)
    record(recorder, "good", 20)
    await asyncio.sleep(1 if error in {WEBHOOK, ENDS, QUOTA} else 6)
    assert server.written == {"good": 20}


async def test_namespaces_with_a_slow_webhook_hold_up_no_other(
    server: Server, recorder: Recorder
) -> None:
    bad = [f"bad-{number}" for number in range(3 * WRITERS)]
    for number, namespace in enumerate(bad):
        server.seconds[namespace] = 10.0
        record(recorder, namespace, 20)
        # The first have had their turn when the others come.
        await asyncio.sleep(0 if number % WRITERS else 11)
    record(recorder, "good", 20)
    await asyncio.sleep(60)
    assert server.written["good"] == 20
    assert server.most_at_once == 1, "one Event of a namespace at a time"
    assert all(server.tries[namespace] <= 4 for namespace in bad)


@pytest.mark.parametrize(
    "error", [KubeUnreachable("refused"), AWAY, KubeInterrupted("no answer")], ids=str
)
async def test_server_that_is_away_is_tried_with_growing_pauses_whoever_waits(
    server: Server, recorder: Recorder, error: KubeError
) -> None:
    server.fails = lambda _namespace: error
    for number in range(50):
        record(recorder, f"ns-{number}", 2)
    await asyncio.sleep(40)
    assert server.tries.total() <= 8 * WRITERS
    server.fails = lambda _namespace: None
    await asyncio.sleep(30)
    assert server.written.total() == 100, "nothing was lost"


def test_pauses_of_one_namespace_grow_and_are_over_with_the_first_success() -> None:
    pauses = EventPauses()
    for seconds in (1.0, 2.0, 4.0, 8.0, 10.0, 10.0):
        pauses.failed("bad", 0.0, seconds=0.0, error=WEBHOOK)
        assert pauses.until("bad") == seconds
        assert pauses.next_over(0.0) == seconds
    assert pauses.all_until < 0.0
    pauses.written("bad", 20.0, seconds=0.0)
    assert len(pauses) == 0
    assert pauses.next_over(20.0) is None


def test_what_is_kept_of_namespaces_is_bounded() -> None:
    pauses = EventPauses()
    for number in range(5000):
        pauses.failed(f"ns-{number}", 0.0, seconds=10.0, error=WEBHOOK)
    assert len(pauses) == 1024
    for number in range(5000):
        pauses.failed(f"ns-{number}", 100.0, seconds=0.0, error=QUOTA)
    assert len(pauses) == 0
