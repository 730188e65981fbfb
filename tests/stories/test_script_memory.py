"""Where Slurm enforces memory, the script of a placeholder has enough for itself, whatever its pod
asks for; on real slurmds that look at the processes of jobs once a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scheduler.placeholder import SCRIPT, SCRIPT_MEMORY_MIB
from tests.support.cluster import Cluster
from tests.support.handover import cancel_placeholder, script_begun
from tests.support.hooks import flags_for_scripts
from tests.support.live import LiveCluster
from tests.support.scheduler import SchedulerProcess
from tests.support.world import World

if TYPE_CHECKING:
    from tests.rigs.kube import KubeRig

pytestmark = [pytest.mark.live, pytest.mark.timeout(150)]


@pytest.fixture(params=["26.05", "24.11"], ids=lambda release: f"live-{release}")
def cluster(request: pytest.FixtureRequest, live_kube: KubeRig) -> Iterator[Cluster]:
    """A Slurm of the test's own."""
    from tests.rigs.slurm import SlurmRig
    from tests.rigs.slurm_build import ensure
    from tests.rigs.slurm_conf import SHAPES

    shape = replace(SHAPES[request.param], memory_enforced=True)
    with SlurmRig(ensure(request.param), shape=shape) as rig:
        yield LiveCluster(live_kube, rig)


@pytest.fixture
def scheduler(cluster: Cluster, tmp_path: Path) -> Iterator[SchedulerProcess]:
    """The scheduler with placeholders that ask its hooks API."""
    flags = flags_for_scripts(tmp_path)
    with SchedulerProcess(cluster, folder=tmp_path, flags=flags) as process:
        yield process


async def test_script_of_a_pod_of_one_mebibyte_holds_its_node_to_the_end(world: World) -> None:
    await world.create(
        memory="1Mi",
        grace=20,
        slurm={"partition": world.cluster.script_partition, "current-working-dir": "/tmp"},
        annotations={"sandbox/stop-seconds": "5"},
    )
    pod = await world.running()
    job = await script_begun(world, pod)
    assert job.number("memory_per_node") == SCRIPT_MEMORY_MIB
    await cancel_placeholder(world, pod)
    await world.gone()
    await world.job_ended(job.job_id, state="CANCELLED")
    assert isinstance(world.cluster, LiveCluster)
    output = await world.cluster.read(f"/tmp/slurm-{job.job_id}.out")
    assert "memory" not in output


async def test_same_script_with_less_memory_would_be_killed(world: World) -> None:
    world.audit.accepted["I8"] = "slurmd kills what has too much memory, as the user that we are"
    job_id = await world.native_job(
        flags=[],
        script=SCRIPT,
        standard_output="/tmp/slurm-%j.out",
        partition=world.cluster.script_partition,
        memory_per_node={"set": True, "number": 2},
    )
    record = await world.job_ended(job_id, state="FAILED")
    assert record.reason == "RaisedSignal"
    assert isinstance(world.cluster, LiveCluster)
    output = await world.cluster.read(f"/tmp/slurm-{job_id}.out")
    assert "exceeded memory limit" in output
