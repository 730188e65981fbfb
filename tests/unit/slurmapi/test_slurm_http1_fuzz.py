"""Whatever comes where a response should be is read, cut short or garbled, in whatever pieces."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmapi.answers import JobsAnswer
from slurmapi.errors import SlurmError, SlurmGarbled
from slurmapi.http1 import CutShort, Exchange, Request, Response
from slurmapi.wire import decode

_MOST = 4096
_PARTS = st.sampled_from(
    [b"HTTP/1.1 200 OK", b"HTTP/1.0 500 x", b"HTTP/1.1 100 Continue", b"HTTP/1.1 204 ",
     b"HTTP/2 200",
     b"Content-Length: 3", b"content-length: 99999999", b"Content-Length: -1",
     b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip", b"Connection: close", b": x",
     b"\r\n", b"\r\n\r\n", b"3\r\nabc\r\n", b"0\r\n\r\n", b"ffffffff\r\n", b"{}", b"abc", b"\x00"]
)  # fmt: skip
_STREAM = st.lists(_PARTS | st.binary(max_size=8), max_size=14)


@given(_STREAM)
def test_any_stream_is_read_cut_short_or_garbled(pieces: list[bytes]) -> None:
    found = asyncio.run(_outcome(pieces))
    assert not isinstance(found, Response) or len(found.body) <= _MOST


@given(_STREAM)
def test_pieces_make_no_difference(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    one_by_one = [whole[at : at + 1] for at in range(len(whole))]
    assert asyncio.run(_outcome(one_by_one)) == asyncio.run(_outcome([whole]))


async def _outcome(pieces: list[bytes]) -> Response | tuple[type[Exception], str]:
    stream = asyncio.StreamReader(limit=1024)
    for piece in pieces:
        stream.feed_data(piece)
    stream.feed_eof()
    request = Request(method="GET", target="/", headers={}, max_body=_MOST)
    try:
        response, _ = await Exchange(request, host="peer").read(stream)
    except (CutShort, SlurmGarbled) as error:
        return type(error), str(error)
    return response


@pytest.mark.parametrize("name", ["jobs", "new"])
def test_depth_without_end_is_an_error_of_ours(name: str) -> None:

    body = b'{"' + name.encode() + b'": ' + b"[" * 200_000
    with pytest.raises(SlurmError):
        decode(Response(status=200, headers={}, body=body), JobsAnswer)
