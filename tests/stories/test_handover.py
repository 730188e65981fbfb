"""Two jobs on one node: the second job's processes start when the first job's pod has stopped."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from annotations.grace import USUAL_GRACE
from tests.stories.test_gangs import all_run, one_job
from tests.support import pods
from tests.support.handover import (
    STOPS_WHEN_LET,
    cancel_placeholder,
    create_pod,
    fill_others,
    guards,
    let_stop,
    let_stop_when_a_guard_waits,
    next_job,
    next_job_comes_after,
    next_job_is_held,
    quick_job,
    running_pod,
    started_after_the_pod,
)
from tests.support.hooks import hooks_on, secret_file
from tests.support.kube import Object
from tests.support.ports import free_ports
from tests.support.world import World, waits_for_slurm


@pytest.fixture
def scheduler_flags(tmp_path: Path) -> tuple[str, ...]:
    """A hooks API that no hook uses yet."""
    return (f"--hooks-api-token-file={secret_file(tmp_path)}",)


async def test_script_of_the_next_job_starts_when_the_pod_has_stopped(world: World) -> None:
    with hooks_on(world.cluster, world.scheduler.hooks_url):
        await next_job_is_held(world)


async def test_script_on_the_second_node_of_a_gang_starts_when_the_pod_there_has_stopped(
    world: World,
) -> None:
    """The pod on the first node stops at once. In script mode the second node has no process of
    the gang's job, so Slurm gives it away as soon as the job has ended.
    """
    with hooks_on(world.cluster, world.scheduler.hooks_url):
        for rank, (name, seconds) in enumerate((("lead", 1), ("train", STOPS_WHEN_LET))):
            said = {"gang": "duo", "gang-size": "2", "gang-rank": str(rank)}
            await create_pod(world, name, stop_seconds=seconds, slurm=said)
        await world.running("lead")
        pod = await world.running("train")
        job = await world.placeholder(pod)
        assert job.nodes != pods.node_of(pod)  # it holds the node of the other, too
        await next_job_comes_after(world, pod)
    assert guards(world, "freed") == 1


async def test_next_pod_is_bound_when_the_one_before_has_stopped(world: World) -> None:
    with hooks_on(world.cluster, world.scheduler.hooks_url):
        await _second_pod_comes_after(world, let_stop_when_a_guard_waits)


async def test_next_pod_is_bound_when_the_one_before_has_stopped_without_any_hook(
    world: World,
) -> None:
    """Slurm gives the node away at once, so only the scheduler itself holds the pod back."""
    await _second_pod_comes_after(world, _let_stop_when_it_is_in_the_way)


async def _second_pod_comes_after(world: World, let: Callable[[World], Awaitable[None]]) -> None:
    """Cancel the job of a pod, and `let` the pod stop when it holds up the pod that waits for its
    node: that one is bound after it has ended.
    """
    pod = await running_pod(world, stop_seconds=STOPS_WHEN_LET)
    node = pods.node_of(pod)
    others = await fill_others(world, str(node))
    await create_pod(world, "second")
    await world.waiting("second")
    await cancel_placeholder(world, pod)
    await let(world)
    second = await world.bound("second")
    assert pods.node_of(second) == node
    await _ended_first(world)
    await world.end_native(others)


@pytest.mark.slow
async def test_no_pod_of_a_gang_is_bound_before_its_second_node_is_free(world: World) -> None:
    with hooks_on(world.cluster, world.scheduler.hooks_url):
        await _gang_comes_after(world, let_stop_when_a_guard_waits)
    assert guards(world, "freed") == 1


@pytest.mark.slow
async def test_no_pod_of_a_gang_is_bound_before_its_second_node_is_free_without_any_hook(
    world: World,
) -> None:
    """Slurm gives both nodes away at once, so only the scheduler itself holds the gang back."""
    await _gang_comes_after(world, _let_stop_when_it_is_in_the_way)


async def _gang_comes_after(world: World, let: Callable[[World], Awaitable[None]]) -> None:
    """A pod runs on the second of two nodes, and a gang waits for both. Slurm gives them to the
    gang when the pod's job is cancelled. `let` ends the pod when it holds up the gang, whose pods
    are bound after that.

    All of them want whole nodes of Slurm, and little of Kubernetes: both would fit on the Node.
    """
    nodes = world.cluster.nodes_for_scripts[:2]
    await _create_on(world, nodes[1])
    pod = await world.running()
    gang = pods.batch_job(
        2,
        name="duo",
        cpus="1",
        slurm=_whole_nodes(world, *nodes),
    )
    await world.kube.create("jobs", gang, namespace=world.namespace)
    job_id = await world.until("both pods of the gang wait", lambda: _waits_whole(world))
    await cancel_placeholder(world, pod)
    await let(world)
    ranked = await all_run(world, 2, app="duo")
    assert (await one_job(world, ranked)).job_id == job_id
    assert [pods.node_of(ranked[rank]) for rank in (0, 1)] == list(nodes)
    for member in ranked.values():
        await _ended_first(world, member["metadata"]["name"])


async def _create_on(world: World, node: str) -> None:
    """Create the pod `train`, which has this whole node in Slurm and stops when it is let."""
    await create_pod(world, cpus=1, stop_seconds=STOPS_WHEN_LET, slurm=_whole_nodes(world, node))


def _whole_nodes(world: World, *nodes: str) -> dict[str, str]:
    """Annotations of pods that share these nodes with no other job."""
    return {
        "partition": world.cluster.script_partition,
        "required-nodes": ",".join(nodes),
        "exclusive": "whole-node",
    }


async def _waits_whole(world: World) -> int | None:
    """The id of the one job that both pods of the gang wait for."""
    found = await world.kube.items("pods", namespace=world.namespace)
    waiting = [it for it in found if it["metadata"]["labels"]["app"] == "duo"]
    if len(waiting) < 2 or not all(map(waits_for_slurm, waiting)):
        return None
    (job_id,) = {pods.annotation(it, pods.JOB_ID) for it in waiting}
    return int(job_id or 0)


async def _let_stop_when_it_is_in_the_way(world: World) -> None:
    """Let the pod `train` stop once another pod says that it waits for that."""

    async def look() -> bool:
        found = await world.kube.items("pods", namespace=world.namespace)
        return any("may still run" in pods.why(it) for it in found)

    await world.until("another pod waits for the first", look)
    await let_stop(world)


@pytest.mark.slow
async def test_pod_with_the_usual_grace_period_is_served_where_the_guard_is_known(
    world: World,
) -> None:
    """Kubernetes' default is longer than KillWait allows (`--grace-policy=auto`). Where Slurm does
    not tell its PrologSlurmctld, the guard is known once a job has started.
    """
    with hooks_on(world.cluster, world.scheduler.hooks_url):
        first = await quick_job(world, world.cluster.nodes_for_scripts[0])
        await world.job_ended(first, state="COMPLETED")
        await world.create(
            cpus=str(world.cluster.cpus_per_node),
            grace=USUAL_GRACE,
            slurm={"partition": world.cluster.script_partition},
            annotations={"sandbox/stop-seconds": str(USUAL_GRACE)},
        )
        pod = await world.running()
        following = await next_job(world, pod)
        await cancel_placeholder(world, pod)
        leaving = await world.pod_that("is being deleted", pods.leaving)
        assert leaving["metadata"]["deletionGracePeriodSeconds"] == USUAL_GRACE
        await let_stop_when_a_guard_waits(world)
        await started_after_the_pod(world, following)


@pytest.mark.slow
async def test_restart_of_slurmctld_opens_no_node_before_it_is_free(world: World) -> None:
    """After the restart 26.05 does not ask the guard again, as if the guard had answered."""
    with hooks_on(world.cluster, world.scheduler.hooks_url):
        pod = await running_pod(world, stop_seconds=14)
        node = pods.node_of(pod)
        others = await fill_others(world, str(node))
        await create_pod(world, "second")
        await world.waiting("second")
        await cancel_placeholder(world, pod)
        await world.until("the next job is held back", lambda: _allocated(world, "second"))
        await world.cluster.stop("slurmctld")
        await world.cluster.start("slurmctld")
        second = await world.bound("second")
    assert pods.node_of(second) == node
    await _ended_first(world)
    await world.end_native(others)


async def _ended_first(world: World, other: str = "second") -> None:
    """Check that the first pod's containers had ended when the other pod was bound."""

    async def look() -> Object | None:
        return world.history.when_bound(other, name="train")

    first = await world.until("the watch has told of both", look)
    assert pods.has_ended(first), "both pods were on one node"


async def _allocated(world: World, name: str) -> bool:
    return (await world.submitted(name)).states[0] == "RUNNING"


async def test_job_beside_a_pod_that_stays_starts_at_once(world: World) -> None:
    with hooks_on(world.cluster, world.scheduler.hooks_url):
        pod = await running_pod(world, cpus=2)
        following = await next_job(world, pod, cpus=2)
        await world.job_ended(following, state="COMPLETED")
    assert guards(world, "freed") == 0
    world.unharmed(pod)


async def test_deleted_pod_leaves_a_node_that_is_free(world: World) -> None:
    with hooks_on(world.cluster, world.scheduler.hooks_url):
        pod = await running_pod(world)
        following = await next_job(world, pod)
        await world.delete()
        await started_after_the_pod(world, following)
    assert guards(world, "freed") == 0, "the placeholder itself held the node"


@pytest.mark.live_on("26.05")
async def test_job_starts_by_policy_when_nobody_answers(world: World) -> None:
    (closed,) = free_ports(1)
    nowhere = f"http://127.0.0.1:{closed}"
    with hooks_on(world.cluster, nowhere, UNREACHABLE_SECONDS=3):
        began = time.monotonic()
        job_id = await quick_job(world, world.cluster.nodes_for_scripts[0])
        await world.job_ended(job_id, state="COMPLETED")
        assert time.monotonic() - began > 2


@pytest.mark.live_on("26.05")
async def test_job_starts_by_policy_when_the_secret_is_wrong(world: World) -> None:
    with hooks_on(world.cluster, world.scheduler.hooks_url, TOKEN_FILE="/etc/hostname"):
        job_id = await quick_job(world, world.cluster.nodes_for_scripts[0])
        await world.job_ended(job_id, state="COMPLETED")


@pytest.mark.live_on("26.05")
async def test_settings_that_are_no_shell_hold_nobody_back(world: World) -> None:
    with hooks_on(world.cluster, world.scheduler.hooks_url, POLICY="'(((`"):
        job_id = await quick_job(world, world.cluster.nodes_for_scripts[0])
        await world.job_ended(job_id, state="COMPLETED")


async def test_job_starts_by_policy_when_a_pod_does_not_stop(world: World) -> None:
    # If the scheduler cannot look within the wait, the guard hears that nothing is known.
    with hooks_on(world.cluster, world.scheduler.hooks_url, WAIT_SECONDS=5):
        pod = await running_pod(world, stop_seconds=20)
        following = await next_job(world, pod)
        await cancel_placeholder(world, pod)
        await world.job_ended(following, state="COMPLETED")
    assert world.history.removed(pod["metadata"]["uid"]) is None
    assert guards(world, "busy") >= 1
    await world.kube.delete("pods", "train", namespace=world.namespace, grace_seconds=0)


@pytest.mark.live_on("26.05")
async def test_waiting_outlasts_a_restart_of_the_scheduler(world: World) -> None:
    with hooks_on(world.cluster, world.scheduler.hooks_url):
        pod = await running_pod(world, stop_seconds=8)
        following = await next_job(world, pod)
        await cancel_placeholder(world, pod)
        await world.pod_that("is being deleted", pods.leaving)
        world.scheduler.kill()
        world.scheduler.start()
        await started_after_the_pod(world, following)


@pytest.mark.live
async def test_policy_drain_takes_the_nodes_out_of_service(world: World) -> None:
    if not world.cluster.name.startswith("live"):
        pytest.skip("the model has no scontrol")
    (closed,) = free_ports(1)
    node = world.cluster.nodes_for_scripts[0]
    nowhere = f"http://127.0.0.1:{closed}"
    with hooks_on(world.cluster, nowhere, UNREACHABLE_SECONDS=1, POLICY="drain"):
        world.mend_later(node)
        job_id = await quick_job(world, node)
        await world.job_ended(job_id, state="COMPLETED")
    answer = await world.slurm.ask("GET", f"node/{node}")
    (seen,) = answer.body["nodes"]
    assert "DRAIN" in seen["state"]
    assert "slurm-pod-scheduler: no answer of" in seen["reason"]
