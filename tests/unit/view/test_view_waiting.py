"""What takes longer than two seconds says what it waits for."""

from __future__ import annotations

import asyncio

import pytest

from scheduler.view.waiting import told_if_slow

pytestmark = pytest.mark.looptime


async def test_what_takes_long_is_told_every_two_seconds_with_what_has_come(
    capsys: pytest.CaptureFixture[str],
) -> None:
    come = iter([0, 500])
    with told_if_slow("kubectl slurm queue", "pods from https://x\x1b[2J", lambda: next(come)):
        await asyncio.sleep(5)
    await asyncio.sleep(5)
    assert capsys.readouterr().err.splitlines() == [
        r"kubectl slurm queue: waiting for pods from https://x\x1b[2J (2 s)",
        r"kubectl slurm queue: waiting for pods from https://x\x1b[2J (500 so far, 4 s)",
    ]


async def test_what_is_quick_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with told_if_slow("kubectl slurm queue", "pods"):
        await asyncio.sleep(1.9)
    await asyncio.sleep(5)
    assert capsys.readouterr() == ("", "")
