"""A real fault makes each alert fire, and the remedy of its runbook ends it.

No other alert may fire at the same time, because it would send people to the wrong runbook.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
from pathlib import Path
from typing import Final

import pytest

from tests.stories.monitoring.conftest import POLICY, Site
from tests.support import rights
from tests.support.handover import cancel_placeholder, let_stop, next_job, running_pod
from tests.support.hooks import hooks_on
from tests.support.monitoring import Monitor
from tests.support.world import World

pytestmark = pytest.mark.live

_P: Final = "SlurmPodScheduler"
_HOME: Final = "slurm-pod-scheduler"


async def test_scheduler_down_then_with_a_wrong_setting(world: World, monitor: Monitor) -> None:
    await asyncio.to_thread(world.scheduler.stop)
    await monitor.fires(f"{_P}Down")
    world.scheduler.add_flags("--slurm-kill-wait=120s")
    await asyncio.to_thread(world.scheduler.start)
    await monitor.silent(f"{_P}Down")
    await monitor.fires(f"{_P}KillWaitMismatch")
    await asyncio.to_thread(world.scheduler.stop)
    world.scheduler.add_flags("--slurm-kill-wait=30s")
    await asyncio.to_thread(world.scheduler.start)
    await monitor.silent()


async def test_lease_that_somebody_else_holds(world: World, monitor: Monitor) -> None:
    await _take_lease(world)
    holding = asyncio.create_task(_hold_lease(world), name="lease")
    await asyncio.to_thread(world.scheduler.stop)
    world.scheduler.add_flags("--leader-elect", f"--leader-elect-resource-namespace={_HOME}")
    await asyncio.to_thread(world.scheduler.start)
    try:
        await monitor.silent(f"{_P}Down")  # a slow start may have raised it
        await world.create()
        await monitor.fires(f"{_P}NoLeader")
        assert "stands by, somebody-else leads" in world.scheduler.role
    finally:
        holding.cancel()
        await world.kube.patch("leases", _HOME, {"spec": {"holderIdentity": ""}}, namespace=_HOME)
    await world.running()
    await monitor.silent()
    await world.kube.delete("leases", _HOME, namespace=_HOME)


async def _take_lease(world: World) -> None:
    """Take the Lease, which may exist already: a scheduler that stops in order leaves it there."""
    body = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": _HOME, "namespace": _HOME},
        "spec": {"holderIdentity": "somebody-else", "leaseDurationSeconds": 15},
    }
    await world.kube.apply(body)


async def _hold_lease(world: World) -> None:
    """Renew the Lease as another running program would."""
    for transitions in itertools.count():
        patch = {"spec": {"leaseTransitions": transitions}}
        await world.kube.patch("leases", _HOME, patch, namespace=_HOME)
        await asyncio.sleep(0.5)


async def test_pods_and_policy_that_are_wrong(world: World, monitor: Monitor, site: Site) -> None:
    partition = world.cluster.high_partition
    await world.set_partition(partition, state="DOWN")
    await world.create("stuck", slurm={"partition": partition})
    await world.create("refused", slurm={"partition": "nowhere"})
    site.policy.write_text("rules: [{name: stories, allowed: {timeout: {max: soon}}}]")
    await monitor.fires(f"{_P}PodsStuck", f"{_P}PodsRefused", f"{_P}PolicyOutdated")
    # `kubectl describe` shows what to do.
    assert "PartitionDown" in await world.message_with("PartitionDown", name="stuck")
    assert "nowhere" in await world.message_with("nowhere", name="refused")
    await world.set_partition(partition)
    await world.edit("refused", partition=world.cluster.partition)
    site.policy.write_text(POLICY)
    await monitor.silent()
    await world.running("stuck")
    await world.running("refused")


async def test_right_that_is_missing(world: World, monitor: Monitor) -> None:
    await rights.grant(world.kube, without="pods/binding")
    await world.create()
    await monitor.fires(f"{_P}Forbidden")
    await rights.grant(world.kube)
    await monitor.silent()
    await world.running()


@pytest.mark.slow
async def test_token_that_nobody_renews(world: World, monitor: Monitor, site: Site) -> None:
    await world.create()
    await world.running()
    site.renew(seconds=30)
    await monitor.fires(f"{_P}TokenExpiring")
    await monitor.fires(f"{_P}TokenExpiring", f"{_P}TokenRefused", f"{_P}NoAnswerFromSlurm")
    site.renew()
    await monitor.silent()
    world.unharmed(await world.running())


async def test_slurmrestd_that_hangs(world: World, monitor: Monitor, site: Site) -> None:
    await world.create()
    await world.running()
    site.slurm.freeze("slurmrestd")
    try:
        await world.delete()
        await world.create("later")
        await monitor.fires(
            f"{_P}NoAnswerFromSlurm", f"{_P}PlaceholdersLeft", f"{_P}SlurmSlow", f"{_P}PodsInDoubt"
        )
    finally:
        await world.cluster.stop("slurmrestd", kill=True)
        await world.cluster.start("slurmrestd")
    await monitor.silent()
    await world.running("later")


async def test_api_server_that_is_gone(world: World, monitor: Monitor) -> None:
    await world.create()
    pod = await world.running()
    await world.cluster.stop("kube-apiserver")
    try:
        await monitor.fires(f"{_P}NoAnswerFromKubernetes")
    finally:
        await world.cluster.start("kube-apiserver")
    await monitor.silent()
    world.unharmed(pod)


@pytest.mark.slow
async def test_pod_that_does_not_leave_its_node(world: World, monitor: Monitor) -> None:
    # The hook asks again every three seconds, so a wait without success lasts three seconds.
    with hooks_on(world.cluster, world.scheduler.hooks_url, UNREACHABLE_SECONDS=3):
        pod = await running_pod(world, stop_seconds=600)
        following = await next_job(world, pod)
        await cancel_placeholder(world, pod)
        await monitor.fires(f"{_P}GuardWaits")
        await let_stop(world)
        await world.job_ended(following, state="COMPLETED")
    await monitor.silent()


async def test_pods_that_all_lose_their_node(world: World, monitor: Monitor) -> None:
    names = [f"many-{number}" for number in range(6)]
    node = world.cluster.nodes[0]
    for name in names:
        await world.create(name, cpus="1", memory="100Mi", slurm={"required-nodes": node})
    for name in names:
        await world.running(name)
    await world.set_node(node, "DOWN")
    await monitor.fires(f"{_P}Brake")
    # The node is really down, so the pods go after the brake's pause.
    for name in names:
        await world.gone(name)
    await monitor.silent()


async def test_external_jobs_without_a_guard(world: World, monitor: Monitor) -> None:
    await asyncio.to_thread(world.scheduler.stop)
    world.scheduler.add_flags("--placeholder-mode=external")
    await asyncio.to_thread(world.scheduler.start)
    await monitor.silent(f"{_P}Down")  # a slow start may have raised it
    await monitor.fires(f"{_P}Unguarded")
    with hooks_on(world.cluster, world.scheduler.hooks_url):
        await world.create()
        await world.running()
        await monitor.silent()


async def test_scheduler_without_a_cpu(world: World, monitor: Monitor) -> None:
    throttled = asyncio.create_task(_throttle(world.scheduler.pid), name="throttle")
    try:
        await monitor.fires(f"{_P}Stalls")
    finally:
        throttled.cancel()
        os.kill(world.scheduler.pid, signal.SIGCONT)
    _prefer(world.scheduler.pid)
    await monitor.silent(f"{_P}Stalls")


async def _throttle(pid: int) -> None:
    """Act like a CPU limit: let the process run only in a part of each period."""
    while True:
        os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(0.12)
        os.kill(pid, signal.SIGCONT)
        await asyncio.sleep(0.3)


def _prefer(pid: int) -> None:
    """Give the process priority over everything else on the machine."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.setpriority(os.PRIO_PROCESS, int(thread.name), -15)


def test_no_alert_is_without_a_fault() -> None:
    from tests.support.alerts import rules

    text = Path(__file__).read_text(encoding="utf-8")
    left = [it["alert"] for it in rules() if f"{{_P}}{it['alert'].removeprefix(_P)}" not in text]
    assert left == []
