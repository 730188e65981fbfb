"""Since when the slurmctld that answers is the one of before, and how long it remembers jobs."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from scheduler.core.event_reasons import Reason
from scheduler.nodes.node_allocations import NodeAllocations
from scheduler.slurm.slurmctld import Slurmctld
from slurmapi import SlurmClient, SlurmUnreachable
from tests.unit.service.tiny_slurm import WITHOUT_CONF, TinySlurm

pytestmark = pytest.mark.looptime


class Stage:
    """What is known of one slurmctld, and what was said of it."""

    def __init__(self, slurm: TinySlurm) -> None:
        self.slurm = slurm
        self.failed_at: float | None = None
        self.warnings: list[tuple[Reason, str]] = []
        self.slurmctld = Slurmctld(
            cast("SlurmClient", slurm),
            failed_at=lambda: self.failed_at,
            warn=lambda reason, message: self.warnings.append((reason, message)),
            clock=asyncio.get_running_loop().time,
        )


def now() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize("ahead", [-3600, 0, 3600])
async def test_boot_is_placed_by_slurms_own_clock(slurm, ahead):
    stage = Stage(slurm)
    stage.slurm.ahead = ahead
    stage.slurm.boot_time = stage.slurm.now() - 300
    await stage.slurmctld.ask()
    assert now() - stage.slurmctld.doubted_at == pytest.approx(300, abs=2)


async def test_boot_seems_later_where_slurms_clock_was_set_back_since(slurm):
    stage = Stage(slurm)
    stage.slurm.boot_time = stage.slurm.now() - 300
    stage.slurm.ahead = -3600
    await stage.slurmctld.ask()
    assert stage.slurmctld.doubted_at == pytest.approx(now(), abs=2)


async def test_boot_that_was_seen_to_change_came_after_the_last_look(slurm):
    """Whatever the two clocks say."""
    stage = Stage(slurm)
    await stage.slurmctld.ask()
    await asyncio.sleep(30)
    asked_at = now()
    await stage.slurmctld.ask()
    await asyncio.sleep(30)
    stage.slurm.boot_time = 2000  # long ago, by our clock
    await stage.slurmctld.ask()
    assert asked_at <= stage.slurmctld.doubted_at <= now()


async def test_silence_counts_only_where_no_boot_is_told(slurm):
    stage = Stage(slurm)
    await stage.slurmctld.ask()
    stage.failed_at = now()
    assert stage.slurmctld.doubted_at < stage.failed_at
    stage.slurm.version = WITHOUT_CONF
    await asyncio.sleep(5)
    await stage.slurmctld.ask()
    assert stage.slurmctld.doubted_at == stage.failed_at


async def test_short_min_job_age_is_warned_of_once(slurm):
    stage = Stage(slurm)
    stage.slurm.min_job_age = 30
    for _ in range(3):
        await stage.slurmctld.ask()
        await asyncio.sleep(5)
    ((reason, message),) = stage.warnings
    assert reason is Reason.MIN_JOB_AGE_SHORT
    assert "MinJobAge is 30 s" in message
    assert stage.slurmctld.min_job_age == 30


@pytest.mark.parametrize("seconds", [60, 0])
async def test_min_job_age_of_a_minute_or_without_end_is_no_matter(slurm, seconds):
    stage = Stage(slurm)
    stage.slurm.min_job_age = seconds
    await stage.slurmctld.ask()
    assert stage.warnings == []


async def test_controller_that_does_not_answer_tells_nothing(slurm):
    stage = Stage(slurm)
    stage.slurm.fail["ping"].append(SlurmUnreachable("away"))
    with pytest.raises(SlurmUnreachable):
        await stage.slurmctld.ask()
    assert stage.slurmctld.boot is None


async def test_looks_at_nodes_are_bounded_however_many_ask(slurm):
    slurm.comments |= {f"n{number}": "" for number in range(1000)}
    slurm.allocated |= dict.fromkeys(slurm.comments, 0)
    allocations = NodeAllocations(cast("SlurmClient", slurm), clock=asyncio.get_running_loop().time)
    for _ in range(100):
        for name in slurm.comments:
            await allocations.of(name)
        await asyncio.sleep(0.1)
    assert 40 <= slurm.calls["node"] <= 85, "eight a second in ten seconds at most"


async def test_one_look_serves_all_pods_of_a_node(slurm):
    allocations = NodeAllocations(cast("SlurmClient", slurm), clock=asyncio.get_running_loop().time)
    found = [await allocations.of("n1") for _ in range(50)]
    assert slurm.calls["node"] == 1
    assert {it and it.name for it in found} == {"n1"}
    assert await allocations.of("") is None
