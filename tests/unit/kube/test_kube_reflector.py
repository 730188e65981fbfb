from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from scheduler.kube.errors import WentBackError
from scheduler.kube.reflector import (
    BREATHE_EVERY,
    FIRST_SECONDS,
    HEALTHY_SECONDS,
    LIST_AGAIN_SECONDS,
    LONGEST_SECONDS,
    Backoff,
    Reflector,
    Resource,
)
from scheduler.kube.session import LONGEST_LINE, KubeSession
from scheduler.kube.store import Store
from scheduler.kube.wire import PODS, ObjectMeta, Pod
from scheduler.observe.metrics import Metrics
from tests.support.loop_turns import beside
from tests.unit.kube.server import (
    ApiStub,
    Failures,
    Handler,
    bookmark,
    cut,
    event,
    hang,
    ok,
    page,
    pieces,
    pod,
    raw,
    status,
    until,
    watch,
)

PATH = "/api/v1/pods"

pytestmark = pytest.mark.looptime


class Watched:
    """A running reflector, and what it told."""

    def __init__(self, session: KubeSession) -> None:
        self.store = Store[Pod]()
        self.notices: list[tuple[str, str]] = []
        self.metrics = Metrics()
        self.reflector = Reflector(
            session,
            Resource(
                name="pods",
                path=PATH,
                decode=PODS,
                query={"fieldSelector": "spec.schedulerName=ours"},
            ),
            store=self.store,
            on_change=self._on_change,
            metrics=self.metrics,
        )

    def value(self, name: str) -> float | None:
        name = f"slurm_pod_scheduler_reflector_{name}"
        return self.metrics.registry.get_sample_value(name, {"resource": "pods"})

    def _on_change(self, old: Pod | None, new: Pod | None) -> None:
        kind = "deleted" if new is None else "added" if old is None else "modified"
        self.notices.append((kind, str((new or old).metadata.name)))  # type: ignore[union-attr]

    @property
    def names(self) -> set[str]:
        return {pod.metadata.name for pod in self.store}


@pytest.fixture
async def watched(session: KubeSession) -> AsyncIterator[Watched]:
    watched = Watched(session)
    task = asyncio.ensure_future(watched.reflector.run())
    yield watched
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_lists_then_watches_from_the_lists_version(stub: ApiStub, watched: Watched) -> None:
    stub.answer("GET", PATH, page(pod("a"), pod("b"), version="7"))
    stub.answer("WATCH", PATH, watch(event("ADDED", pod("c", version="8"))))
    await until(lambda: len(watched.notices) == 3)
    assert watched.notices == [("added", "a"), ("added", "b"), ("added", "c")]
    assert watched.reflector.synced.is_set()
    assert watched.reflector.last_event_at is not None
    listed, watch_request = stub.seen
    assert listed.query == {"fieldSelector": "spec.schedulerName=ours", "limit": "500"}
    assert watch_request.query["resourceVersion"] == "7"
    assert watch_request.query["fieldSelector"] == "spec.schedulerName=ours"
    assert watch_request.query["allowWatchBookmarks"] == "true"
    assert 300 <= int(watch_request.query["timeoutSeconds"]) <= 600


async def test_empty_list_is_a_synced_one(stub: ApiStub, watched: Watched) -> None:
    stub.answer("GET", PATH, ok({"metadata": {"resourceVersion": "3"}, "items": None}))
    stub.answer("WATCH", PATH, watch())
    async with asyncio.timeout(1000):
        await watched.reflector.synced.wait()
    assert len(watched.store) == 0


async def test_pages_are_put_together_before_anything_is_told(
    stub: ApiStub, watched: Watched
) -> None:
    stub.answer("GET", PATH, page(pod("a"), token="t1"), page(pod("b"), token="t2"), page(pod("c")))
    stub.answer("WATCH", PATH, watch())
    await until(lambda: len(watched.notices) == 3)
    assert [s.query.get("continue") for s in stub.requests("GET")] == [None, "t1", "t2"]


async def test_objects_of_an_unfinished_list_are_counted_until_it_ends(
    stub: ApiStub, watched: Watched
) -> None:
    stub.answer("GET", PATH, page(pod("a"), token="t1"), hang())
    await stub.wait_for_requests(2, "GET")
    assert (watched.reflector.objects, len(watched.store)) == (1, 0)
    stub.answer("GET", PATH, page(pod("a"), token="t1"), page(pod("b")))
    stub.answer("WATCH", PATH, watch())
    await until(lambda: watched.names == {"a", "b"})
    assert watched.reflector.objects == 2


async def test_list_in_doubt_is_made_anew(stub: ApiStub, watched: Watched) -> None:
    stub.answer("GET", PATH, page(pod("a")), page(pod("a"), pod("b")))
    stub.answer("WATCH", PATH, hang())
    await until(lambda: len(stub.requests("WATCH")) == 1)
    watched.reflector.doubt()
    watched.reflector.doubt()
    await until(lambda: watched.names == {"a", "b"})
    await until(lambda: len(stub.requests("WATCH")) == 2)
    assert len(stub.requests("GET")) == 2


async def test_what_a_list_lacked_is_found_in_the_end(stub: ApiStub, watched: Watched) -> None:
    stub.answer("GET", PATH, page(), page(pod("a")))
    stub.answer("WATCH", PATH, watch(then="close"))
    await stub.wait_for_requests(2, "GET")
    await until(lambda: watched.names == {"a"})
    first, second = stub.requests("GET")
    assert second.at - first.at > LIST_AGAIN_SECONDS


async def test_expired_continue_token_lists_all_at_once(stub: ApiStub, watched: Watched) -> None:
    stub.answer("GET", PATH, page(pod("a"), token="t1"), status(410), page(pod("b"), pod("c")))
    stub.answer("WATCH", PATH, watch())
    await until(lambda: watched.names == {"b", "c"})
    assert "limit" not in stub.requests("GET")[2].query


async def test_events_change_the_store(stub: ApiStub, watched: Watched) -> None:
    stub.answer("GET", PATH, page(pod("a"), pod("b")))
    stub.answer(
        "WATCH",
        PATH,
        watch(
            event("MODIFIED", pod("a", version="11", spec={"nodeName": "n1"})),
            event("DELETED", pod("b", version="12", status={"phase": "Succeeded"})),
        ),
    )
    await until(lambda: ("deleted", "b") in watched.notices)
    assert watched.notices[2:] == [("modified", "a"), ("deleted", "b")]
    (left,) = watched.store
    assert left.spec.node_name == "n1"
    assert watched.store.resource_version == "12"


async def test_server_close_continues_from_the_last_version_without_a_list(
    stub: ApiStub, watched: Watched
) -> None:
    stub.answer("GET", PATH, page(pod("a")))
    stub.answer("WATCH", PATH, watch(event("ADDED", pod("b", version="11")), then="close"), watch())
    await stub.wait_for_requests(2, "WATCH")
    assert stub.requests("WATCH")[1].query["resourceVersion"] == "11"
    assert len(stub.requests("GET")) == 1


async def test_metrics_hear_what_client_go_tells(stub: ApiStub, watched: Watched) -> None:
    stub.answer("GET", PATH, page(pod("a"), pod("b")))
    some = watch(event("ADDED", pod("c", version="11")), bookmark("12"), then="close")
    stub.answer("WATCH", PATH, some, watch(then="close"), watch())
    await stub.wait_for_requests(3, "WATCH")
    assert (watched.value("lists_total"), watched.value("watches_total")) == (1, 3)
    assert watched.value("list_duration_seconds_count") == 1
    assert watched.value("items_per_list_sum") == 2
    assert watched.value("watch_duration_seconds_count") == 2
    assert watched.value("items_per_watch_sum") == 2
    assert watched.value("short_watches_total") == 1, "the one that brought nothing"


async def test_list_that_fails_is_begun_and_has_no_duration(
    stub: ApiStub, watched: Watched
) -> None:
    stub.answer("GET", PATH, status(500), page())
    stub.answer("WATCH", PATH, watch())
    await stub.wait_for_requests(1, "WATCH")
    assert watched.value("lists_total") == 2
    assert watched.value("list_duration_seconds_count") == 1


async def test_bookmarks_advance_the_version_and_tell_nothing(
    stub: ApiStub, watched: Watched
) -> None:
    stub.answer("GET", PATH, page())
    stub.answer("WATCH", PATH, watch(bookmark("99"), then="close"), watch())
    await stub.wait_for_requests(2, "WATCH")
    assert stub.requests("WATCH")[1].query["resourceVersion"] == "99"
    assert watched.notices == []
    assert watched.value("items_per_watch_sum") == 1


async def test_cut_stream_is_followed_by_a_list_for_the_server_may_be_at_another_time(
    stub: ApiStub, watched: Watched, failures: Failures
) -> None:
    stub.answer("GET", PATH, page(), page(pod("a", version="11"), version="12"))
    stub.answer("WATCH", PATH, watch(event("ADDED", pod("a", version="11")), then="cut"), watch())
    await stub.wait_for_requests(2, "WATCH")
    assert stub.requests("WATCH")[1].query["resourceVersion"] == "12"
    assert len(stub.requests("GET")) == 2
    assert failures() == ["interrupted"]


async def test_server_that_has_come_to_our_version_after_it_went_back_is_noticed(
    stub: ApiStub, session: KubeSession
) -> None:
    """Many other objects change in a restored cluster; the one that we know is as it was."""
    watched = Watched(session)
    stub.answer("GET", PATH, page(pod("a", version="5"), version="5"))
    stub.answer("GET", PATH, page(pod("a", version="5"), version="1000"))
    stub.answer("WATCH", PATH, watch(event("MODIFIED", pod("a", version="11")), then="cut"))
    with pytest.raises(WentBackError, match="restored from a backup"):
        async with asyncio.timeout(1000):
            await watched.reflector.run()


async def test_silent_watch_is_given_up_and_begun_again(
    stub: ApiStub, session: KubeSession
) -> None:
    watched = Watched(session)
    stub.answer("GET", PATH, page(version="5"))
    stub.answer("WATCH", PATH, watch(), watch(event("ADDED", pod("a"))))
    task = asyncio.ensure_future(watched.reflector.run())
    await until(lambda: watched.names == {"a"})
    task.cancel()
    assert stub.requests("WATCH")[1].query["resourceVersion"] == "5"
    # On a busy machine the second watch may be given up as well, before its event has come.
    asked = [it.method for it in stub.seen if it.method in {"GET", "WATCH"}]
    assert asked[:4] == ["GET", "WATCH", "GET", "WATCH"]


@pytest.mark.parametrize(
    "expired",
    [
        watch(event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired"})),
        status(410, reason="Expired"),
    ],
    ids=["in the stream", "as the answer"],
)
async def test_410_lists_again_and_what_is_missing_is_deleted(
    stub: ApiStub, watched: Watched, failures: Failures, expired: Handler
) -> None:
    stub.answer("GET", PATH, page(pod("a"), pod("b"), pod("c")))
    stub.answer("GET", PATH, page(pod("b"), pod("c", version="20"), version="20"))
    stub.answer("WATCH", PATH, expired, watch())
    await stub.wait_for_requests(2, "WATCH")
    assert watched.notices[3:] == [("deleted", "a"), ("modified", "c")]
    assert stub.requests("WATCH")[1].query["resourceVersion"] == "20"
    assert failures() == ["gone"]


async def test_recreated_pod_is_two_pods(stub: ApiStub, watched: Watched) -> None:
    stub.answer("GET", PATH, page(pod("a", uid="1")), page(pod("a", uid="2"), version="20"))
    stub.answer("WATCH", PATH, status(410), watch())
    await stub.wait_for_requests(2, "WATCH")
    assert watched.notices == [("added", "a"), ("deleted", "a"), ("added", "a")]


@pytest.mark.parametrize(
    "line", [b"garbage\n", b'{"type":"NEW","object":{}}\n', b"x" * (LONGEST_LINE + 1)],
    ids=["not JSON", "unknown type", "too long"],
)  # fmt: skip
async def test_what_is_not_understood_is_counted_and_listed_again(
    stub: ApiStub, watched: Watched, failures: Failures, line: bytes
) -> None:
    stub.answer("GET", PATH, page(), page(pod("a")))
    stub.answer("WATCH", PATH, pieces(line), watch())
    await until(lambda: watched.names == {"a"})
    assert failures() == ["garbled"]


async def test_429_on_a_watch_waits_as_told_and_does_not_list(
    stub: ApiStub, watched: Watched
) -> None:
    stub.answer("GET", PATH, page(version="5"))
    stub.answer("WATCH", PATH, status(429, retry_after="1"), watch())
    await stub.wait_for_requests(2, "WATCH")
    first, second = stub.requests("WATCH")
    assert second.at - first.at >= 1
    assert second.query["resourceVersion"] == "5"
    assert len(stub.requests("GET")) == 1


async def test_pause_that_an_event_of_the_watch_asks_for_is_bounded(
    stub: ApiStub, watched: Watched
) -> None:
    busy = {"kind": "Status", "code": 429, "details": {"retryAfterSeconds": 2**31 - 1}}
    stub.answer("GET", PATH, page(version="5"))
    stub.answer("WATCH", PATH, watch({"type": "ERROR", "object": busy}), watch())
    await stub.wait_for_requests(2, "WATCH")
    first, second = stub.requests("WATCH")
    assert second.at - first.at <= 60 + 2 * LONGEST_SECONDS


@pytest.mark.parametrize("version", ["9" * 5000, "0", "-1", "\u0663", "abc", "7 "])
async def test_strange_version_of_a_bookmark_ends_nothing(
    stub: ApiStub, watched: Watched, version: str
) -> None:
    stub.answer("GET", PATH, page(pod("a"), version="5"))
    stub.answer("WATCH", PATH, watch(bookmark(version), then="close"), watch())
    await stub.wait_for_requests(1, "WATCH")
    await asyncio.sleep(30)  # with the version of the bookmark the next watch begins, or waits
    assert watched.names == {"a"}


async def test_429_on_a_list_waits_as_told(stub: ApiStub, watched: Watched) -> None:
    stub.answer("GET", PATH, status(429, retry_after="1"), page(pod("a")))
    stub.answer("WATCH", PATH, watch())
    await until(lambda: watched.names == {"a"})
    first, second = stub.requests("GET")
    assert second.at - first.at >= 1


@pytest.mark.parametrize(
    "trouble",
    [cut(), status(500), status(503), status(403), raw(b"<html>"), raw(b'{"items": 7}')],
    ids=["cut", "500", "503", "403", "html", "another shape"],
)
async def test_trouble_with_a_list_is_tried_again_and_harms_nothing(
    stub: ApiStub, watched: Watched, trouble: Handler
) -> None:
    stub.answer("GET", PATH, page(pod("a"), pod("b")))
    stub.answer("GET", PATH, *[trouble] * 3, page(pod("b")))
    stub.answer("WATCH", PATH, status(410), watch())
    await until(lambda: watched.notices == [("added", "a"), ("added", "b"), ("deleted", "a")])


async def test_other_refusal_of_a_watch_lists_again(stub: ApiStub, watched: Watched) -> None:
    stub.answer("GET", PATH, page(version="5"), page(version="1000"))
    stub.answer("WATCH", PATH, status(504, reason="Timeout"), watch())
    await stub.wait_for_requests(2, "WATCH")
    assert stub.requests("WATCH")[1].query["resourceVersion"] == "1000"


@pytest.mark.parametrize(
    "answer",
    [watch(then="close"), watch(bookmark("5"), then="close"), watch(then="cut"), status(410)],
    ids=["closed", "closed after a bookmark", "cut", "410"],
)
async def test_server_that_ends_watches_at_once_is_not_stormed(
    stub: ApiStub, session: KubeSession, answer: Handler
) -> None:
    watched = Watched(session)
    stub.answer("GET", PATH, page())
    stub.answer("WATCH", PATH, answer)
    task = asyncio.ensure_future(watched.reflector.run())
    await stub.wait_for_requests(5, "WATCH")
    task.cancel()
    first, *_, last = stub.requests("WATCH")
    assert last.at - first.at >= FIRST_SECONDS * (1 + 2 + 4 + 8)


async def test_hanging_watch_is_left_at_once_on_cancellation(
    stub: ApiStub, session: KubeSession
) -> None:
    watched = Watched(session)
    stub.answer("GET", PATH, page())
    stub.answer("WATCH", PATH, hang())
    task = asyncio.ensure_future(watched.reflector.run())
    await stub.wait_for_requests(1, "WATCH")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(30):
            await task


async def test_ten_thousand_changes_leave_room_for_others(stub: ApiStub, watched: Watched) -> None:
    turns = 0
    stub.answer("GET", PATH, page(*(pod(f"p{n}") for n in range(10_000))))
    stub.answer("WATCH", PATH, watch())
    while not watched.reflector.synced.is_set():
        turns += 1
        await asyncio.sleep(0)
    assert len(watched.notices) == 10_000
    assert turns > 20


async def test_list_is_compared_with_what_is_known_in_many_turns(session: KubeSession) -> None:
    """With 60 000 pods it took 60 ms, each time the watch had to be begun anew."""
    watched = Watched(session)
    metas = [ObjectMeta(name=f"p{it}", uid=str(it), resource_version="7") for it in range(5_000)]
    items = [Pod(it) for it in metas]
    for item in items:
        watched.store.apply(item)
    async with beside() as turns:
        assert await watched.reflector._newer(items, "9")
    assert turns.count >= len(items) // BREATHE_EVERY - 1


async def test_backoff_grows_to_its_limit_with_jitter_added() -> None:
    backoff = Backoff()
    for number in range(9):
        base = min(FIRST_SECONDS * 2**number, LONGEST_SECONDS)
        assert base <= backoff.next() <= 2 * base


async def test_backoff_begins_anew_after_a_healthy_time() -> None:
    backoff = Backoff()
    for _ in range(3):
        pause = backoff.next()
        assert pause <= 2 * FIRST_SECONDS
        await asyncio.sleep(pause + HEALTHY_SECONDS + 0.1)


async def test_server_that_has_gone_back_ends_the_reflector(
    stub: ApiStub, session: KubeSession
) -> None:
    """A watch from a version that the server has not reached yet is silent, or refused with 504."""
    watched = Watched(session)
    stub.answer("GET", PATH, page(pod("a"), version="7"))
    stub.answer("WATCH", PATH, watch(event("MODIFIED", pod("a", version="9")), then="close"))
    stub.answer("COMPARE", PATH, page(version="8"))
    with pytest.raises(WentBackError, match="pods are older"):
        async with asyncio.timeout(1000):
            await watched.reflector.run()


async def test_lists_that_stay_older_than_what_was_told_end_the_reflector(
    stub: ApiStub, session: KubeSession
) -> None:
    watched = Watched(session)
    stub.answer("GET", PATH, page(pod("a"), version="9"), page(version="8"))
    stub.answer("WATCH", PATH, status(410, reason="Expired"))
    with pytest.raises(WentBackError, match="pods are older"):
        async with asyncio.timeout(1000):
            await watched.reflector.run()
    assert watched.names == {"a"}


async def test_object_that_stays_older_than_it_was_ends_the_reflector(
    stub: ApiStub, session: KubeSession
) -> None:
    """A restored server has come to where it was by the time it is asked."""
    watched = Watched(session)
    stub.answer("GET", PATH, page(pod("a", version="7")), page(pod("a", version="6"), version="20"))
    stub.answer("WATCH", PATH, status(410, reason="Expired"))
    with pytest.raises(WentBackError, match="pods are older"):
        async with asyncio.timeout(1000):
            await watched.reflector.run()


async def test_list_that_is_older_by_mistake_is_made_again(stub: ApiStub, watched: Watched) -> None:
    stub.answer(
        "GET",
        PATH,
        page(pod("a"), version="9"),
        page(version="8"),
        page(pod("a"), pod("b"), version="10"),
    )
    stub.answer("WATCH", PATH, status(410, reason="Expired"), watch())
    await until(lambda: watched.names == {"a", "b"})
    assert watched.notices == [("added", "a"), ("added", "b")]


async def test_server_that_has_gone_on_meanwhile_is_watched_on(
    stub: ApiStub, watched: Watched
) -> None:
    stub.answer("GET", PATH, page(pod("a"), version="9"))
    stub.answer("WATCH", PATH, cut(), watch(event("ADDED", pod("b", version="11"))))
    stub.answer("COMPARE", PATH, page(version="10"))
    await until(lambda: watched.names == {"a", "b"})
    assert stub.requests("WATCH")[1].query["resourceVersion"] == "9"
