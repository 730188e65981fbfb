"""If Slurm enforces memory limits, a placeholder's script has enough memory for itself, whatever
its pod requests. The real slurmds check the processes of jobs once a second, or use cgroups.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scheduler.execute.placeholder import SCRIPT, SCRIPT_MEMORY_MIB
from tests.rigs import cgroups
from tests.support.cluster import Cluster
from tests.support.handover import cancel_placeholder, script_begun
from tests.support.hooks import flags_for_scripts
from tests.support.live import LiveCluster
from tests.support.world import World

if TYPE_CHECKING:
    from tests.rigs.kube import KubeRig

pytestmark = [
    pytest.mark.live,
    pytest.mark.parametrize("release", ["26.05", "24.11"], ids=lambda it: f"live-{it}"),
]


@pytest.fixture
def cluster(release: str, live_kube: KubeRig) -> Iterator[Cluster]:
    """A Slurm of the test's own."""
    with _cluster(release, live_kube) as found:
        yield found


@contextmanager
def _cluster(release: str, kube: KubeRig, *, confined: bool = False) -> Iterator[Cluster]:
    from tests.rigs.slurm import SlurmRig
    from tests.rigs.slurm_build import ensure
    from tests.rigs.slurm_conf import SHAPES

    shape = replace(SHAPES[release], memory_enforced=not confined, memory_confined=confined)
    with SlurmRig(ensure(release), shape=shape) as rig:
        yield LiveCluster(kube, rig)


@pytest.fixture
def scheduler_flags(tmp_path: Path) -> tuple[str, ...]:
    """Placeholders ask the hooks API."""
    return flags_for_scripts(tmp_path)


async def test_script_of_a_pod_of_one_mebibyte_holds_its_node_to_the_end(world: World) -> None:
    await world.create(
        memory="1Mi",
        grace=20,
        slurm={"partition": world.cluster.script_partition},
        annotations={"sandbox/stop-seconds": "5"},
    )
    pod = await world.running()
    job = await script_begun(world, pod)
    assert job.number("memory_per_node") == SCRIPT_MEMORY_MIB
    await cancel_placeholder(world, pod)
    await world.gone()
    await world.job_ended(job.job_id, state="CANCELLED")


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


class TestConfined:
    """With cgroups, Slurm reports it if a cgroup has killed a process of the job."""

    @pytest.fixture
    def cluster(self, release: str, live_kube: KubeRig) -> Iterator[Cluster]:
        """A Slurm of the test's own, with cgroups."""
        if not cgroups.MEMORY.is_dir():
            pytest.skip("needs cgroup v1's memory controller")
        with _cluster(release, live_kube, confined=True) as found:
            yield found

    async def test_job_that_ran_out_of_memory_is_asked_for_again_where_its_pod_runs(
        self, world: World
    ) -> None:
        await world.create(memory="64Mi", slurm={"partition": world.cluster.script_partition})
        pod = await world.running()
        job = await script_begun(world, pod)
        assert isinstance(world.cluster, LiveCluster)
        await world.cluster.run_out_of_memory(job.job_id)
        await world.job_ended(job.job_id, state="OUT_OF_MEMORY")
        again = (await world.one_placeholder_each())[pod["metadata"]["uid"]]
        assert (again.job_id != job.job_id, again.raw["required_nodes"]) == (True, job.nodes)
        await world.event("PlaceholderLost")
        world.unharmed(pod)
