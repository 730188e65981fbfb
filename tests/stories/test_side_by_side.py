"""Several schedulers in one Kubernetes, of one Slurm or of two, do not touch each other's pods."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support import pods
from tests.support.cluster import Cluster, release
from tests.support.scheduler import SchedulerProcess
from tests.support.slurm import SlurmHand
from tests.support.world import World

OTHER: Final = "other-scheduler"
ABSENT: Final = "nobody-has-made-this-namespace"


@pytest.fixture
def other(cluster: Cluster, tmp_path: Path, namespace: str) -> Iterator[SchedulerProcess]:
    """A scheduler with another name, which serves one namespace on the same Slurm, and one that
    does not exist.
    """
    folder = tmp_path / "other"
    folder.mkdir()
    flags = (f"--scheduler-name={OTHER}", f"--watch-namespace={namespace},{ABSENT}")
    with SchedulerProcess(cluster, folder=folder, flags=flags) as process:
        yield process


@pytest.mark.live_on("26.05")
async def test_two_schedulers_of_one_slurm_serve_each_its_own_name_and_scope(
    world: World, other: SchedulerProcess, elsewhere: str
) -> None:
    world.audit.schedulers.add(OTHER)
    await world.create("ours")
    await world.create("theirs", scheduler=OTHER)
    await world.kube.create("pods", pods.pod("out", scheduler=OTHER), namespace=elsewhere)
    ours, theirs = await world.running("ours"), await world.running("theirs")
    jobs = [await world.placeholder(pod) for pod in (ours, theirs)]
    lines = map(json.loads, other.log.read_text().splitlines())
    (warning,) = (it for it in lines if it["event"] == "watched namespaces do not exist")
    assert warning["namespaces"] == ABSENT
    assert [job.tag["scheduler"] for job in jobs] == ["slurm-scheduler", OTHER]

    # Each new process searches all of Slurm's jobs for placeholders that it may have left.
    for process in (world.scheduler, other):
        process.kill()
        process.start()
    await world.create("later")
    await world.running("later")
    world.unharmed(ours, theirs)
    assert [(await world.placeholder(pod)).job_id for pod in (ours, theirs)] == [
        job.job_id for job in jobs
    ]

    await world.slurm.cancel(jobs[1].job_id)
    await world.gone("theirs")
    world.unharmed(ours)
    out = await world.kube.get("pods", "out", namespace=elsewhere)
    assert "conditions" not in out["status"] or not pods.condition(out, "PodScheduled")
    assert await world.slurm.placeholders(elsewhere) == []
    await world.kube.delete("pods", "out", namespace=elsewhere)


class TestTwoSlurms:
    """One Kubernetes, a Slurm of each release, and a scheduler for each Slurm."""

    pytestmark = pytest.mark.live

    @pytest.fixture
    def cluster(self, live_26: Cluster) -> Cluster:
        return live_26

    @pytest.fixture
    def second(self, live_24: Cluster, tmp_path: Path) -> Iterator[SchedulerProcess]:
        folder = tmp_path / "second"
        folder.mkdir()
        flags = (f"--scheduler-name={OTHER}",)
        with SchedulerProcess(live_24, folder=folder, flags=flags) as process:
            yield process

    async def test_each_pod_gets_a_node_of_its_own_slurm(
        self, world: World, live_24: Cluster, second: SchedulerProcess
    ) -> None:
        slurm = SlurmHand(live_24.slurm_url, major=release(live_24), token=live_24.slurm_token)
        world.audit.elsewhere.add(OTHER)
        await world.create("first")
        await world.create("second", scheduler=OTHER)
        first, other = await world.running("first"), await world.running("second")
        assert pods.node_of(first) in world.cluster.nodes
        assert pods.node_of(other) in live_24.nodes
        for process in (world.scheduler, second):
            process.kill()
            process.start()
        assert len(await world.slurm.live_placeholders(world.namespace)) == 1
        (job,) = await slurm.live_placeholders(world.namespace)
        await slurm.cancel(job.job_id)
        await world.gone("second")
        world.unharmed(first)
