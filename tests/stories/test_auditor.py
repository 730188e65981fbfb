"""The auditor finds violations that a test commits as the scheduler, on models and real servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import msgspec
import pytest

from tests.audit.judge import Limits, Violation
from tests.support import pods
from tests.support.cluster import Cluster
from tests.support.kube import Kube
from tests.support.live import LiveCluster
from tests.support.slurm import Record
from tests.support.world import World

_HERE = "the test has done it itself"


@pytest.fixture
async def mask(cluster: Cluster) -> AsyncIterator[Kube]:
    """A client whose user agent makes the API server record it as the scheduler."""
    async with Kube(
        cluster.kube_url,
        token=cluster.kube_token,
        ca=cluster.kube_ca,
        agent="slurm-pod-scheduler/0",
    ) as client:
        yield client


@pytest.fixture
async def still(world: World) -> World:
    """The world with its scheduler stopped."""
    await asyncio.to_thread(world.scheduler.stop)
    return world


async def test_placeholder_cancelled_under_a_running_pod(world: World) -> None:
    # Kubelets report the end of containers in whole seconds, so it must be in a later second.
    await world.create(grace=20, annotations={"sandbox/stop-seconds": "2"})
    pod = await world.running()
    await asyncio.to_thread(world.scheduler.stop)
    job = await world.placeholder(pod)  # an old look at it would be a breach of its own (I14)
    await world.slurm.ask("DELETE", f"job/{job.job_id}", user="root")
    await asyncio.to_thread(world.scheduler.start)
    await world.gone()
    found = await _found(world, "I5", "I6")
    assert f"job {job.job_id} was cancelled" in str(found[0])


async def test_placeholder_cancelled_by_another_user(world: World) -> None:
    await world.create()
    job = await world.placeholder(await world.running())
    await world.slurm.cancel(job.job_id)
    await world.gone()
    assert await world.audit.violations() == []


async def test_pod_bound_to_a_node_that_its_placeholder_does_not_hold(
    world: World, mask: Kube
) -> None:
    await world.fill()
    await world.create()
    await world.waiting()
    await mask.bind("train", world.cluster.nodes[0], namespace=world.namespace)
    await world.running()
    await world.delete()
    await world.gone()
    await world.nothing_left()
    await _found(world, "I2")


async def test_pod_bound_again(world: World, mask: Kube) -> None:
    await world.create()
    node = pods.node_of(await world.running())
    with pytest.raises(Exception, match="409"):
        await mask.bind("train", str(node), namespace=world.namespace)
    await world.delete()
    await world.gone()
    await world.nothing_left()
    await _found(world, "I3")


async def test_healthy_pod_deleted(world: World, mask: Kube) -> None:
    await world.create()
    await world.running()
    await mask.delete("pods", "train", namespace=world.namespace)
    await world.gone()
    await world.nothing_left()
    await _found(world, "I6")


@pytest.mark.flags("--brake-share=1")
async def test_more_pods_ended_at_once_than_a_brake_would_let_go(world: World) -> None:
    world.audit.limits = Limits(brake_minimum=2)
    names = [f"many-{number}" for number in range(4)]
    node = world.cluster.nodes[0]
    await world.small_ones(*names, slurm={"required-nodes": node})
    await world.set_node(node, "DOWN")
    for name in names:
        await world.gone(name)
    await _found(world, "I7")


async def test_foreign_job_changed(world: World) -> None:
    live = world.cluster if isinstance(world.cluster, LiveCluster) else None
    since = live.log_size() if live else 0
    native = await world.native_job(partition=world.cluster.partition)
    answer = await world.slurm.ask("POST", f"job/{native}", body={"comment": "x"}, user="root")
    assert answer.ok
    if live:
        line = f"_slurm_rpc_update_job: complete JobId={native} "
        await world.until("slurmctld has logged it", partial(live.logged, line, since=since))
    await _found(world, "I8")


async def test_twin_that_runs_and_is_left(still: World) -> None:
    """Slurm's own guard against twins works by job name. These twins have different names."""
    tag = {
        "v": 1,
        "cluster": next(iter(still.audit.clusters)),
        "scheduler": next(iter(still.audit.schedulers)),
        "namespace": still.namespace,
        "unit": "train",
        "uids": ["0000-no-such-pod"],
    }
    where = {
        "partition": still.cluster.partition,
        "admin_comment": msgspec.json.encode(tag).decode(),
    }
    twins = [await still.native_job(name, **where) for name in ("one", "other")]
    for job_id in twins:
        await still.until("it runs", lambda job_id=job_id: _runs(still, job_id))  # type: ignore[misc]
    await _found(still, "I1", "I4")
    for job_id in twins:
        await still.end_native(job_id)


async def _found(world: World, *rules: str) -> list[Violation]:
    """The violations that the auditor finds, sorted by rule. Exactly these rules must occur."""
    found = await world.audit.violations()
    assert sorted({it.rule for it in found}) == list(rules), "\n".join(map(str, found))
    world.audit.accepted.update(dict.fromkeys(rules, _HERE))
    return sorted(found, key=lambda it: it.rule)


async def _runs(world: World, job_id: int) -> Record | None:
    record = await world.slurm.job(job_id)
    return record if record is not None and record.states == ("RUNNING",) else None
