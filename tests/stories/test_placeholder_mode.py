"""`--placeholder-mode=auto`: external jobs if no other job can start too early, else scripts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.hooks import hooks_on, secret_file
from tests.support.world import World


@pytest.fixture
def scheduler_flags(tmp_path: Path) -> tuple[str, ...]:
    """The default mode, and a hooks API that no hook uses yet."""
    return (f"--hooks-api-token-file={secret_file(tmp_path)}", "--placeholder-mode=auto")


async def _is_external(world: World, name: str, partition: str) -> bool:
    await world.create(name, slurm={"partition": partition})
    job = await world.placeholder(await world.running(name))
    return "EXTERNAL_JOB" in job.raw["flags"]


async def test_nodes_with_a_slurmd_get_external_jobs_once_the_guard_has_asked(
    world: World,
) -> None:
    partition = world.cluster.script_partition
    assert not await _is_external(world, "early", partition)
    with hooks_on(world.cluster, world.scheduler.hooks_url):
        assert not await _is_external(world, "first", partition), "the guard asks at its start"
        has_external = world.cluster.placeholder_mode == "external"
        assert await _is_external(world, "second", partition) == has_external


async def test_nodes_without_a_slurmd_get_external_jobs_at_once(world: World) -> None:
    """In the real 26.05's default partition no node has a slurmd; the models' nodes have one."""
    without = world.cluster.name == "live-26.05"
    assert await _is_external(world, "train", world.cluster.partition) == without


async def test_waiting_pod_moved_to_nodes_of_the_other_kind_gets_a_job_of_the_other_form(
    world: World,
) -> None:
    former, partition = world.cluster.partition, world.cluster.script_partition
    if former == partition:
        pytest.skip("all nodes have a slurmd")
    await world.create(slurm={"partition": former, "hold": "true"})
    job = await world.placeholder(await world.waiting())
    assert "EXTERNAL_JOB" in job.raw["flags"]
    await world.edit(partition=partition, hold=None)
    await world.job_ended(job.job_id, state="CANCELLED")
    event = await world.event("PlaceholderLost")
    assert "another form of job is needed" in event["message"]
    anew = await world.placeholder(await world.running())
    assert (anew.raw["partition"], "EXTERNAL_JOB" in anew.raw["flags"]) == (partition, False)
