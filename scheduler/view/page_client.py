"""Asks the scheduler's page what a namespace may ask for (`page/server.py` answers)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

import aiohttp
import msgspec

from scheduler.view.connection import ViewError
from scheduler.view.page_address import PageAddress
from scheduler.view.partition_row import LONGEST_ANSWER, PartitionsTold
from scheduler.view.safe_text import shown

MOST_ANSWERS: Final = 20
_SECONDS: Final = 30.0
_CONNECT_SECONDS: Final = 5.0
_OK: Final = 200
_UNAUTHORIZED: Final = 401
_NOT_NOW: Final = frozenset({502, 503, 504})
_LONGEST_TEXT: Final = 300
_decode = msgspec.json.Decoder(PartitionsTold).decode


@dataclass(frozen=True, slots=True)
class NotAnswered:
    """The page cannot tell now; `why` says the reason."""

    why: str


class _Said(msgspec.Struct):
    error: str = ""


async def partitions(
    page: PageAddress, *, token: str, namespace: str
) -> PartitionsTold | NotAnswered:
    """All partitions. Raises ViewError for what waiting does not help against."""
    try:
        async with asyncio.timeout(_SECONDS), aiohttp.ClientSession(trust_env=False) as session:
            return await _all(session, page, token, namespace)
    except TimeoutError:
        return NotAnswered(f"{page.base} does not answer within {_SECONDS:g} s")
    except (aiohttp.ClientError, OSError) as error:
        return NotAnswered(f"{page.base} does not answer: {shown(str(error)) or 'no answer'}")


async def _all(
    session: aiohttp.ClientSession, page: PageAddress, token: str, namespace: str
) -> PartitionsTold | NotAnswered:
    found = await _one(session, page, token, {"namespace": namespace})
    for _ in range(MOST_ANSWERS - 1):
        if isinstance(found, NotAnswered) or not found.continue_:
            break
        after = {"namespace": namespace, "after": found.continue_}
        more = await _one(session, page, token, after)
        if isinstance(more, NotAnswered):
            return more
        found = _joined(found, more)
    return found


def _joined(found: PartitionsTold, more: PartitionsTold) -> PartitionsTold:
    """Both answers as one."""
    return msgspec.structs.replace(
        more, items=(*found.items, *more.items), limits=found.limits, notes=found.notes
    )


async def _one(
    session: aiohttp.ClientSession, page: PageAddress, token: str, query: dict[str, str]
) -> PartitionsTold | NotAnswered:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with session.get(
        f"{page.base}/api/partitions",
        params=query,
        headers=headers,
        allow_redirects=False,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
    ) as response:
        body = await _body(response)
        if response.status == _OK:
            return _decoded(body, page)
        if response.status in _NOT_NOW:
            return NotAnswered(f"{page.base}: {_text(body, response.status)}")
        raise ViewError(_refusal(page, response.status, _text(body, response.status), token))


async def _body(response: aiohttp.ClientResponse) -> bytes:
    found = bytearray()
    async for part in response.content.iter_any():
        found += part
        if len(found) > LONGEST_ANSWER:
            raise ViewError(
                f"{response.url.origin()}: an answer of more than {LONGEST_ANSWER} bytes"
            )
    return bytes(found)


def _decoded(body: bytes, page: PageAddress) -> PartitionsTold:
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ViewError(
            f"{page.name}: {page.base}: it does not answer as the scheduler's live page does; "
            "expected the page's address, and a scheduler of this version"
        ) from None


def _text(body: bytes, status: int) -> str:
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
