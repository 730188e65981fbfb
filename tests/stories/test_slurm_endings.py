"""Story 3: if Slurm ends a job, its pod gets the reason, ends with its grace, and is replaced."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.support import pods
from tests.support.handover import script_begun
from tests.support.kube import Object
from tests.support.live import LiveCluster
from tests.support.sandbox import SandboxCluster
from tests.support.slurm import Record
from tests.support.world import World

_GRACE = 4


@pytest.mark.anywhere
async def test_cancelled_job_evicts_its_pod(world: World) -> None:
    pod = await _running(world)
    job = await world.placeholder(pod)
    await world.slurm.cancel(job.job_id)
    await _evicted(world, pod, reason="PlaceholderCancelled", words=(f"{job.job_id}", "CANCELLED"))


@pytest.mark.anywhere
async def test_cancelled_job_of_a_waiting_pod_ends_the_pod(world: World) -> None:
    await world.fill()
    await world.create()
    pod = await world.waiting()
    job = await world.placeholder(pod)
    await world.slurm.cancel(job.job_id)
    await world.gone()
    last = world.history.removed(pod["metadata"]["uid"])
    assert last is None or pods.node_of(last.pod) is None


@pytest.mark.slow
async def test_time_limit_evicts_the_pod(world: World) -> None:
    await world.create(grace=_GRACE, slurm={"timeout": "60"})
    pod = await world.running()
    job = await world.placeholder(pod)
    assert job.number("time_limit") == 1
    # One minute is the shortest limit, and slurmctld checks time limits every 30 s.
    await world.removed(pod, seconds=150)
    await _evicted(world, pod, reason="TimeLimit", words=(f"{job.job_id}", "TIMEOUT"))


@pytest.mark.anywhere
async def test_preempted_job_evicts_its_pod(world: World) -> None:
    pod = await _running(world)
    job = await world.placeholder(pod)
    await world.preempt(pods.node_of(pod))
    await _evicted(world, pod, reason="Preempted", words=(f"{job.job_id}", "PREEMPTED"))


async def test_preempted_job_with_grace_time_gives_its_pod_what_is_left_of_it(
    world: World,
) -> None:
    pod = await _running(world, grace=20, partition=world.cluster.grace_partition)
    job = await world.placeholder(pod)
    await world.preempt(pods.node_of(pod))
    await world.removed(pod)
    _told(world, pod, reason="Preempted", words=(f"{job.job_id}", "GraceTime"))
    given = _given_grace(world)
    assert 0 < given < 15, "the grace partition gives 15 s"


async def test_preempted_job_with_grace_time_leaves_a_short_grace_as_it_is(world: World) -> None:
    pod = await _running(world, grace=1, partition=world.cluster.grace_partition)
    await world.preempt(pods.node_of(pod))
    await world.removed(pod)
    _told(world, pod, reason="Preempted", words=("GraceTime",))
    assert _given_grace(world) == 1


@pytest.mark.anywhere
async def test_node_set_down_evicts_its_pod(world: World) -> None:
    pod = await _running(world)
    job = await world.placeholder(pod)
    await world.set_node(job.nodes, "DOWN")
    await _evicted(world, pod, reason="NodeFailed", words=(f"{job.job_id}", "NODE_FAIL"))


async def test_drained_node_keeps_its_pod(world: World) -> None:
    pod = await _running(world)
    job = await world.placeholder(pod)
    await world.set_node(job.nodes, "DRAIN")
    await _unharmed_by_now(world, pod)


async def test_node_that_is_to_reboot_keeps_its_pod(world: World) -> None:
    pod = await _running(world)
    job = await world.placeholder(pod)
    await world.reboot(job.nodes)
    await _unharmed_by_now(world, pod)


async def test_node_that_reboots_once_its_pod_has_gone_takes_pods_again(world: World) -> None:
    pod = await _running(world, partition=world.cluster.script_partition)
    node = (await world.placeholder(pod)).nodes
    await world.reboot(node)
    async with world.cluster.rebooting(node):
        await world.delete()
        await world.gone()
        await world.nothing_left()
    there = {"partition": world.cluster.script_partition, "required-nodes": node}
    await world.create("second", slurm=there)
    assert (await world.placeholder(await world.running("second"))).nodes == node


@pytest.mark.slow
@pytest.mark.flags("--placeholder-mode=script")
async def test_node_that_loses_its_power_evicts_its_pod(world: World) -> None:
    pod = await _running(world, partition=world.cluster.script_partition)
    job = await world.placeholder(pod)
    await world.until("Slurm would miss the job", lambda: _would_be_missed(world, job.job_id))
    await world.cluster.power_cycle(job.nodes)
    await _evicted(world, pod, reason="NodeFailed", words=(f"{job.job_id}", "NODE_FAIL"))


@pytest.mark.slow
async def test_external_job_outlasts_a_power_loss_of_its_node(world: World) -> None:
    if not world.slurm.external:
        pytest.skip("24.11 has no external jobs")
    pod = await _running(world, partition=world.cluster.script_partition)
    job = await world.placeholder(pod)
    await world.until("a script would be missed", lambda: _would_be_missed(world, job.job_id))
    await world.cluster.power_cycle(job.nodes)
    await _unharmed_by_now(world, pod)


@pytest.mark.flags("--suspend-policy=keep")
async def test_suspended_job_keeps_its_pod(world: World) -> None:
    pod = await _running(world)
    job = await world.placeholder(pod)
    await world.cluster.suspend(job.job_id)
    await _unharmed_by_now(world, pod)
    await world.cluster.resume(job.job_id)
    await _unharmed_by_now(world, pod, second="third")


async def test_suspended_job_evicts_its_pod(world: World) -> None:
    pod = await _running(world)
    job = await world.placeholder(pod)
    await world.job_runs(job.job_id)
    await world.cluster.suspend(job.job_id)
    await _evicted(world, pod, reason="Suspended", words=(f"{job.job_id}",))
    await world.job_ended(job.job_id, state="CANCELLED")


async def test_pod_that_leaves_slowly_is_hurried_when_its_job_ends(world: World) -> None:
    await world.create(grace=_GRACE, annotations={"sandbox/stop-seconds": "600"})
    pod = await world.running()
    job = await world.placeholder(pod)
    await world.kube.delete("pods", "train", namespace=world.namespace, grace_seconds=3600)
    # The scheduler must see the deletion before it sees the end of the job.
    await world.until("the watch tells of the deletion", lambda: _seen_leaving(world))
    await world.slurm.cancel(job.job_id)
    await world.removed(pod)
    graces = [it["metadata"]["deletionGracePeriodSeconds"] for it in _leaving(world)]
    assert [it for it in dict.fromkeys(graces) if it] == [3600, _GRACE]
    assert "s left to stop" in (await world.event("PlaceholderCancelled"))["message"]


async def test_requeued_job_evicts_its_pod_and_is_cancelled(world: World) -> None:
    if world.slurm.external:
        pytest.skip("only batch jobs can be requeued (measured)")
    pod = await _running(world)
    job = await world.placeholder(pod)
    await world.cluster.requeue(job.job_id)
    await _evicted(world, pod, reason="Requeued", words=(f"{job.job_id}",))
    await world.job_ended(job.job_id, state="CANCELLED")


async def test_job_requeued_before_the_bind_keeps_its_pod_waiting_and_counts_from_there(
    world: World,
) -> None:
    if world.slurm.external:
        pytest.skip("only batch jobs can be requeued (measured)")
    await world.cordon(*world.cluster.nodes)
    await world.create(grace=_GRACE)
    await world.event("NodeUnavailable")
    job = await world.placeholder(await world.pod_that("has a job", _has_job))
    await world.cluster.requeue(job.job_id)
    await world.until("the requeued job waits", lambda: _waits_for_its_time(world, job.job_id))
    await world.waiting()
    await world.uncordon()
    now = {"set": True, "number": int(time.time())}
    await world.slurm.update(job.job_id, begin_time=now)
    pod = await world.running()
    again = await world.placeholder(pod)
    assert (again.job_id, again.number("restart_cnt")) == (job.job_id, 1)
    await _unharmed_by_now(world, pod)
    await world.cluster.requeue(job.job_id)
    await _evicted(world, pod, reason="Requeued", words=(f"{job.job_id}",))


@pytest.mark.flags("--placeholder-mode=script")
async def test_job_whose_script_was_killed_is_asked_for_again_where_its_pod_runs(
    world: World,
) -> None:
    pod = await _running(world, partition=world.cluster.script_partition)
    job = await world.placeholder(pod)
    await world.cluster.kill_script(job.job_id)
    await world.job_ended(job.job_id, state="FAILED")
    held = await world.one_placeholder_each()
    again = held[pod["metadata"]["uid"]]
    assert (again.job_id != job.job_id, again.raw["required_nodes"]) == (True, job.nodes)
    await world.event("PlaceholderLost")
    world.unharmed(pod)


@pytest.mark.flags("--placeholder-mode=script")
async def test_job_whose_script_cannot_start_is_asked_for_again_where_its_pod_runs(
    world: World,
) -> None:
    """Slurm cancels the new job by itself, and its record looks as if a person had."""
    if not isinstance(world.cluster, LiveCluster):
        pytest.skip("the model starts every script")
    pod = await _running(world, partition=world.cluster.script_partition)
    job = await script_begun(world, pod)
    async with world.cluster.scripts_cannot_start():
        await world.cluster.kill_script(job.job_id)
        again = await world.until(
            "the next job is cancelled", lambda: _cancelled(world, job.job_id)
        )
    # The record of a job that is COMPLETING may lack its nodes (measured).
    record = await world.until("its record is complete", lambda: _with_nodes(world, again))
    assert (record.tag["uids"], record.nodes) == ([pod["metadata"]["uid"]], job.nodes)
    await world.until("the pod's node is held again", lambda: _held_again(world, pod, job.nodes))
    world.unharmed(pod)


async def test_waiting_pod_stays_if_slurmd_cannot_start_its_job(world: World) -> None:
    """No scheduler runs meanwhile, because it would bind the pod before slurmd gives up."""
    if not isinstance(world.cluster, LiveCluster) or world.slurm.external:
        pytest.skip("the model starts every script; an external job has none")
    filler = await world.fill()
    await world.create()
    pod = await world.waiting()
    job = await world.placeholder(pod)
    await asyncio.to_thread(world.scheduler.stop)
    async with world.cluster.scripts_cannot_start():
        await world.end_native(filler)
        failed = await world.job_ended(job.job_id, state="CANCELLED")
    await asyncio.to_thread(world.scheduler.start)
    again = await world.placeholder(await world.running())
    assert (again.job_id != failed.job_id, again.nodes != failed.nodes) == (True, True)
    await world.event("NodeUnavailable")
    world.unharmed(pod)


async def test_job_out_of_memory_is_asked_for_again_where_its_pod_runs(world: World) -> None:
    if not isinstance(world.cluster, SandboxCluster) or world.slurm.external:
        pytest.skip("told live with cgroups (test_script_memory); an external job has no process")
    pod = await _running(world)
    job = await world.placeholder(pod)
    await world.cluster.run_out_of_memory(job.job_id)
    held = await world.one_placeholder_each()
    again = held[pod["metadata"]["uid"]]
    assert (again.job_id, again.nodes) != (job.job_id, "")
    await world.event("PlaceholderLost")
    world.unharmed(pod)


@pytest.mark.live_on("26.05")
async def test_waiting_job_that_misses_its_deadline_ends_its_pod(world: World) -> None:
    """Slurm ends it as soon as its time limit no longer fits before the deadline."""
    await world.fill()
    await world.create(slurm={"timeout": "60"})
    job = await world.placeholder(await world.waiting())
    await world.slurm.update(job.job_id, deadline=int(time.time()) + 30)
    await world.gone()
    event = await world.event("TimeLimit")
    assert "DEADLINE" in event["message"]


@pytest.mark.live_on("26.05")
async def test_evicted_pod_without_an_owner_is_not_made_again(world: World) -> None:
    pod = await _running(world)
    job = await world.placeholder(pod)
    await world.slurm.cancel(job.job_id)
    await world.removed(pod)
    await world.create("second")
    await world.running("second")
    assert await world.kube.find("pods", "train", namespace=world.namespace) is None


@pytest.mark.flags("--eviction-policy=budget", "--eviction-budget-timeout=6s")
@pytest.mark.live_on("26.05")
async def test_budget_holds_a_pod_for_as_long_as_the_site_allows(world: World) -> None:
    pod = await _running(world)
    await _budget(world)
    job = await world.placeholder(pod)
    began = time.monotonic()
    await world.slurm.cancel(job.job_id)
    await _evicted(world, pod, reason="PlaceholderCancelled", words=(f"{job.job_id}",))
    leaving = next(it for it in world.history.of("train") if pods.leaving(it.pod))
    assert leaving.at - began >= 5


@pytest.mark.live_on("26.05")
async def test_budget_does_not_hold_a_pod_whose_node_slurm_has_taken(world: World) -> None:
    pod = await _running(world)
    await _budget(world)
    job = await world.placeholder(pod)
    await world.slurm.cancel(job.job_id)
    await _evicted(world, pod, reason="PlaceholderCancelled", words=(f"{job.job_id}",))


@pytest.mark.live_on("26.05")
async def test_batch_job_that_ignores_disruptions_is_not_charged_a_retry(world: World) -> None:
    if isinstance(world.cluster, SandboxCluster):
        pytest.skip("the Job controller of the model knows no podFailurePolicy")
    await world.kube.create("jobs", _batch_job(), namespace=world.namespace)
    first = await _one_runs(world)
    job = await world.placeholder(first)
    await world.slurm.cancel(job.job_id)

    async def next_one() -> Object | None:
        now = await _one_runs(world)
        return now if now["metadata"]["uid"] != first["metadata"]["uid"] else None

    await world.until("the Job has another pod", next_one)
    status = (await world.kube.get("jobs", "work", namespace=world.namespace))["status"]
    assert status.get("failed", 0) == 0, status
    ended = [it["type"] for it in status.get("conditions", ()) if it["status"] == "True"]
    assert ended == [], "backoffLimit is 0: a charged retry would have been the Job's end"


@pytest.mark.live_on("26.05")
async def test_deployment_of_three_heals_through_slurm(world: World) -> None:
    await world.kube.create("deployments", _deployment(3), namespace=world.namespace)
    first = await _three_run(world)
    victim = min(first)
    job = await world.placeholder(first[victim])
    await world.slurm.cancel(job.job_id)

    async def healed() -> bool:
        now = await _three_run(world)
        return victim not in now

    await world.until("three run again, the victim not among them", healed)
    live = await world.slurm.live_placeholders(world.namespace)
    assert len(live) == 3, live
    await world.removed(first[victim])


async def _running(world: World, *, grace: int = _GRACE, **slurm: str) -> Object:
    await world.create(grace=grace, slurm=slurm)
    return await world.running()


async def _cancelled(world: World, after: int) -> int | None:
    """The id of a job that was submitted after the job with that id, and cancelled. The scheduler
    gives up after a few of them, so the look at them is a quick one. Heterogeneous jobs of other
    stories have ids such as "54+0", and are none of them.
    """
    answer = await world.slurm.ask("GET", "jobs/state/")
    assert answer.ok, f"jobs/state: {answer}"
    ended = (str(it["job_id"]) for it in answer.body["jobs"] if it["state"][0] == "CANCELLED")
    return next((int(it) for it in ended if it.isdecimal() and int(it) > after), None)


async def _with_nodes(world: World, job_id: int) -> Record | None:
    record = await world.slurm.job(job_id)
    assert record is not None
    return None if "COMPLETING" in record.states else record


async def _held_again(world: World, pod: Object, node: str) -> bool:
    held = await world.one_placeholder_each()
    found = held[pod["metadata"]["uid"]]
    return (found.states, found.nodes) == (("RUNNING",), node)


async def _evicted(world: World, pod: Object, *, reason: str, words: tuple[str, ...]) -> None:
    """Check that the pod gets the condition and is deleted with its own grace, and the Event."""
    await world.removed(pod)
    _told(world, pod, reason=reason, words=words)
    assert _given_grace(world) == _GRACE
    event = await world.event(reason)
    assert words[0] in event["message"]


def _told(world: World, pod: Object, *, reason: str, words: tuple[str, ...]) -> None:
    """Check that the pod had the condition from before its deletion until its end."""
    last = world.history.removed(pod["metadata"]["uid"])
    assert last is not None
    condition = pods.condition(last.pod, "DisruptionTarget")
    assert condition is not None, pods.summary(last.pod)
    assert (condition["status"], condition["reason"]) == ("True", reason)
    assert not [word for word in words if word not in condition["message"]], condition
    assert all(pods.condition(it, "DisruptionTarget") for it in _leaving(world))


def _given_grace(world: World) -> int:
    return int(_leaving(world)[0]["metadata"]["deletionGracePeriodSeconds"])


async def _seen_leaving(world: World) -> bool:
    return any(pods.leaving(it.pod) for it in world.history.of("train"))


def _leaving(world: World) -> list[Object]:
    leaving = [it.pod for it in world.history.of("train") if pods.leaving(it.pod)]
    assert leaving
    return leaving


async def _unharmed_by_now(world: World, pod: Object, *, second: str = "second") -> None:
    """Check the pod after another one was created and runs: a wrong eviction would show by then."""
    await world.create(second)
    await world.running(second)
    world.unharmed(pod)


async def _waits_for_its_time(world: World, job_id: int) -> bool:
    """Whether the requeued job waits for its begin time. It gets it when its script has ended, and
    would overwrite an earlier one.
    """
    record = await world.slurm.job(job_id)
    assert record is not None
    return record.states == ("PENDING",) and record.reason == "BeginTime"


async def _would_be_missed(world: World, job_id: int) -> bool:
    """Whether Slurm would notice that the batch job is not on its node: it allows a start
    BatchStartTimeout and ten seconds more.
    """
    record = await world.slurm.job(job_id)
    assert record is not None
    return time.time() > (record.number("start_time") or 0) + 22


def _has_job(pod: Object) -> bool:
    return pods.annotation(pod, pods.JOB_ID) is not None


async def _budget(world: World) -> None:
    """Create a budget that never allows the pod `train` to go, and wait until it counts the pod."""
    selector = {"matchLabels": {"app": "train"}}
    spec = {"minAvailable": 1, "selector": selector}
    body = {"metadata": {"name": "keep"}, "spec": spec}
    await world.kube.create("poddisruptionbudgets", body, namespace=world.namespace)

    async def counted() -> bool:
        found = await world.kube.get("poddisruptionbudgets", "keep", namespace=world.namespace)
        return bool(found.get("status", {}).get("currentHealthy"))

    await world.until("the budget has counted its pod", counted)


def _batch_job() -> Object:
    template = pods.pod("work", grace=_GRACE, restartPolicy="Never")
    del template["metadata"]["name"]
    ignored = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    spec = {"backoffLimit": 0, "podFailurePolicy": {"rules": [ignored]}, "template": template}
    return {"metadata": {"name": "work"}, "spec": spec}


async def _one_runs(world: World) -> Object:
    async def look() -> Object | None:
        found = await world.kube.items("pods", namespace=world.namespace)
        run = [it for it in found if pods.phase(it) == "Running" and not pods.leaving(it)]
        return run[0] if len(run) == 1 else None

    return await world.until("one pod runs", look)


async def _three_run(world: World) -> dict[str, Object]:
    """The three pods of the Deployment by uid, once three of them run and none is leaving."""

    async def look() -> dict[str, Object] | None:
        found = await world.kube.items("pods", namespace=world.namespace)
        run = {it["metadata"]["uid"]: it for it in found if pods.phase(it) == "Running"}
        return run if len(run) == 3 and not any(pods.leaving(it) for it in found) else None

    return await world.until("three pods run", look)


def _deployment(replicas: int) -> Object:
    template = pods.pod("worker", grace=_GRACE)
    del template["metadata"]["name"]
    return {
        "metadata": {"name": "worker"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "worker"}},
            "template": template,
        },
    }
