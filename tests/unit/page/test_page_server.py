"""Who gets what of the page, in which bounds, with which headers."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientResponse, web

from scheduler.page import server, stream
from scheduler.page.access import MOST_NAMESPACES
from scheduler.page.server import (
    HEADERS,
    MOST_ASKING_OF_A_USER,
    MOST_STORIES_OF_A_USER,
    MOST_STREAMS_OF_A_USER,
)
from scheduler.page.story import LONGEST_READ
from tests.unit.kube.server import ApiStub, Handler, hang
from tests.unit.page.conftest import Caller, World
from tests.unit.view.pods import pod, waiting

STATIC = Path(server.__file__).parent / "static"
TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
RIGHTS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
ALICE = {"Authorization": "Bearer alice"}


def reviews(stub: ApiStub, *, may: set[tuple[str, str, str]], username: str = "alice") -> None:
    """Only the token `alice` is known; its user has these rights (verb, resource, namespace)."""

    async def who(request: web.Request) -> web.Response:
        token = (await request.json())["spec"]["token"]
        user = {"username": username, "groups": ["team"], "extra": {"scopes": ["a"]}}
        known = {"authenticated": True, "user": user}
        return web.json_response({"status": known if token == "alice" else {}})

    async def rights(request: web.Request) -> web.Response:
        spec = (await request.json())["spec"]
        assert (spec["user"], spec["groups"]) == (username, ["team"])
        asked = spec["resourceAttributes"]
        key = (asked["verb"], asked["resource"], asked.get("namespace", ""))
        return web.json_response({"status": {"allowed": key in may}})

    stub.answer("POST", TOKENS, who)
    stub.answer("POST", RIGHTS, rights)


@asynccontextmanager
async def streamed(
    caller: Caller,
    *,
    since: str = "",
    namespace: str = "",
    headers: dict[str, str] | None = None,
) -> AsyncIterator[AsyncIterator[tuple[str, Any]]]:
    query = {"since": since, "namespace": namespace}
    async with caller.client.get("/api/stream", params=query, headers=headers or {}) as answer:
        assert answer.status == 200, await answer.text()

        async def events() -> AsyncIterator[tuple[str, Any]]:
            while line := await answer.content.readline():
                kind = line.decode().removeprefix("event: ").strip()
                yield kind, json.loads((await answer.content.readline())[len("data: ") :])
                await answer.content.readline()

        yield events()


async def until_state(events: AsyncIterator[tuple[str, Any]]) -> dict[str, Any]:
    """All of the first events, by kind; lines of several messages together."""
    found: dict[str, Any] = {"pods": [], "nodes": []}
    async with asyncio.timeout(60):
        async for kind, data in events:
            if kind in ("pods", "nodes"):
                found[kind] += data
            else:
                found[kind] = data
            if kind == "state":
                break
    return found


@pytest.mark.parametrize("path", ["/", "/static/app.js", "/api/story", "/nowhere"])
async def test_each_answer_has_the_headers(open_page: Caller, path: str) -> None:
    async with open_page.client.get(path) as answer:
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
        assert answer.headers["Connection"] == "close"


async def test_page_has_no_inline_script_and_no_foreign_host() -> None:
    files = {it.name: it.read_text() for it in STATIC.iterdir()}
    page = files["index.html"]
    assert re.findall(r"<script(.*?)>(.*?)</script>", page) == [
        (' type="module" src="/static/app.js"', "")
    ]
    assert not re.search(r"\son\w+=|style=|<style", page)
    for name, text in files.items():
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", text)
        hosts = set(re.findall(r"https?://[\w.]+", text))
        assert hosts <= {"http://www.w3.org"}, name


async def test_files_are_only_those_of_the_page(open_page: Caller) -> None:
    for name in ("../server.py", "..%2fserver.py", "server.py", ""):
        async with open_page.client.get(f"/static/{name}") as answer:
            assert answer.status == 404


async def test_other_sites_get_nothing(open_page: Caller) -> None:
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Host": "evil.example"}):
        for path in ("/api/stream", "/api/story", "/static/app.js"):
            async with open_page.client.get(path, headers=headers) as answer:
                assert answer.status == 403


@pytest.mark.parametrize(
    "token", ["", "Bearer", "Bearer bob", "Basic alice", "Bearer " + "x" * 4050]
)
async def test_without_a_known_token_nothing_is_told(
    closed_page: Caller, stub: ApiStub, token: str
) -> None:
    reviews(stub, may=set())
    for path in ("/api/stream", "/api/story?namespace=a&name=b"):
        async with closed_page.client.get(path, headers={"Authorization": token}) as answer:
            assert answer.status == 401
    assert closed_page.known == []


async def test_token_of_any_bytes_is_refused(closed_page: Caller, stub: ApiStub) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", closed_page.client.port)
    writer.write(b"GET /api/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff\r\n\r\n")
    async with asyncio.timeout(60):
        assert b" 401 " in await reader.readline()
    writer.close()
    assert stub.seen == []


async def test_viewer_gets_the_pods_of_namespaces_where_pods_may_be_listed(
    closed_page: Caller, world: World, stub: ApiStub
) -> None:
    world.put("mine", namespace="a")
    world.put("secret", namespace="b")
    reviews(stub, may={("list", "pods", "a")})
    async with streamed(closed_page, headers=ALICE) as events:
        found = await until_state(events)
    assert [it["name"] for it in found["pods"]] == ["mine"]
    assert (found["hello"]["everywhere"], found["hello"]["nodes"]) == (False, False)
    assert found["nodes"] == []
    assert "notReady" not in found["state"]


async def test_answers_of_reviews_are_remembered(
    closed_page: Caller, world: World, stub: ApiStub
) -> None:
    reviews(stub, may={("list", "pods", "")})
    world.put("one")
    for _ in range(5):
        async with streamed(closed_page, headers=ALICE) as events:
            await until_state(events)
    assert len(stub.requests("POST", TOKENS)) == 1
    assert len(stub.requests("POST", RIGHTS)) == 2


async def test_viewers_of_few_of_many_namespaces_do_not_crowd_each_other_out(
    closed_page: Caller, world: World, stub: ApiStub
) -> None:
    """Each is asked about a hundred times, and 256 questions may wait."""
    for number in range(MOST_NAMESPACES):
        world.put(f"one-{number}", namespace=f"n{number}")
    reviews(stub, may={("list", "pods", "n1")})

    async def opened() -> int:
        async with closed_page.client.get("/api/stream", headers=ALICE) as answer:
            return answer.status

    assert set(await asyncio.gather(*(opened() for _ in range(5)))) == {200}


@pytest.fixture
def many_namespaces(world: World) -> None:
    """More than are asked about, and behind them all one more, with the pod `mine`."""
    for number in range(MOST_NAMESPACES):
        world.put(f"one-{number}", namespace=f"n{number}")
    world.put("mine", namespace="z")


@pytest.mark.usefixtures("many_namespaces")
async def test_namespace_that_is_named_is_seen_however_many_there_are(
    closed_page: Caller, stub: ApiStub
) -> None:
    reviews(stub, may={("list", "pods", "z")})
    async with streamed(closed_page, headers=ALICE) as events:
        found = await until_state(events)
    assert (found["pods"], found["hello"]["partial"]) == ([], True)
    asked = len(stub.requests("POST", RIGHTS))
    async with streamed(closed_page, namespace="z", headers=ALICE) as events:
        found = await until_state(events)
    assert [it["name"] for it in found["pods"]] == ["mine"]
    assert (found["hello"]["partial"], found["hello"]["everywhere"]) == (False, False)
    assert len(stub.requests("POST", RIGHTS)) == asked + 1


@pytest.mark.usefixtures("many_namespaces")
async def test_service_account_sees_its_own_namespace_however_many_there_are(
    closed_page: Caller, stub: ApiStub
) -> None:
    reviews(stub, may={("list", "pods", "z")}, username="system:serviceaccount:z:viewer")
    async with streamed(closed_page, headers=ALICE) as events:
        found = await until_state(events)
    assert [it["name"] for it in found["pods"]] == ["mine"]


async def test_who_may_list_all_pods_can_name_one_namespace(
    closed_page: Caller, open_page: Caller, world: World, stub: ApiStub
) -> None:
    world.put("one", namespace="a")
    world.put("other", namespace="b")
    reviews(stub, may={("list", "pods", ""), ("list", "pods", "a")})
    for page in (closed_page, open_page):
        async with streamed(page, namespace="a", headers=ALICE) as events:
            found = await until_state(events)
        assert [it["name"] for it in found["pods"]] == ["one"]


@pytest.mark.parametrize(
    ("namespace", "status", "said"),
    [("b", 403, "you may not list pods in namespace b"), ("B/..", 400, "namespace: expected")],
)
async def test_namespace_that_may_not_be_seen_is_refused(
    closed_page: Caller, stub: ApiStub, namespace: str, status: int, said: str
) -> None:
    reviews(stub, may={("list", "pods", "a")})
    query = {"namespace": namespace}
    async with closed_page.client.get("/api/stream", params=query, headers=ALICE) as answer:
        assert answer.status == status
        assert said in (await answer.json())["error"]


async def test_stream_goes_on_where_it_ended(open_page: Caller, world: World) -> None:
    world.put("one")
    world.put("two")
    async with streamed(open_page) as events:
        first = await until_state(events)
    world.put("two", status=waiting())
    world.now += 10
    async with streamed(open_page, since=first["state"]["cursor"]) as events:
        second = await until_state(events)
    assert (first["hello"]["goesOn"], second["hello"]["goesOn"]) == (False, True)
    assert len(first["pods"]) == 2
    assert [it["name"] for it in second["pods"]] == ["two"]


async def test_changes_in_other_namespaces_cannot_be_counted(
    closed_page: Caller, world: World, stub: ApiStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "STATE_SECONDS", 1e9)
    world.put("mine", namespace="a")
    world.put("secret", namespace="b")
    reviews(stub, may={("list", "pods", "a")})
    async with streamed(closed_page, headers=ALICE) as events:
        first = await until_state(events)
        for number in range(3):
            world.put(f"secret-{number}", namespace="b")
        world.now += 10
        async with asyncio.timeout(60):
            while len(world.board.pods) < 5:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        world.put("mine", namespace="a", status=waiting())
        world.now += 10
        # What comes next is the viewer's own: no state tells that others have changed.
        async with asyncio.timeout(60):
            kind, lines = await anext(events)
        assert (kind, [it["name"] for it in lines]) == ("pods", ["mine"])
        second = await until_state(events)
    names = [it["state"]["cursor"] for it in (first, second)]
    assert len(set(names)) == 2
    assert {len(it) for it in names} == {32}
    async with streamed(closed_page, since=names[0], headers=ALICE) as events:
        again = await until_state(events)
    assert [it["name"] for it in again["pods"]] == ["mine"]


async def test_cursors_are_kept_up_to_a_bound(
    open_page: Caller, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "MOST_CURSORS", 2)
    world.put("one")
    found = []
    for _ in range(3):
        async with streamed(open_page) as events:
            found.append((await until_state(events))["state"]["cursor"])
    for cursor, goes_on in ((found[0], False), (found[2], True)):
        async with streamed(open_page, since=cursor) as events:
            assert (await until_state(events))["hello"]["goesOn"] is goes_on


@pytest.mark.parametrize("since", ["0000000000000000.1.0", "nonsense", "x" * 3000, "a.1.1"])
async def test_cursor_of_others_begins_anew(open_page: Caller, world: World, since: str) -> None:
    world.put("one")
    async with streamed(open_page, since=since) as events:
        found = await until_state(events)
    assert not found["hello"]["goesOn"]
    assert len(found["pods"]) == 1


async def test_many_pods_come_in_bounded_messages(open_page: Caller, world: World) -> None:
    for number in range(stream.CHUNK_LINES * 2 + 1):
        world.put(f"p{number}")
    sizes = []
    async with streamed(open_page) as events, asyncio.timeout(60):
        async for kind, data in events:
            if kind == "pods":
                sizes.append(len(data))
            if kind == "state":
                break
    assert sizes == [stream.CHUNK_LINES, stream.CHUNK_LINES, 1]


async def test_one_user_has_a_bounded_number_of_streams(open_page: Caller) -> None:
    answers = [await open_page.client.get("/api/stream") for _ in range(MOST_STREAMS_OF_A_USER)]
    assert {it.status for it in answers} == {200}
    assert open_page.server.streams == MOST_STREAMS_OF_A_USER
    refused = await open_page.client.get("/api/stream")
    assert (refused.status, refused.headers["Retry-After"]) == (503, "5")
    for answer in answers:
        answer.close()
    async with asyncio.timeout(60):
        while (await open_page.client.get("/api/stream")).status != 200:
            pass  # it asks again


async def read_to_state(answer: ClientResponse) -> None:
    async with asyncio.timeout(60):
        while b"event: state" not in await answer.content.readline():
            pass


async def test_stream_ends_when_its_life_is_over(open_page: Caller, world: World) -> None:
    async with open_page.client.get("/api/stream") as answer:
        await read_to_state(answer)
        world.later = stream.LIFE_SECONDS
        async with asyncio.timeout(60):
            await answer.read()


async def test_stream_ends_when_rights_have_changed(
    closed_page: Caller, stub: ApiStub, world: World
) -> None:
    may = {("list", "pods", "")}
    reviews(stub, may=may)
    world.put("one")
    async with closed_page.client.get("/api/stream", headers=ALICE) as answer:
        await read_to_state(answer)
        may.clear()
        world.later = stream.REVIEW_SECONDS
        async with asyncio.timeout(60):
            await answer.read()


def answered(body: dict[str, Any]) -> Handler:
    async def answer(_request: web.Request) -> web.Response:
        return web.json_response(body)

    return answer


async def test_story_tells_what_the_viewer_may_read(closed_page: Caller, stub: ApiStub) -> None:
    reviews(stub, may={("get", "pods", "default")})
    stub.answer("GET", "/api/v1/namespaces/default/pods/train", answered(pod()))
    query = {"namespace": "default", "name": "train"}
    async with closed_page.client.get("/api/story", params=query, headers=ALICE) as answer:
        told = await answer.json()
    assert told["pod"]["name"] == "train"
    assert "Events" in told["unread"][0]
    assert stub.requests("GET", "/api/v1/namespaces/default/events") == []


async def test_story_of_a_pod_that_may_not_be_read_is_refused(
    closed_page: Caller, stub: ApiStub
) -> None:
    reviews(stub, may=set())
    query = {"namespace": "default", "name": "train"}
    async with closed_page.client.get("/api/story", params=query, headers=ALICE) as answer:
        assert answer.status == 404
        assert "may not get pods" in (await answer.json())["error"]
    assert stub.requests("GET") == []


async def test_story_of_another_schedulers_pod_is_not_told(
    open_page: Caller, stub: ApiStub
) -> None:
    body = pod(schedulerName="other")
    stub.answer("GET", "/api/v1/namespaces/default/pods/train", answered(body))
    stub.answer("GET", "/api/v1/namespaces/default/events", answered({"metadata": {}, "items": []}))
    query = {"namespace": "default", "name": "train"}
    async with open_page.client.get("/api/story", params=query) as answer:
        assert answer.status == 404
        assert "image" not in await answer.text()


IN_GANG = {"slurm-pod-scheduler/gang": "a" * 32}


@pytest.mark.parametrize("may_list", [False, True])
async def test_pods_of_a_gang_are_named_to_those_who_may_list_them(
    closed_page: Caller, world: World, stub: ApiStub, *, may_list: bool
) -> None:
    world.put("train", annotations=IN_GANG)
    world.put("other", annotations=IN_GANG)
    await world.refresh()
    rights = {("get", "pods", "default")}
    reviews(stub, may=rights | ({("list", "pods", "default")} if may_list else set()))
    stub.answer("GET", "/api/v1/namespaces/default/pods/train", answered(pod(annotations=IN_GANG)))
    query = {"namespace": "default", "name": "train"}
    async with closed_page.client.get("/api/story", params=query, headers=ALICE) as answer:
        told = await answer.json()
    assert ("other" in json.dumps(told)) == may_list
    assert any("list pods" in it for it in told["unread"]) != may_list


async def test_one_user_has_a_bounded_number_of_stories(open_page: Caller, stub: ApiStub) -> None:
    stub.answer("GET", "/api/v1/namespaces/default/pods/train", hang())
    query = {"namespace": "default", "name": "train"}

    async def told() -> int:
        async with open_page.client.get("/api/story", params=query) as answer:
            return answer.status

    asking = [asyncio.create_task(told()) for _ in range(MOST_STORIES_OF_A_USER)]
    async with asyncio.timeout(60):
        await stub.wait_for_requests(MOST_STORIES_OF_A_USER, "GET")
        assert await told() == 503
    for task in asking:
        task.cancel()
    await asyncio.wait(asking)


async def test_events_without_a_bound_are_not_read(open_page: Caller, stub: ApiStub) -> None:
    """Whoever may write Events gives each a megabyte; the page reads them in the scheduler."""

    async def events(request: web.Request) -> web.Response:
        text = "x" * 300_000
        found = [
            {"metadata": {"name": f"e{it}", "annotations": {"a": text}}, "reason": "Other"}
            for it in range(min(int(request.query["limit"]), 100))
        ]
        return web.json_response({"metadata": {"continue": "more"}, "items": found})

    stub.answer("GET", "/api/v1/namespaces/default/pods/train", answered(pod()))
    stub.answer("GET", "/api/v1/namespaces/default/events", events)
    query = {"namespace": "default", "name": "train"}
    async with open_page.client.get("/api/story", params=query) as answer:
        told = await answer.json()
    assert len(told["history"]) < 5
    assert "too large" in told["unread"][0]


async def test_pod_that_is_too_large_is_not_read(open_page: Caller, stub: ApiStub) -> None:
    body = pod(annotations={"a": "x" * LONGEST_READ})
    stub.answer("GET", "/api/v1/namespaces/default/pods/train", answered(body))
    query = {"namespace": "default", "name": "train"}
    async with open_page.client.get("/api/story", params=query) as answer:
        assert answer.status == 404
        assert "larger than" in (await answer.json())["error"]


async def test_answer_that_is_not_taken_holds_its_place_and_ends(
    open_page: Caller, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else one user fills all connections of the page with answers that he does not read."""
    begun, taken = asyncio.Semaphore(0), asyncio.Event()

    async def slowly(*_given: object) -> web.StreamResponse:
        begun.release()
        await taken.wait()
        return web.Response(text="{}")

    monkeypatch.setattr(server, "send", slowly)

    async def places() -> int:
        async with open_page.client.get("/api/places") as answer:
            return answer.status

    asking = [asyncio.create_task(places()) for _ in range(MOST_ASKING_OF_A_USER)]
    async with asyncio.timeout(60):
        for _ in asking:
            await begun.acquire()
        assert await places() == 503
        taken.set()
        assert set(await asyncio.gather(*asking)) == {200}
        assert await places() == 200


async def test_stream_that_is_not_read_is_disconnected(
    open_page: Caller, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection would be held for ten minutes, and would no longer count as a stream."""
    monkeypatch.setattr(stream, "WRITE_SECONDS", 0.2)
    gone: list[object] = []
    monkeypatch.setattr(server, "disconnect", gone.append)

    async def blocked(*_given: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(web.StreamResponse, "write", blocked)
    async with open_page.client.get("/api/stream") as answer, asyncio.timeout(60):
        await answer.read()
    assert len(gone) == 1


@pytest.mark.parametrize(
    "query", [{}, {"namespace": "a", "name": "../b"}, {"namespace": "/", "name": "b"}]
)
async def test_names_are_checked(open_page: Caller, stub: ApiStub, query: dict[str, str]) -> None:
    async with open_page.client.get("/api/story", params=query) as answer:
        assert answer.status == 400
    assert stub.seen == []
