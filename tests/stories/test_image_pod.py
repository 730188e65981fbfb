"""The image runs as a pod on a real kubelet, under the RBAC of the manifests, and is replaced."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
import yaml

from tests.support import pods
from tests.support.cluster import Cluster
from tests.support.kube import Kube
from tests.support.scheduler_pod import ACCOUNT, NAMESPACE, SchedulerPod
from tests.support.world import World

if TYPE_CHECKING:
    from tests.rigs.kube import KubeRig
    from tests.rigs.node_real import RealNode

# The first of these tests may have to build the image within its time.
pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

RIGHTS: Final = Path(__file__).parents[2] / "deploy/manifests/rbac.yaml"
_IDLE_MIB: Final = 200.0


@pytest.fixture
def cluster(live_26_real: Cluster) -> Cluster:
    """The one cluster that has real containers."""
    return live_26_real


@pytest.fixture
async def scheduler(
    cluster: Cluster,
    kube: Kube,
    live_kube: KubeRig,
    live_real_node: RealNode,
    live_image: str,
    tmp_path: Path,
) -> AsyncIterator[SchedulerPod]:
    """The scheduler as a pod. Afterwards its cluster-wide rights are removed."""
    for body in yaml.safe_load_all(RIGHTS.read_text()):
        await kube.apply(body)
    pod = SchedulerPod(
        cluster, rig=live_kube, node=live_real_node.name, image=live_image, folder=tmp_path
    )
    try:
        await asyncio.to_thread(pod.start)
        yield pod
    finally:
        await asyncio.to_thread(pod.stop)
        await kube.delete("clusterrolebindings", ACCOUNT)


async def test_pod_of_the_image_binds_a_pod_whose_container_really_runs(
    world: World, live_real_node: RealNode
) -> None:
    await world.create_shell(live_real_node.image, "echo started; exec sleep 600", grace=1)
    pod = await world.running()
    assert pods.node_of(pod) == world.cluster.real_node
    job = await world.placeholder(pod)
    assert job.states == ("RUNNING",)
    await world.until("the container has spoken", lambda: _said(world, "started"))


async def test_pod_of_the_image_has_no_privilege(
    world: World, scheduler: SchedulerPod, kube: Kube
) -> None:
    status = _status(scheduler.pid)
    assert status["Uid"].split() == ["65532"] * 4
    assert {int(status[name], 16) for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb")} == {0}
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2", "no seccomp filter"
    root = next(line.split() for line in _mounts(scheduler.pid) if line.split()[4] == "/")
    assert root[5].split(",")[0] == "ro"
    # Its memory is that of an idle process.
    assert int(status["VmRSS"].split()[0]) / 1024 < _IDLE_MIB
    found = await kube.get("pods", scheduler.name, namespace=NAMESPACE)
    (container,) = found["status"]["containerStatuses"]
    assert container["restartCount"] == 0


async def test_next_pod_takes_over_and_running_pods_do_not_notice(
    world: World, scheduler: SchedulerPod, live_real_node: RealNode
) -> None:
    await world.create_shell(live_real_node.image, "exec sleep 600", grace=1)
    before = await world.running()
    # A container that exceeds its grace is killed, and then has another exit status.
    assert await asyncio.to_thread(scheduler.stop) == 0
    await world.create("meanwhile", grace=3)
    scheduler.name = "successor"
    await asyncio.to_thread(scheduler.start)
    after = await world.running("meanwhile")
    placeholders = await world.one_placeholder_each()
    assert set(placeholders) == {it["metadata"]["uid"] for it in (before, after)}
    world.unharmed(before)
    assert (await world.placeholder(before)).job_id == int(
        str(pods.annotation(before, pods.JOB_ID))
    )
    await world.delete()
    await world.gone()


async def _said(world: World, word: str) -> bool:
    return word in await world.kube.log("train", namespace=world.namespace)


def _status(pid: int) -> dict[str, str]:
    """The fields of /proc/PID/status, as in proc_pid_status(5)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def _mounts(pid: int) -> list[str]:
    """The lines of /proc/PID/mountinfo, as in proc_pid_mountinfo(5)."""
    return Path(f"/proc/{pid}/mountinfo").read_text().splitlines()
