"""Who is let in: the site's secret, its renewal, and what a job gets instead of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scheduler.hooks.secrets import SHORTEST, SecretError, Secrets
from tests.unit.hooks.conftest import SECRET

OTHER = "another-secret-of-the-site"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


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


async def test_secret_is_renewed_without_a_gap(secret_file):
    clock = Clock()
    secrets = Secrets(secret_file, clock=clock)
    await secrets.load()
    before = secrets.job_token("uid-1")
    _write(secret_file, f"{OTHER}\n{SECRET}\n", clock)
    assert await secrets.admits(SECRET)
    assert await secrets.admits(OTHER)
    assert await secrets.admits_job(before, unit="uid-1")
    assert secrets.job_token("uid-1") != before
    _write(secret_file, f"{OTHER}\n", clock)
    assert not await secrets.admits(SECRET)
    assert await secrets.admits(OTHER)


async def test_unreadable_file_leaves_the_last_secret_in_use(secret_file):
    clock = Clock()
    secrets = Secrets(secret_file, clock=clock)
    await secrets.load()
    _write(secret_file, "short\n", clock)
    assert await secrets.admits(SECRET)
    secret_file.unlink()
    clock.now += 60
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


def _write(path: Path, content: str, clock: Clock) -> None:
    path.write_text(content)
    os.utime(path, ns=(int(clock.now) + 1, int(clock.now) + 1))
    clock.now += 60
