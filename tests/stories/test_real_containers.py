"""Story 2 with real containers: with a real kubelet, containerd and the kernel."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from tests.support import pods
from tests.support.cluster import Cluster
from tests.support.kube import Object
from tests.support.world import REAL_SECONDS, World

if TYPE_CHECKING:
    from tests.rigs.node_real import RealNode

pytestmark = pytest.mark.live

_GRACE = 8
_LONG_GRACE = 20
_DEAF = "trap '' TERM; echo started; while :; do sleep 1; done"
_POLITE = "trap 'sleep 2; exit 0' TERM; echo started; while :; do sleep 0.1; done"


@pytest.fixture
def cluster(live_26_real: Cluster) -> Cluster:
    """The one cluster that has real containers."""
    return live_26_real


async def test_job_ends_only_after_a_container_that_ignores_sigterm(
    world: World, live_real_node: RealNode
) -> None:
    await world.create_shell(live_real_node.image, _DEAF, grace=_GRACE)
    pod = await _started(world)
    assert pods.node_of(pod) == world.cluster.real_node
    job = await world.placeholder(pod)

    deleted_at = time.monotonic()
    await world.delete()
    while (record := await world.slurm.job(job.job_id)) is not None and record.live:
        ended_after = time.monotonic() - deleted_at
        assert ended_after < REAL_SECONDS, await world.picture()
        await asyncio.sleep(0.1)
    ended_after = time.monotonic() - deleted_at

    assert ended_after >= _GRACE, f"the job ended {ended_after} s after the deletion"
    await world.gone()
    await world.nothing_left()
    last = await world.removed(pod)
    assert _exit_code(last.pod) == 137


async def test_cancelled_job_ends_its_container_with_grace(
    world: World, live_real_node: RealNode
) -> None:
    await world.create_shell(live_real_node.image, _POLITE, grace=_LONG_GRACE)
    pod = await _started(world)
    job = await world.placeholder(pod)
    await world.slurm.cancel(job.job_id)
    await world.gone()
    last = await world.removed(pod)
    assert pods.condition(last.pod, "DisruptionTarget") is not None
    assert _exit_code(last.pod) == 0, "the container was not given its grace"


@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (3, "Failed")])
async def test_container_that_ends_leaves_no_job(
    world: World, live_real_node: RealNode, code: int, phase: str
) -> None:
    await world.create_shell(live_real_node.image, f"sleep 1; exit {code}", grace=_GRACE)
    job = await world.placeholder(await world.bound())
    pod = await world.pod_that(f"has {phase}", lambda it: pods.phase(it) == phase)
    assert _exit_code(pod) == code
    await world.job_ended(job.job_id, state="CANCELLED")


async def _started(world: World) -> Object:
    """The pod once its shell has set its traps. The kubelet reports it as running before that."""
    pod = await world.running()

    async def said() -> bool:
        return await world.kube.log("train", namespace=world.namespace) == "started\n"

    await world.until("the shell has started", said)
    return pod


def _exit_code(pod: Object) -> int | None:
    for status in pod["status"].get("containerStatuses", ()):
        if "terminated" in status["state"]:
            return int(status["state"]["terminated"]["exitCode"])
    return None
