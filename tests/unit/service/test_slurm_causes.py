"""Each fault of the link to Slurm is told with its cause and what helps; the sockets are real."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
import trustme

from groundwork.retry import once
from scheduler.observe.trouble import Cause
from scheduler.slurm.causes import CAUSES, SlurmCauses
from slurmapi import (
    Deadlines,
    FileToken,
    SlurmBusy,
    SlurmClient,
    SlurmError,
    SlurmNoApi,
    SlurmRefused,
    SlurmStranger,
    StaticToken,
)
from tests.support.names import lose_reserved_names
from tests.support.ports import free_ports

_ROOT: Final = Path(__file__).parents[3]
_HTTP_404: Final = (
    b"HTTP/1.1 404 NOT FOUND\r\nContent-Length: 21\r\nConnection: Close\r\n\r\n"
    b"Unable find requested"
)
_EXPIRED_AT: Final = 1_700_000_000  # 2023-11-14 22:13:20 UTC

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]


def _jwt(**claims: float) -> str:
    parts = ({"alg": "HS256"}, claims)
    encoded = (base64.urlsafe_b64encode(json.dumps(it).encode()).decode() for it in parts)
    return ".".join((*(it.rstrip("=") for it in encoded), "c2lnbmVk"))


@asynccontextmanager
async def _listening(handler: Handler, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    tasks: set[asyncio.Future[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.ensure_future(handler(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await asyncio.gather(*tasks, return_exceptions=True)


def _answers(data: bytes) -> Handler:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)  # of TLS no more comes before the answer
        writer.write(data)
        await writer.drain()
        writer.close()

    return handle


async def _silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


async def _cause(
    url: str,
    token: StaticToken | FileToken | None = None,
    *,
    silence: float = 30.0,
) -> Cause:
    """What is told of a first question to that address. An answer has time to come, however busy
    the machine is, unless its absence is what is told.
    """
    used = token or StaticToken("a.b.c")
    causes = SlurmCauses(
        url, token="file /t", lifetime=lambda: used.lifetime, answered=lambda: False
    )
    deadlines = Deadlines(connect=30.0, silence=silence, total=40.0)
    async with SlurmClient(url, token=used, deadlines=deadlines, retry=once) as client:
        with pytest.raises(SlurmError) as failed:
            await client.ping()
    return causes.of(failed.value)


async def test_nothing_listens() -> None:
    (port,) = free_ports(1)
    cause = await _cause(f"http://127.0.0.1:{port}")
    assert cause.name == "refused"
    assert f"nothing listens at http://127.0.0.1:{port}: start slurmrestd" in cause.text


async def test_nothing_listens_on_any_of_the_addresses_of_a_name() -> None:
    (port,) = free_ports(1)
    assert (await _cause(f"http://localhost:{port}")).name == "refused"


async def test_no_such_socket(tmp_path: Path) -> None:
    assert (await _cause(f"unix:{tmp_path}/slurmrestd.sock")).name == "refused"


async def test_name_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    lose_reserved_names(monkeypatch)
    cause = await _cause("http://slurmrestd.invalid:6820")
    assert cause.name == "unresolved"
    assert "--slurm-api-base=http://slurmrestd.invalid:6820 is not found" in cause.text


async def test_no_answer_in_time() -> None:
    async with _listening(_silent) as port:
        cause = await _cause(f"http://127.0.0.1:{port}", silence=0.3)
    assert cause.name == "timeout"
    assert "NetworkPolicy" in cause.text


async def test_another_web_server() -> None:
    async with _listening(_answers(_HTTP_404)) as port:
        cause = await _cause(f"http://127.0.0.1:{port}")
    assert cause.name == "no_slurmrestd"
    assert "usually http://HOST:6820" in cause.text


async def test_wrong_path() -> None:
    async with _listening(_answers(_HTTP_404)) as port:
        cause = await _cause(f"http://127.0.0.1:{port}/oops")
    assert cause.name == "no_slurmrestd"
    assert "without '/oops'" in cause.text


async def test_page_in_the_place_of_json() -> None:
    page = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>"
    async with _listening(_answers(page)) as port:
        assert (await _cause(f"http://127.0.0.1:{port}")).name == "no_slurmrestd"


async def test_tls_where_plain_http_is_spoken() -> None:
    async with _listening(_answers(_HTTP_404)) as port:
        cause = await _cause(f"https://127.0.0.1:{port}")
    assert cause.name == "tls_not_spoken"
    assert "--slurm-api-base=http://HOST:PORT" in cause.text


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def served(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


async def test_plain_http_where_tls_is_spoken(served: ssl.SSLContext) -> None:
    async with _listening(_answers(_HTTP_404), tls=served) as port:
        cause = await _cause(f"http://127.0.0.1:{port}")
    assert cause.name == "tls_expected"
    assert "begins with https://" in cause.text


async def test_plain_http_to_a_server_that_says_so() -> None:
    """As Go's and nginx' answer."""
    text = b"Client sent an HTTP request to an HTTPS server."
    answer = b"HTTP/1.0 400 Bad Request\r\n\r\n" + text
    async with _listening(_answers(answer)) as port:
        assert (await _cause(f"http://127.0.0.1:{port}")).name == "tls_expected"


async def test_certificate_of_an_unknown_authority(served: ssl.SSLContext) -> None:
    async with _listening(_answers(_HTTP_404), tls=served) as port:
        cause = await _cause(f"https://127.0.0.1:{port}")
    assert cause.name == "tls_not_trusted"
    assert "SSL_CERT_FILE" in cause.text


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file or directory"),
        ("", "its content is empty"),
        ("two words", "its content is no token"),
    ],
    ids=["missing", "empty", "wrong"],
)
async def test_no_token_in_the_file(tmp_path: Path, content: str | None, said: str) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content)
    cause = await _cause("http://127.0.0.1:9", FileToken(path))
    assert cause.name == "token_missing"
    assert f"token file {path}: {said}" in cause.text
    assert "scontrol token" in cause.text


_PROTOCOL_ERROR: Final = json.dumps(
    {"errors": [{"error_number": 1007, "error": "Protocol authentication error"}]}
)
_DENIED: Final = (
    f"HTTP/1.1 511 X\r\nContent-Length: {len(_PROTOCOL_ERROR)}\r\nConnection: Close\r\n\r\n"
    f"{_PROTOCOL_ERROR}"
).encode()


async def test_token_that_has_expired() -> None:
    async with _listening(_answers(_DENIED)) as port:
        cause = await _cause(f"http://127.0.0.1:{port}", StaticToken(_jwt(exp=_EXPIRED_AT)))
    assert cause.name == "token_expired"
    assert "the token of file /t expired at 2023-11-14 22:13:20 UTC" in cause.text


async def test_token_that_has_not_expired() -> None:
    async with _listening(_answers(_DENIED)) as port:
        cause = await _cause(f"http://127.0.0.1:{port}", StaticToken(_jwt(exp=4e9)))
    assert cause.name == "token_refused"
    assert "jwt_key" in cause.text


def _of(error: SlurmError, *, where: str = "http://h:6820") -> Cause:
    lifetime = StaticToken("a.b.c").lifetime
    return SlurmCauses(where, token="t", lifetime=lambda: lifetime, answered=lambda: True).of(error)


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (SlurmBusy("Unable to contact slurm controller", error_number=1800), "controller_away"),
        (SlurmBusy("its controllers do not answer a ping (DOWN)"), "controller_away"),
        (SlurmBusy("Bad Gateway", status=502), "other"),
        (SlurmStranger("other", expected="ours"), "other_cluster"),
        (SlurmRefused("JobID larger", error_number=9000, status=422), "other"),
    ],
)
def test_slurms_own_words_stay(error: SlurmError, name: str) -> None:
    cause = _of(error)
    assert cause.name == name
    assert str(error) in cause.text


def test_port_of_slurmctld_is_named() -> None:
    cause = _of(SlurmNoApi("no version (HTTP 404)"), where="http://h:6817")
    assert "6817 is the port of slurmctld, slurmrestd usually listens on 6820" in cause.text


def test_words_of_a_server_are_cut() -> None:
    assert len(_of(SlurmRefused("x" * 100_000, error_number=1)).text) < 500


@pytest.mark.parametrize("name", CAUSES)
def test_cause_has_a_row_in_the_runbook(name: str) -> None:
    page = (_ROOT / "docs" / "runbooks.md").read_text(encoding="utf-8")
    assert f"| `{name}` |" in page
