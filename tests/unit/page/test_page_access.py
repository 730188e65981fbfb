"""What one user, or somebody with tokens that nobody knows, costs others who look at the page."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from scheduler.page.access import TOKENS_PER_SECOND
from scheduler.page.server import (
    MOST_ASKING_OF_A_USER,
    MOST_STREAMS_OF_A_USER,
    STREAM_PLACE_SECONDS,
)
from tests.unit.kube.server import ApiStub
from tests.unit.page.conftest import Caller
from tests.unit.page.test_page_server import RIGHTS, TOKENS

SECONDS = 60


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def tokens(stub: ApiStub) -> None:
    """A token NAMESPACE:NAME:NUMBER is one of that ServiceAccount, anything else is unknown."""

    async def who(request: web.Request) -> web.Response:
        token = (await request.json())["spec"]["token"]
        if token.count(":") != 2:
            return web.json_response({"status": {}})
        account, _, _number = token.rpartition(":")
        extra = {"authentication.kubernetes.io/credential-id": [token]}
        user = {"username": f"system:serviceaccount:{account}", "extra": extra}
        return web.json_response({"status": {"authenticated": True, "user": user}})

    stub.answer("POST", TOKENS, who)


def rights(stub: ApiStub, *, told: asyncio.Event | None = None) -> None:
    """Everybody has every right, as is said once `told` is set."""

    async def all_of_them(_request: web.Request) -> web.Response:
        if told is not None:
            await told.wait()
        return web.json_response({"status": {"allowed": True}})

    stub.answer("POST", RIGHTS, all_of_them)


@pytest.mark.parametrize("name", ["ns:viewer:{}", "ns:viewer-{}:1"])
async def test_tokens_and_accounts_of_a_namespace_share_the_places_of_one_user(
    closed_page: Caller, stub: ApiStub, name: str
) -> None:
    tokens(stub)
    rights(stub)
    ask = closed_page.client.get
    opened = [
        await ask("/api/stream", headers=bearer(name.format(number)))
        for number in range(MOST_STREAMS_OF_A_USER)
    ]
    assert {it.status for it in opened} == {200}
    refused = await ask("/api/stream", headers=bearer(name.format("more")))
    assert refused.status == 503
    other = await ask("/api/stream", headers=bearer("other:viewer:1"))
    assert other.status == 200
    for answer in (*opened, other):
        answer.close()


async def test_stream_that_ends_at_once_keeps_its_place_for_a_while(open_page: Caller) -> None:
    loop = asyncio.get_running_loop()
    began, opened = loop.time(), 0
    while opened <= 2 * MOST_STREAMS_OF_A_USER:
        async with open_page.client.get("/api/stream") as answer:
            assert answer.status in {200, 503}
            opened += answer.status == 200
        await asyncio.sleep(0.001)
    assert loop.time() - began >= 2 * STREAM_PLACE_SECONDS
    async with asyncio.timeout(SECONDS):
        while open_page.server.streams:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_rights_are_asked_about_once_for_all_tokens_of_an_account(
    closed_page: Caller, stub: ApiStub
) -> None:
    tokens(stub)
    rights(stub)
    for number in range(5):
        headers = bearer(f"ns:viewer:{number}")
        async with closed_page.client.get("/api/places?namespace=ns", headers=headers) as answer:
            assert answer.status == 200
    assert len(stub.requests("POST", TOKENS)) == 5
    assert len(stub.requests("POST", RIGHTS)) == 1


async def test_those_who_ask_the_same_at_the_same_time_have_it_asked_once(
    closed_page: Caller, stub: ApiStub
) -> None:
    tokens(stub)
    rights(stub)

    async def asked() -> int:
        headers = bearer("ns:viewer:1")
        async with closed_page.client.get("/api/places?namespace=ns", headers=headers) as answer:
            return answer.status

    found = await asyncio.gather(*(asked() for _ in range(MOST_ASKING_OF_A_USER)))
    assert set(found) == {200}
    assert len(stub.requests("POST", TOKENS)) == len(stub.requests("POST", RIGHTS)) == 1


async def test_tokens_are_asked_about_at_a_pace(closed_page: Caller, stub: ApiStub) -> None:
    tokens(stub)
    many = 40

    async def refused(number: int) -> int:
        headers = bearer(f"unknown-{number}")
        async with closed_page.client.get("/api/stream", headers=headers) as answer:
            return answer.status

    assert set(await asyncio.gather(*map(refused, range(many)))) == {401}
    first, *_, last = (it.at for it in stub.requests("POST", TOKENS))
    assert len(stub.requests("POST", TOKENS)) == many
    # Four may be under way before the first arrives.
    assert last - first >= (many - 4) / TOKENS_PER_SECOND * 0.9


async def test_unknown_tokens_do_not_hold_up_those_who_are_known(
    closed_page: Caller, stub: ApiStub
) -> None:
    never = asyncio.Event()
    tokens(stub)
    rights(stub)
    headers = bearer("ns:viewer:1")
    async with closed_page.client.get("/api/places?namespace=a", headers=headers) as answer:
        assert answer.status == 200
    (known,) = stub.answers["POST", TOKENS]

    async def silent(_request: web.Request) -> web.Response:
        await never.wait()
        return web.json_response({})

    stub.answers["POST", TOKENS].clear()
    stub.answer("POST", TOKENS, silent)
    strangers = [
        asyncio.create_task(closed_page.client.get("/api/stream", headers=bearer(f"u{number}")))
        for number in range(50)
    ]
    asked = len(stub.requests("POST", TOKENS))
    async with asyncio.timeout(SECONDS):
        while len(stub.requests("POST", TOKENS)) < asked + 4:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    async with closed_page.client.get("/api/places?namespace=b", headers=headers) as answer:
        assert answer.status == 200
    assert len(stub.requests("POST", TOKENS)) < asked + 50, "the others still wait"
    never.set()
    stub.answers["POST", TOKENS].clear()
    stub.answer("POST", TOKENS, known)
    for task in strangers:
        task.cancel()
    await asyncio.wait(strangers)


async def test_caller_with_a_known_token_stays_while_rights_are_asked_about(
    closed_page: Caller, stub: ApiStub
) -> None:
    told = asyncio.Event()
    tokens(stub)
    rights(stub, told=told)
    ask = closed_page.client.get
    paths = ("/api/stream", "/api/places?namespace=a", "/api/partitions?namespace=b")
    waiting = [asyncio.create_task(ask(it, headers=bearer("ns:viewer:1"))) for it in paths]
    async with asyncio.timeout(SECONDS):
        while len(closed_page.known) < len(paths):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    told.set()
    for task in waiting:
        (await task).close()
