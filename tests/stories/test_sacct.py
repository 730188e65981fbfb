"""What Slurm's users see of pods in its accounting, and how pods fare without slurmdbd."""

from __future__ import annotations

import asyncio

import pytest

from tests.rigs.slurm import SlurmRig
from tests.support import pods
from tests.support.cluster import Cluster
from tests.support.live import LiveCluster
from tests.support.world import World

pytestmark = [pytest.mark.live, pytest.mark.xdist_group("accounts")]


@pytest.fixture(params=["26", "24"], ids=["live-26.05", "live-24.11"])
def slurm(request: pytest.FixtureRequest) -> SlurmRig:
    """A Slurm of each release with slurmdbd."""
    found: SlurmRig = request.getfixturevalue(f"live_accounted_slurm_{request.param}")
    return found


@pytest.fixture
def cluster(request: pytest.FixtureRequest, slurm: SlurmRig) -> Cluster:
    """The cluster of that Slurm."""
    found: LiveCluster = request.getfixturevalue(f"live_accounted_{slurm.major[:2]}")
    return found


@pytest.mark.parametrize(
    ("annotations", "told"),
    [
        ({"sandbox/run-seconds": "0"}, "pod Succeeded"),
        (
            {"sandbox/run-seconds": "0", "sandbox/exit-code": "3"},
            "pod Failed: container main exit 3",
        ),
    ],
    ids=["succeeded", "failed"],
)
async def test_outcome_of_a_finished_pod_is_seen_with_sacct(
    world: World, slurm: SlurmRig, annotations: dict[str, str], told: str
) -> None:
    asked = {"comment": "mine"}
    await world.create(slurm=asked, annotations=annotations, restartPolicy="Never")
    job = await world.submitted()
    assert await _accounted(world, slurm, job.job_id) == ("CANCELLED by 0", "0:0", f"mine; {told}")
    assert f'"outcome":"{told}"' in slurm.call(*_SACCT, "AdminComment%300", "-j", str(job.job_id))


async def test_deletion_of_a_pod_is_seen_with_sacct(world: World, slurm: SlurmRig) -> None:
    await world.create()
    job = await world.placeholder(await world.running())
    await world.delete()
    state, _, comment = await _accounted(world, slurm, job.job_id)
    assert state == "CANCELLED by 0"
    assert comment.startswith("pod deleted")


async def test_pods_come_and_go_while_slurmdbd_is_away(world: World, slurm: SlurmRig) -> None:
    await world.create("before")
    before = await world.running("before")
    await world.cluster.stop("slurmdbd")
    try:
        await world.create()
        job = await world.placeholder(await world.running())
        await world.delete()
        await world.gone()
        await world.job_ended(job.job_id)
    finally:
        await world.cluster.start("slurmdbd")
    state, _, comment = await _accounted(world, slurm, job.job_id)
    assert (state, comment.startswith("pod deleted")) == ("CANCELLED by 0", True)
    world.unharmed(before)
    assert pods.phase(await world.running("before")) == "Running"


_SACCT = ("sacct", "--allocations", "--noheader", "--parsable2", "-o")


async def _accounted(world: World, slurm: SlurmRig, job_id: int) -> tuple[str, str, str]:
    """State, exit code and comment of the job, once slurmdbd knows its end."""
    command = (*_SACCT, "State%30,ExitCode,Comment%300", "-j", str(job_id))

    async def ended() -> str:
        line = (await asyncio.to_thread(slurm.call, *command)).strip()
        return line if line.startswith("CANCELLED") else ""

    line = await world.until(f"slurmdbd has the end of job {job_id}", ended)
    state, code, comment = line.split("|", 2)
    return state, code, comment
