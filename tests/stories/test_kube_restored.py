"""etcd is restored from an older backup, so Kubernetes has lost everything that came after it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import pytest

from tests.stories.clusters import LIVE, told_on
from tests.support import pods
from tests.support.live import LiveCluster
from tests.support.world import World

pytestmark = [
    pytest.mark.live_on("26.05"),
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.timeout(400),
]

# One minute for which the versions must be older, plus the longest pause between two looks.
_NOTICED_SECONDS: Final = 150
_STAYS: Final = ("stays-0", "stays-1")


cluster = told_on(*LIVE)


async def test_older_backup_harms_no_pod_that_is_in_it(
    world: World, cluster: LiveCluster, tmp_path: Path
) -> None:
    for rule in ("I3", "I5", "I6"):
        world.audit.accepted[rule] = "the audit log tells of what the API server has forgotten"
    filler = await world.fill(leave_cpus=8)
    stays = await world.small_ones(*_STAYS)
    await world.create("late", cpus="32")
    await world.waiting("late")
    await world.small_ones("went")
    went = await world.placeholder(await world.running("went"))
    await cluster.back_up_kubernetes(tmp_path / "backup")

    await world.delete("went")
    await world.gone("went")
    await world.job_ended(went.job_id)
    await world.end_native(filler)
    late = await world.running("late")
    held = await world.placeholder(late)
    newer = await world.placeholder((await world.small_ones("newer"))[0])

    await cluster.restore_kubernetes(tmp_path / "backup")
    assert await asyncio.to_thread(world.scheduler.ended, seconds=_NOTICED_SECONDS) == 1
    assert "was restored from a backup" in world.scheduler.log.read_text(encoding="utf-8")
    await asyncio.to_thread(world.scheduler.start)

    bound = await world.bound("late")
    assert pods.node_of(bound) == pods.node_of(late)
    assert (await world.placeholder(bound)).job_id == held.job_id
    await world.job_ended(newer.job_id)
    await world.event("PlaceholderCancelled", name="went")
    await world.delete("went")
    await world.gone("went")
    world.unharmed(*stays)
    jobs = await world.one_placeholder_each()
    assert {job.tag["unit"] for job in jobs.values()} == {*_STAYS, "late"}
