"""Asks the scheduler's page what a namespace may ask for, and where its pods stand in the queue
(`page/server.py` answers).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import aiohttp
import msgspec

from groundwork.refused import nothing_listens
from scheduler.view.connection import ViewError
from scheduler.view.page_address import PageAddress
from scheduler.view.partition_row import LONGEST_ANSWER, PartitionsTold
from scheduler.view.queue_place import PlacesTold
from scheduler.view.safe_text import shown

MOST_ANSWERS: Final = 20
_SECONDS: Final = 30.0
_CONNECT_SECONDS: Final = 5.0
_OK: Final = 200
_UNAUTHORIZED: Final = 401
_NOT_NOW: Final = frozenset({502, 503, 504})
_LONGEST_TEXT: Final = 300
T = TypeVar("T", PartitionsTold, PlacesTold)


@dataclass(frozen=True, slots=True)
class NotAnswered:
    """The page cannot tell now; `why` says the reason."""

    why: str


class _Said(msgspec.Struct):
    error: str = ""


@dataclass(frozen=True, slots=True)
class _Question(Generic[T]):
    """A path of the page, and how its answer is read."""

    path: str
    decode: Callable[[bytes], T]


_PARTITIONS: Final = _Question("/api/partitions", msgspec.json.Decoder(PartitionsTold).decode)
_PLACES: Final = _Question("/api/places", msgspec.json.Decoder(PlacesTold).decode)


async def ask_partitions(
    page: PageAddress, *, token: str, namespace: str
) -> PartitionsTold | NotAnswered:
    """All partitions. Raises ViewError for what waiting does not help against."""
    return await _ask_page(_PARTITIONS, page, token, namespace)


async def ask_places(page: PageAddress, *, token: str, namespace: str) -> PlacesTold | NotAnswered:
    """The places of the waiting pods in a namespace, or in all for "". Raises ViewError for what
    waiting does not help against.
    """
    return await _ask_page(_PLACES, page, token, namespace)


async def _ask_page(
    question: _Question[T], page: PageAddress, token: str, namespace: str
) -> T | NotAnswered:
    try:
        async with asyncio.timeout(_SECONDS), aiohttp.ClientSession(trust_env=False) as session:
            return await _all(session, question, page, token, namespace)
    except TimeoutError:
        return NotAnswered(f"{page.base} does not answer within {_SECONDS:g} s")
    except aiohttp.ClientConnectorError as error:
        if nothing_listens(error.os_error):
            return NotAnswered(
                f"nothing listens at {page.base}: start the scheduler with --page-bind-address, or "
                f"correct {page.name}"
            )
        return NotAnswered(f"{page.base} does not answer: {shown(str(error.os_error))}")
    except (aiohttp.ClientError, OSError, ValueError) as error:
        # The last for what no request can have: a token of two lines, a host with empty labels.
        return NotAnswered(f"{page.base} does not answer: {shown(str(error)) or 'no answer'}")


async def _all(
    session: aiohttp.ClientSession,
    question: _Question[T],
    page: PageAddress,
    token: str,
    namespace: str,
) -> T | NotAnswered:
    found = await _one(session, question, page, token, {"namespace": namespace})
    for _ in range(MOST_ANSWERS - 1):
        if isinstance(found, NotAnswered) or not found.continue_:
            break
        after = {"namespace": namespace, "after": found.continue_}
        more = await _one(session, question, page, token, after)
        if isinstance(more, NotAnswered):
            return more
        found = _with_more(found, more)
    return found


def _with_more(found: T, more: T) -> T:
    """Both answers as one."""
    items = (*found.items, *more.items)
    return msgspec.structs.replace(found, items=items, continue_=more.continue_)


async def _one(
    session: aiohttp.ClientSession,
    question: _Question[T],
    page: PageAddress,
    token: str,
    query: dict[str, str],
) -> T | NotAnswered:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with session.get(
        f"{page.base}{question.path}",
        params=query,
        headers=headers,
        allow_redirects=False,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
    ) as response:
        body = await _body(response)
        if response.status == _OK:
            return _decoded(question, body, page)
        if response.status in _NOT_NOW:
            return NotAnswered(f"{page.base}: {_why_refused(body, response.status)}")
        raise ViewError(_refusal(page, response.status, _why_refused(body, response.status), token))


async def _body(response: aiohttp.ClientResponse) -> bytes:
    found = bytearray()
    async for part in response.content.iter_any():
        found += part
        if len(found) > LONGEST_ANSWER:
            raise ViewError(
                f"{response.url.origin()}: an answer of more than {LONGEST_ANSWER} bytes"
            )
    return bytes(found)


def _decoded(question: _Question[T], body: bytes, page: PageAddress) -> T:
    try:
        return question.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ViewError(
            f"{page.name}: {page.base}: it does not answer as the scheduler's live page does; "
            "expected the page's address, and a scheduler of this version"
        ) from None


def _why_refused(body: bytes, status: int) -> str:
    try:
        said = msgspec.json.decode(body, type=_Said).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        said = ""
    return shown(said)[:_LONGEST_TEXT] or f"HTTP status {status}"


def _refusal(page: PageAddress, status: int, said: str, token: str) -> str:
    if status == _UNAUTHORIZED:
        who = "log in again" if token else "your kubeconfig has none"
        return (
            f"{page.base}: {said}: {who}, or give one in a file (`kubectl create token NAME > "
            "FILE`, --page-token-file=FILE)"
        )
    return f"{page.name}: {page.base}: {said}"
