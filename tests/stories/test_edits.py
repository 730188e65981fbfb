"""Edits of a waiting pod's annotations change its pending job, or the pod says why they do not."""

from __future__ import annotations

import time

import pytest

from tests.support import pods
from tests.support.kube import Object
from tests.support.slurm import UNLIMITED, Record
from tests.support.world import World


async def test_edit_reaches_the_pending_job_which_keeps_its_place(world: World) -> None:
    await world.fill()
    await world.create(slurm={"partition": "main", "timeout": "600", "comment": "before"})
    job = await _waits(world)
    reserved = await world.reserve(world.cluster.nodes[0], in_seconds=3600)

    await world.edit(timeout="7200", comment="after", reservation=reserved)

    event = await world.event("PlaceholderUpdated")
    words = ("timeout", "'after'", reserved)
    assert not [word for word in words if word not in event["message"]], event
    now = await world.placeholder(await _pod(world))
    assert now.job_id == job.job_id
    assert now.number("time_limit") == 120
    assert (now.raw["comment"], now.raw["resv_name"]) == ("after", reserved)
    assert now.tag["uids"] == job.tag["uids"]
    assert now.tag["asked"] != job.tag["asked"]
    await world.message_with("is pending: Reservation")

    await world.edit(reservation=None, comment=None)
    await world.until("both are removed", lambda: _has_neither(world, job.job_id))
    await world.message_with("is pending: Resources")
    assert (await world.placeholder(await _pod(world))).job_id == job.job_id


@pytest.mark.live_on("26.05")
async def test_pod_moved_to_a_partition_that_may_start_it_runs(world: World) -> None:
    await world.set_partition(world.cluster.high_partition)
    await world.fill()
    await world.create(slurm={"partition": world.cluster.partition})
    job = await _waits(world)
    await world.edit(partition=world.cluster.high_partition)
    pod = await world.running()
    assert (await world.placeholder(pod)).job_id == job.job_id


async def test_edit_that_slurm_refuses_is_told_and_not_repeated(world: World) -> None:
    filler = await world.fill()
    await world.create(slurm={"partition": "main"})
    job = await _waits(world)

    await world.edit(partition="nowhere", comment="was taken")
    event = await world.event("UpdateRefused")
    assert event["type"] == "Warning"
    for word in ("partition", "nowhere", "was not accepted", "nvalid partition"):
        assert word in event["message"], event
    await world.message_with("is pending: Resources", "partition 'nowhere' was not accepted")
    now = await world.placeholder(await _pod(world))
    assert (now.job_id, now.raw["partition"], now.raw["comment"]) == (
        job.job_id,
        "main",
        "was taken",
    )
    events = await world.kube.events_of("train", namespace=world.namespace)
    assert [it.get("count", 1) for it in events if it["reason"] == "UpdateRefused"] == [1]

    await world.edit(partition="main")
    await world.pod_that("no longer says so", lambda it: "not accepted" not in pods.why(it))
    await world.end_native(filler)
    await world.running()


async def test_edit_that_no_pending_job_takes_gets_a_new_job(world: World) -> None:
    """A partition or time limit cannot be removed by an update; only a submit gets the default."""
    filler = await world.fill()
    await world.create(slurm={"timeout": "600", "partition": "main"})
    job = await _waits(world)

    await world.edit(timeout=None)
    await world.job_ended(job.job_id, state="CANCELLED")
    event = await world.event("PlaceholderLost")
    assert "timeout was edited" in event["message"]
    await world.end_native(filler)
    running = await world.placeholder(await world.running())
    assert running.job_id != job.job_id
    assert running.number("time_limit") in UNLIMITED


@pytest.mark.live_on("26.05")
async def test_pod_resized_while_it_waits_gets_a_job_of_its_new_size(world: World) -> None:
    filler = await world.fill()
    await world.create(cpus="1")
    job = await _waits(world)

    await _resize(world, cpus="3")
    await world.job_ended(job.job_id, state="CANCELLED")
    event = await world.event("PlaceholderLost")
    assert "cpus (the pod's resources) was edited" in event["message"]
    await world.end_native(filler)
    running = await world.placeholder(await world.running())
    assert running.job_id != job.job_id
    assert running.number("cpus") == 3


@pytest.mark.live_on("26.05")
async def test_pod_resized_while_it_runs_is_told_and_counted(world: World) -> None:
    await world.create(cpus="1")
    pod = await world.running()
    job = await world.placeholder(pod)

    await _resize(world, cpus="3")
    event = await world.event("ResizedBeyondJob")
    assert f"asks for 3 CPUs and its Slurm job {job.job_id} holds 1" in event["message"]
    assert world.scheduler.metric("slurm_pod_scheduler_resized_beyond_job_total", {}) == 1
    await _resize(world, cpus="1")
    world.unharmed(pod)
    assert (await world.placeholder(await _pod(world))).job_id == job.job_id


@pytest.mark.live_on("26.05")
async def test_change_by_an_operator_is_not_fought(world: World) -> None:
    await world.fill()
    await world.create(slurm={"timeout": "600"})
    job = await _waits(world)
    await world.slurm.update(job.job_id, priority={"set": True, "number": 77})
    await world.slurm.update(job.job_id, time_limit={"set": True, "number": 33})
    await world.message_with("priority 77")

    await world.edit(comment="mine")
    await world.event("PlaceholderUpdated")
    now = await world.placeholder(await _pod(world))
    assert (now.number("priority"), now.number("time_limit")) == (77, 33)


@pytest.mark.live_on("26.05")
async def test_pod_is_held_and_released_by_edits(world: World) -> None:
    filler = await world.fill()
    await world.create()
    job = await _waits(world)

    await world.edit(hold="true")
    await world.message_with("is pending: JobHeld")
    await world.end_native(filler)
    await world.create("other")
    await world.running("other")
    assert pods.node_of(await _pod(world)) is None

    await world.edit(hold=None)
    running = await world.running()
    assert (await world.placeholder(running)).job_id == job.job_id


@pytest.mark.live_on("26.05")
async def test_priority_is_set_and_given_back_by_edits(world: World) -> None:
    await world.fill()
    await world.create()
    job = await _waits(world)
    before = job.number("priority")

    await world.edit(priority="54321")
    await world.message_with("priority 54321")
    await world.edit(priority="0")
    await world.message_with("is pending: JobHeld")
    await world.edit(priority=None)
    await world.message_with("is pending: Resources")
    now = await world.placeholder(await _pod(world))
    assert now.job_id == job.job_id
    assert now.number("priority") not in {0, 54321}
    assert before not in {0, 54321}


@pytest.mark.anywhere
@pytest.mark.live_on("26.05")
async def test_nice_is_set_and_taken_away_by_edits(world: World) -> None:
    await world.fill()
    await world.create()
    job = await _waits(world)

    for value, nice in (("77", 77), ("-5", -5), (None, 0)):
        await world.edit(nice=value)
        await _until_nice(world, nice)
    assert (await world.placeholder(await _pod(world))).job_id == job.job_id


@pytest.mark.anywhere
@pytest.mark.live_on("26.05")
async def test_edit_made_while_no_scheduler_runs_is_carried_out_later(world: World) -> None:
    await world.fill()
    await world.create(slurm={"comment": "before"})
    job = await _waits(world)
    world.scheduler.kill()
    await world.edit(comment="meanwhile")
    world.scheduler.start()
    await world.event("PlaceholderUpdated")
    now = await world.placeholder(await _pod(world))
    assert (now.job_id, now.raw["comment"]) == (job.job_id, "meanwhile")


@pytest.mark.live_on("26.05")
async def test_refused_pod_that_is_corrected_is_submitted_at_once(world: World) -> None:
    began = time.monotonic()
    await world.create(slurm={"partition": "nowhere"})
    rejected = await world.pod_that("is told", lambda it: "nowhere" in pods.why(it))
    assert "SlurmRejected" in str(pods.condition(rejected, "PodScheduled"))
    await world.edit(partition="main")
    await world.submitted()
    assert time.monotonic() - began < 22.5, "the shortest pause after a refusal"
    await world.running()


@pytest.mark.slow
@pytest.mark.live_on("26.05")
async def test_cause_of_a_refusal_that_is_fixed_in_slurm_is_noticed(world: World) -> None:
    await world.create(slurm={"reservation": f"{world.namespace}-0"})
    await world.event("SlurmRejected")
    await world.reserve(world.cluster.nodes[0], in_seconds=0)
    await world.submitted()  # sooner than the pause of 30 s would end
    await world.running()


@pytest.mark.anywhere
@pytest.mark.live_on("26.05")
async def test_invalid_pod_that_is_corrected_runs_and_says_nothing_of_it(world: World) -> None:
    await world.create(slurm={"timeout": "soon"})
    await world.message_with("timeout", "soon")
    await world.edit(timeout="600")
    running = await world.running()
    assert "soon" not in str(pods.condition(running, "PodScheduled"))


@pytest.mark.anywhere
@pytest.mark.live_on("26.05")
async def test_gated_pod_has_no_job_until_its_gate_is_lifted(world: World) -> None:
    await world.create("gated", schedulingGates=[{"name": "example.com/wait"}])
    await world.create("other")
    await world.running("other")
    assert not [it for it in await world.slurm.jobs() if f"{world.namespace}.gated." in it.name]
    gated = await world.kube.get("pods", "gated", namespace=world.namespace)
    scheduled = pods.condition(gated, "PodScheduled") or {}
    assert scheduled.get("reason", "SchedulingGated") == "SchedulingGated"

    lifted = {"spec": {"schedulingGates": None}}
    await world.kube.patch("pods", "gated", lifted, namespace=world.namespace)
    await world.running("gated")


async def test_end_of_a_pods_time_stands_on_it_and_follows_slurm(world: World) -> None:
    await world.create(slurm={"timeout": "600"})
    pod = await world.running()
    job = await world.placeholder(pod)
    await world.pod_that(
        "knows its end", lambda it: pods.annotation(it, pods.ENDS_AT) == _rfc3339(job)
    )

    await world.slurm.update(job.job_id, time_limit={"set": True, "number": 45})
    longer = _rfc3339(await world.placeholder(pod))
    assert longer != _rfc3339(job)
    await world.pod_that(
        "knows its new end", lambda it: pods.annotation(it, pods.ENDS_AT) == longer
    )


@pytest.mark.anywhere
@pytest.mark.live_on("26.05")
async def test_pod_without_a_limit_has_no_end(world: World) -> None:
    await world.create()
    pod = await world.running()
    limit = (await world.placeholder(pod)).number("time_limit")
    assert limit in UNLIMITED
    # Backfill gives the job a limit of a year when it starts it, which may be seen after the start.
    assert limit is not None or pods.annotation(pod, pods.ENDS_AT) is None


def _rfc3339(job: Record) -> str:
    end = job.number("end_time")
    assert end is not None
    return pods.rfc3339(end)


async def _waits(world: World) -> Record:
    await world.message_with("is pending: Resources")
    return await world.placeholder(await _pod(world))


async def _pod(world: World) -> Object:
    return await world.kube.get("pods", "train", namespace=world.namespace)


async def _resize(world: World, *, cpus: str) -> None:
    pod = await _pod(world)
    where = {"namespace": world.namespace, "subresource": "status"}
    told = pod["status"].get("containerStatuses", [])
    if told:
        # The API server resizes running containers only if the kubelet reports their resources.
        # Every kubelet since 1.33 does, but the simulated ones of the rig do not.
        (status,) = told
        status = {"containerStatuses": [status | {"resources": {"requests": {"cpu": "1"}}}]}
        await world.kube.patch("pods", "train", {"status": status}, **where)
    (container,) = pod["spec"]["containers"]
    requests = container["resources"]["requests"] | {"cpu": cpus}
    container = container | {"resources": container["resources"] | {"requests": requests}}
    patch = {"spec": {"containers": [container]}}
    await world.kube.patch("pods", "train", patch, **where | {"subresource": "resize"})


async def _has_neither(world: World, job_id: int) -> bool:
    job = await world.slurm.job(job_id)
    assert job is not None
    return (job.raw["comment"], job.raw["resv_name"]) == ("", "")


async def _until_nice(world: World, nice: int) -> None:
    async def look() -> bool:
        return (await world.placeholder(await _pod(world))).number("nice") == nice

    await world.until(f"the job's nice is {nice}", look)
