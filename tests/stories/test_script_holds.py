"""A script placeholder holds its node until the pod is gone, with real slurmds."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Final

import pytest

from tests.stories.clusters import LIVE, told_on
from tests.support import pods
from tests.support.handover import ended_when_told, next_job, script_begun
from tests.support.hooks import flags_for_scripts
from tests.support.kube import Object
from tests.support.live import LiveCluster
from tests.support.world import World

pytestmark = pytest.mark.live

_STOP_SECONDS: Final = 5
_KILL_WAIT_SECONDS: Final = 30
_CLEAR: Final = """#!/bin/sh
rm -f /tmp/slurm-*.out
"""
_TRAP: Final = """#!/bin/sh
umask 077
for ahead in $(seq 20); do : >"/tmp/slurm-$((SLURM_JOB_ID + ahead)).out" || exit 1; done
"""
_LINKS: Final = """#!/bin/sh
for ahead in $(seq 20); do ln -s {file} "{folder}/slurm-$((SLURM_JOB_ID + ahead)).out"; done
"""


cluster = told_on(*LIVE)


@pytest.fixture
def scheduler_flags(tmp_path: Path) -> tuple[str, ...]:
    """Placeholders ask the hooks API; Slurm's own hooks are off."""
    return flags_for_scripts(tmp_path)


async def test_node_of_a_cancelled_placeholder_is_free_when_its_pod_has_stopped(
    world: World,
) -> None:
    pod, job_id = await _running_pod(world)
    node = str(pods.node_of(pod))
    following = await next_job(world, pod)
    await world.slurm.cancel(job_id)
    await _pending_while_the_pod_is_there(world, following)
    await ended_when_told(world, following, state="COMPLETED")
    await _in_service(world, node)


async def test_first_node_of_a_gang_is_free_when_its_pods_have_stopped(world: World) -> None:
    nodes = world.cluster.nodes_for_scripts[:2]
    said = {
        "gang": "duo",
        "gang-size": "2",
        "partition": world.cluster.script_partition,
        "required-nodes": ",".join(nodes),
    }
    # The pod with rank 0 is on the first node, where the script runs, and stops last.
    for rank, (name, seconds) in enumerate((("train", _STOP_SECONDS), ("second", 1))):
        await world.create(
            name,
            cpus=str(world.cluster.cpus_per_node),
            grace=20,
            slurm={**said, "gang-rank": str(rank)},
            annotations={"sandbox/stop-seconds": str(seconds)},
        )
    pod = await world.running()
    await world.running("second")
    assert pods.node_of(pod) == nodes[0]
    job_id = (await script_begun(world, pod)).job_id
    following = await next_job(world, pod)
    await world.slurm.cancel(job_id)
    await _pending_while_the_pod_is_there(world, following)
    await ended_when_told(world, following, state="COMPLETED")
    await _in_service(world, nodes[0])


async def test_deleted_pod_leaves_at_once(world: World) -> None:
    pod, job_id = await _running_pod(world)
    await world.delete()
    await world.gone()
    await ended_when_told(world, job_id, state="CANCELLED")
    await _in_service(world, str(pods.node_of(pod)))


@pytest.mark.slow
async def test_without_a_scheduler_the_node_is_held_for_kill_wait(world: World) -> None:
    pod, job_id = await _running_pod(world)
    node = str(pods.node_of(pod))
    world.scheduler.kill()
    cancelled_at = time.monotonic()
    await world.slurm.cancel(job_id)
    await world.job_ended(job_id, state="CANCELLED")
    # There is no upper bound: the time that Slurm needs after KillWait is not ours to test. Without
    # KillWait the script would hold the node for ever.
    assert time.monotonic() - cancelled_at > _KILL_WAIT_SECONDS - 3
    world.scheduler.start()
    await _in_service(world, node)


async def test_placeholder_says_that_it_has_started(world: World) -> None:
    _pod, job_id = await _running_pod(world)
    record = await world.slurm.job(job_id)
    assert record is not None
    assert record.raw["extra"].endswith(": started")


async def test_file_in_the_place_of_its_output_stops_no_placeholder(world: World) -> None:
    """Job ids are predictable, and on a node everybody may write to /tmp."""
    # Ids repeat after Slurm has lost its state, and alice cannot replace the files of root's jobs.
    partition = world.cluster.script_partition
    cleared = await world.native_job(flags=[], script=_CLEAR, partition=partition)
    await world.job_ended(cleared, state="COMPLETED")
    trap = await world.native_job(flags=[], script=_TRAP, partition=partition, user="alice")
    await world.job_ended(trap, state="COMPLETED")
    await world.create(slurm={"partition": partition, "user-id": "2002", "group-id": "2002"})
    job = await world.placeholder(await world.running())
    assert trap < job.job_id <= trap + 20


async def test_link_in_the_working_directory_is_not_followed(world: World) -> None:
    """slurmd opens a script's output as the job's user, here root, and truncates the file."""
    partition = world.cluster.script_partition
    folder = f"/tmp/links-{world.namespace}"
    file = f"{folder}-kept"
    mine = f"#!/bin/sh\nmkdir -m 755 {folder} && chown alice {folder}\n"
    mine += f"umask 077; echo kept >{file}\n"
    owner = await world.native_job(flags=[], script=mine, partition=partition)
    await world.job_ended(owner, state="COMPLETED")
    links = _LINKS.format(file=file, folder=folder)
    planted = await world.native_job(flags=[], script=links, partition=partition, user="alice")
    await world.job_ended(planted, state="COMPLETED")
    await world.create(slurm={"partition": partition, "current-working-dir": folder})
    job = await script_begun(world, await world.running())
    assert planted < job.job_id <= planted + 20
    assert job.raw["current_working_directory"] == folder
    assert isinstance(world.cluster, LiveCluster)
    assert await world.cluster.read(file) == "kept\n"


async def _running_pod(world: World) -> tuple[Object, int]:
    """A pod that takes a whole node and stops slowly, and its job's id, once its script runs."""
    await world.create(
        cpus=str(world.cluster.cpus_per_node),
        grace=20,
        slurm={"partition": world.cluster.script_partition},
        annotations={"sandbox/stop-seconds": str(_STOP_SECONDS)},
    )
    pod = await world.running()
    return pod, (await script_begun(world, pod)).job_id


async def _pending_while_the_pod_is_there(world: World, job_id: int) -> None:
    async with asyncio.timeout(60):
        while True:
            record = await world.slurm.job(job_id)
            assert record is not None
            pod = await world.kube.find("pods", "train", namespace=world.namespace)
            # The kubelet reports the end first, and removes the pod in a later request.
            if pod is None or pods.has_ended(pod):
                return
            assert record.states == ("PENDING",), record
            await asyncio.sleep(0.05)


async def _in_service(world: World, node: str) -> None:
    """Wait until the node is idle. It must not be drained for a step that outlives its signal."""

    async def idle() -> bool:
        answer = await world.slurm.ask("GET", f"node/{node}")
        (seen,) = answer.body["nodes"]
        assert not {"DRAIN", "DOWN"} & set(seen["state"]), seen
        return bool(seen["state"][0] == "IDLE")

    await world.until(f"{node} is idle", idle)
