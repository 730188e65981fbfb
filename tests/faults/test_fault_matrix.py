"""Every fault on every call while pods come and go; then all heals, and nothing was lost."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.crash.virtual_loop import VirtualLoop
from tests.faults import faults
from tests.faults.calls import CALLS, Server
from tests.faults.churn import Cell, outage, play
from tests.faults.matrix import FAULTS, UNUSED, Row, chosen, rounds
from tests.faults.play import Fault
from tests.faults.playground import Playground, playground

# Each plays for minutes or hours of virtual time, in a second or two of work.
pytestmark = [pytest.mark.sweep, pytest.mark.timeout(300)]


def run(story: Coroutine[Any, Any, None]) -> None:
    """A story in virtual time."""
    loop = VirtualLoop()
    try:
        loop.run_until_complete(story)
    finally:
        loop.close()


@asynccontextmanager
async def under_way(folder: Path, *, release: str = "26.05") -> AsyncIterator[Playground]:
    """A scheduler at work, with a pod on each node that must outlive everything."""
    async with playground(folder, release=release) as ground:
        ground.start()
        keep = [ground.create(cpus="33"), ground.create(cpus="33")]
        await ground.until("they run", lambda: all(map(ground.running, keep)), seconds=30)
        yield ground
        await ground.audit.close_and_judge()
        assert all(map(ground.running, keep))
        assert not ground.play.strangers
        assert not ground.play.failures


async def _played(ground: Playground, cells: list[Cell], *, times: int) -> None:
    if any(fault is faults.delivered_twice for fault, _ in cells):
        ground.audit.accepted["I3"] = "the proxy sends what was written once a second time"
    rules = await play(ground, cells, times=times)
    missed = [rule.call for rule in rules if not rule.played]
    assert not missed, f"not played on {missed}: {ground.play.seen()}"
    await ground.converge()


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in FAULTS])
def test_nothing_is_lost_by_a_fault_of_any_call(row: Row, tmp_path: Path) -> None:
    async def story() -> None:
        async with under_way(tmp_path) as ground:
            for group in filter(None, rounds(row)):
                await _played(ground, [(row.fault, call) for call in group], times=3)

    run(story())


@pytest.mark.parametrize("part", range(3))
def test_nothing_is_lost_by_many_faults_at_once(part: int, tmp_path: Path) -> None:
    """With placeholders that are scripts, and an older Slurm."""
    without = {*UNUSED, "config", "evict_pod"}  # the former is newer
    used = [call for call in CALLS if call.name not in without]

    async def story() -> None:
        async with under_way(tmp_path, release="24.11") as ground:
            cells = [(row.fault, call) for row, call in chosen(part, of=used)]
            await _played(ground, cells, times=1)

    run(story())


@pytest.mark.parametrize("server", list(Server))
@pytest.mark.parametrize(
    "fault",
    [
        faults.refused,
        faults.reset_before,
        faults.silence_before,
        faults.garbage,
        faults.wrong_type,
        faults.other_json,
        faults.status(401),
        faults.status(403),
        faults.status(404),
        faults.status(429, retry_after=True),
        faults.status(503),
        faults.status(511),
    ],
    ids=lambda fault: str(getattr(fault, "__name__", fault)),
)
def test_nothing_is_lost_by_an_outage(fault: Fault, server: Server, tmp_path: Path) -> None:
    async def story() -> None:
        async with under_way(tmp_path) as ground:
            await outage(ground, fault, server)
            await ground.converge()

    run(story())
