"""Tokens are read again when they change or are refused, and are never shown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from slurmapi import (
    FileToken,
    JobSubmission,
    SlurmClient,
    SlurmDenied,
    SlurmError,
    SlurmNoToken,
    StaticToken,
)
from slurmapi.tokens import CHECK_SECONDS
from tests.unit.slurmapi.server import Reply, Server, error, fail, ok

SUBMIT = "POST job/submit"
MADE = {"job_id": 1, "errors": []}
REFUSALS = [
    error(1007, status=511),
    fail(401, "Authentication failure"),
    error(6010, status=500),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text("first\n")
    return file


def write(path: Path, text: str) -> None:
    path.write_text(text)


def used(server: Server, what: str) -> list[str]:
    return [seen.headers["x-slurm-user-token"] for seen in server.calls(what)]


@pytest.mark.parametrize("text", ["first", " first\n", "SLURM_JWT=first\n"])
async def test_token_file_may_hold_what_scontrol_prints(path: Path, text: str) -> None:
    write(path, text)
    assert await FileToken(path).token() == "first"


@pytest.mark.looptime
async def test_changed_file_is_read_again(path: Path) -> None:
    source = FileToken(path)
    assert await source.token() == "first"
    write(path, "second-longer")
    await asyncio.sleep(CHECK_SECONDS)
    assert await source.token() == "second-longer"


@pytest.mark.looptime
async def test_file_replaced_by_rename_is_read_again(path: Path) -> None:
    source = FileToken(path)
    assert await source.token() == "first"
    other = path.with_suffix(".new")
    other.write_text("other\n")
    other.rename(path)
    await asyncio.sleep(CHECK_SECONDS)
    assert await source.token() == "other"


@pytest.mark.looptime
async def test_file_is_looked_at_once_a_second(path: Path) -> None:
    source = FileToken(path)
    assert await source.token() == "first"
    write(path, "second")
    await asyncio.sleep(CHECK_SECONDS - 0.1)
    assert await source.token() == "first"
    await asyncio.sleep(0.1)
    assert await source.token() == "second"


@pytest.mark.looptime
async def test_refused_token_is_read_again_at_once(path: Path) -> None:
    source = FileToken(path)
    await source.token()
    write(path, "second")
    source.invalidate()
    assert await source.token() == "second"


@pytest.mark.looptime
@pytest.mark.parametrize("break_file", [Path.unlink, lambda path: path.write_text("")])
async def test_file_that_is_being_renewed_leaves_the_last_token_in_use(
    path: Path, break_file: Callable[[Path], object]
) -> None:
    source = FileToken(path)
    await source.token()
    break_file(path)
    await asyncio.sleep(CHECK_SECONDS)
    assert await source.token() == "first"
    source.invalidate()
    with pytest.raises(SlurmDenied, match="token file"):
        await source.token()


@pytest.mark.parametrize("text", ["", "two lines\nof text", "sécret", "a\r\nX-Other: b"])
def test_what_would_break_a_header_is_no_token(text: str) -> None:
    with pytest.raises(SlurmDenied) as denied:
        StaticToken(text)
    assert text == "" or text not in str(denied.value)


async def test_missing_file_is_named_and_no_job_is_to_blame(tmp_path: Path) -> None:
    with pytest.raises(SlurmNoToken, match=r"nowhere.*No such file") as missing:
        await FileToken(tmp_path / "nowhere").token()
    assert missing.value.authentication


async def test_without_a_token_nothing_is_sent_and_with_the_file_back_it_is_at_once(
    server: Server,
    client_of: Callable[..., SlurmClient],
    placeholder: JobSubmission,
    tmp_path: Path,
) -> None:
    path = tmp_path / "late"
    client = client_of(server, token=FileToken(path))
    server.on(SUBMIT, ok(MADE))
    for _ in range(3):
        with pytest.raises(SlurmNoToken):
            await client.submit(placeholder)
    assert server.seen == []
    write(path, "back")
    assert (await client.submit(placeholder)).job_id == 1
    assert used(server, SUBMIT) == ["back"]


@pytest.mark.looptime
@pytest.mark.parametrize("refusal", REFUSALS, ids=["511", "401", "6010"])
async def test_refused_request_is_sent_again_with_the_renewed_token(
    server: Server,
    client_of: Callable[..., SlurmClient],
    placeholder: JobSubmission,
    path: Path,
    refusal: Reply,
) -> None:
    client = client_of(server, token=FileToken(path))
    await client.negotiate()
    write(path, "second")
    server.on(SUBMIT, refusal, ok(MADE))
    assert (await client.submit(placeholder)).job_id == 1
    assert used(server, SUBMIT) == ["first", "second"]


async def test_refused_request_is_not_sent_again_with_the_same_token(
    server: Server, client_of: Callable[..., SlurmClient], placeholder: JobSubmission, path: Path
) -> None:
    client = client_of(server, token=FileToken(path))
    server.on(SUBMIT, REFUSALS[0], ok(MADE))
    with pytest.raises(SlurmDenied):
        await client.submit(placeholder)
    assert len(server.calls(SUBMIT)) == 1


@pytest.mark.looptime
async def test_renewed_token_that_is_refused_too_ends_it(
    server: Server, client_of: Callable[..., SlurmClient], placeholder: JobSubmission, path: Path
) -> None:
    client = client_of(server, token=FileToken(path))
    await client.negotiate()
    write(path, "second")
    server.on(SUBMIT, REFUSALS[0])
    with pytest.raises(SlurmDenied):
        await client.submit(placeholder)
    assert used(server, SUBMIT) == ["first", "second"]


async def test_token_that_the_server_repeats_is_not_in_the_error(
    server: Server, client: SlurmClient
) -> None:
    await client.negotiate()
    server.on("GET job/1", fail(500, "bad header X-SLURM-USER-TOKEN: secret-token"))
    with pytest.raises(SlurmError) as refused:
        await client.job(1)
    assert "secret-token" not in f"{refused.value!r} {refused.value}"
    assert "X-SLURM-USER-TOKEN" in str(refused.value)


async def test_no_token_is_ever_shown(path: Path) -> None:
    source = FileToken(path)
    await source.token()
    static = StaticToken("first")
    for shown in (repr(source), str(source), repr(static), str(static)):
        assert "first" not in shown


async def test_file_is_read_off_the_event_loop(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    threads: list[str] = []
    opened = Path.open

    def noticing(self: Path, *arguments: object) -> object:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            threads.append("worker")
        return opened(self, *arguments)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", noticing)
    assert await FileToken(path).token() == "first"
    assert threads == ["worker"]
    assert loop.is_running()
