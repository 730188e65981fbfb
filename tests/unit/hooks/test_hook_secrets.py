"""Who is let in: the site's secret, its renewal, and what a job gets instead of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from scheduler.hooks.secrets import SHORTEST, SecretError, Secrets
from tests.support.loop_time import pass_time
from tests.unit.hooks.conftest import SECRET

OTHER = "another-secret-of-the-site"


@pytest.fixture
def write(secret_file: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Writes the file, and lets pass the time after which it is looked at again."""
    writes = count(1)

    def write(content: str) -> None:
        secret_file.write_text(content)
        number = next(writes)
        os.utime(secret_file, ns=(number, number))
        pass_time(monkeypatch, 60)

    return write


async def test_only_the_secret_itself_is_admitted(secrets):
    assert await secrets.admits(SECRET)
    for wrong in ("", SECRET[:-1], SECRET + "x", SECRET.upper(), "é", "\udce9", "\0"):
        assert not await secrets.admits(wrong)


async def test_token_of_a_job_is_good_for_its_unit_only(secrets):
    token = secrets.job_token("uid-1")
    assert await secrets.admits_job(token, unit="uid-1")
    assert not await secrets.admits_job(token, unit="uid-2")
    assert not await secrets.admits(token)
    assert SECRET not in token


async def test_secret_is_renewed_without_a_gap(secrets, write):
    before = secrets.job_token("uid-1")
    write(f"{OTHER}\n{SECRET}\n")
    assert await secrets.admits(SECRET)
    assert await secrets.admits(OTHER)
    assert await secrets.admits_job(before, unit="uid-1")
    assert secrets.job_token("uid-1") != before
    write(f"{OTHER}\n")
    assert not await secrets.admits(SECRET)
    assert await secrets.admits(OTHER)


async def test_unreadable_file_leaves_the_last_secret_in_use(
    secrets, secret_file, write, monkeypatch
):
    write("short\n")
    assert await secrets.admits(SECRET)
    secret_file.unlink()
    pass_time(monkeypatch, 60)
    assert await secrets.admits(SECRET)


@pytest.mark.parametrize(
    "content", ["", "\n\n", "x" * (SHORTEST - 1), "with a blank in it, long", "é" * 20, "a\0" * 20]
)
async def test_file_without_a_good_secret_is_refused(secret_file, content):
    secret_file.write_text(content)
    with pytest.raises(SecretError, match=r"at least 16 printable") as caught:
        await Secrets(secret_file).load()
    assert not content.strip() or content not in str(caught.value)


async def test_file_that_is_too_long_is_told_the_limit(secret_file):
    secret_file.write_text(f"{SECRET}\n" * (16 * 1024 // len(SECRET)))
    with pytest.raises(SecretError, match=r"16 KiB in all"):
        await Secrets(secret_file).load()


async def test_missing_file_is_named(tmp_path):
    with pytest.raises(SecretError, match=r"nowhere: No such file"):
        await Secrets(tmp_path / "nowhere").load()


def test_secret_is_not_shown(secret_file):
    assert SECRET not in repr(Secrets(secret_file))
