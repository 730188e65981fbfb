"""A pod runs and its job is lost: its node is asked for anew for what is left of its time, and the
pod goes where another job holds the node.
"""

from __future__ import annotations

import asyncio
import time

import pytest

from scheduler.core.lost_job import RESOURCES_SECONDS
from scheduler.core.owner_tag import read_tag
from scheduler.core.tenure import MOST_TRIES, YEAR_MINUTES
from scheduler.execute.placeholder import CLAIM_PRIORITY
from slurmapi import BaseState, JobSubmission, SlurmBusy, SlurmInvalid, SlurmUnreachable
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime
UID = "01234567-89ab"
HOUR = 3600


@pytest.fixture
def epoch(slurm: TinySlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of day goes on as Slurm's clock does, and so as the event loop's."""
    monkeypatch.setattr(time, "time", lambda: float(slurm.now()))


async def run_one(slurm, kube, service, *, age: int = 0, minutes: int | None = None) -> int:
    """A pod whose job was started so long ago, with that limit."""
    service.start()
    kube.create(UID)
    await asyncio.sleep(2)
    slurm.start(1, node="n1")
    slurm.change(
        1, BaseState.RUNNING, start_time=int(time.time()) - age, time_limit_minutes=minutes
    )
    await asyncio.sleep(10)
    assert kube.bindings == [(UID, "n1")]
    return 1


async def asked_again(slurm: TinySlurm, *, after: int) -> int:
    """The id of the job that was asked for in the place of that one."""
    for _ in range(600):
        found = [it for it in slurm.submissions if it > after]
        if found:
            assert slurm.submissions[found[-1]].required_nodes == ("n1",)
            return found[-1]
        await asyncio.sleep(1)
    raise AssertionError("no job was asked for")


async def test_pod_goes_when_another_job_holds_its_node(slurm, kube, service):
    job_id = await run_one(slurm, kube, service)
    slurm.forget(job_id)
    slurm.allocated["n1"] = TinySlurm.CPUS - 1
    again = await asked_again(slurm, after=job_id)
    await asyncio.sleep(90)
    assert kube.deleted == [UID]
    (event,) = [
        it for it in service.recorder.events if "other jobs have taken its resources" in it.message
    ]
    assert event.reason == "PlaceholderLost"
    assert slurm.live(again), "the job is cancelled when the containers have stopped"
    kube.end_containers(UID)
    await asyncio.sleep(10)
    assert not slurm.live(again)


def no_such_partition(_submission: JobSubmission) -> SlurmInvalid:
    return SlurmInvalid("Invalid partition name specified", error_number=2000, status=422)


def full(_submission: JobSubmission) -> SlurmBusy:
    return SlurmBusy("MaxJobCount limit reached", error_number=2007, status=422)


REFUSALS = pytest.mark.parametrize("refusal", [no_such_partition, full])
EDITS = pytest.mark.parametrize("edit", [{"partition": "nowhere"}, {"timeout": "rubbish"}])


@REFUSALS
async def test_pod_whose_new_job_is_refused_goes_when_another_job_holds_its_node(
    slurm, kube, service, refusal
):
    job_id = await run_one(slurm, kube, service)
    slurm.job_submit = refusal
    slurm.end(job_id, BaseState.FAILED)
    slurm.allocated["n1"] = TinySlurm.CPUS
    await asyncio.sleep(20)
    assert kube.deleted == []
    await asyncio.sleep(100)
    assert kube.deleted == [UID]
    assert "other jobs have taken its resources" in service.recorder.events[-1].message


@REFUSALS
async def test_pod_whose_new_job_is_refused_stays_while_nobody_else_holds_its_node(
    slurm, kube, service, refusal
):
    job_id = await run_one(slurm, kube, service)
    slurm.job_submit = refusal
    slurm.counted["n1"] = TinySlurm.CPUS
    slurm.forget(job_id)
    await asyncio.sleep(2 * HOUR)
    assert kube.deleted == []
    assert slurm.calls["node"] <= 2 * HOUR / 30 + 10
    slurm.job_submit = lambda _submission: None
    await asked_again(slurm, after=job_id)


async def test_node_is_not_read_while_slurm_does_not_answer(slurm, kube, service):
    job_id = await run_one(slurm, kube, service)
    slurm.job_submit = no_such_partition
    slurm.forget(job_id)
    await asyncio.sleep(HOUR)
    for operation in ("states", "submit", "node", "ping", "job"):
        slurm.fail[operation].extend([SlurmUnreachable("refused")] * 10_000)
    await asyncio.sleep(10)
    reads = slurm.calls["node"]
    await asyncio.sleep(HOUR)
    assert slurm.calls["node"] == reads
    for operation in ("states", "submit", "node", "ping", "job"):
        slurm.fail[operation].clear()
    slurm.allocated["n1"] = TinySlurm.CPUS
    await asyncio.sleep(HOUR)
    assert kube.deleted == [UID]


@EDITS
async def test_author_keeps_no_node_by_an_annotation_for_which_there_is_no_job(
    slurm, kube, service, edit
):
    """He edits his running pod, and then kills the script of its job."""
    job_id = await run_one(slurm, kube, service)
    slurm.job_submit = lambda it: no_such_partition(it) if it.partition else None
    kube.edit(UID, {f"sunk.coreweave.com/{key}": value for key, value in edit.items()})
    await asyncio.sleep(5)
    slurm.end(job_id, BaseState.FAILED)
    slurm.allocated["n1"] = TinySlurm.CPUS
    await asyncio.sleep(120)
    assert kube.deleted == [UID]


@EDITS
async def test_author_keeps_no_node_by_an_annotation_that_is_wrong_once_the_new_job_waits(
    slurm, kube, service, edit
):
    job_id = await run_one(slurm, kube, service)
    slurm.forget(job_id)
    again = await asked_again(slurm, after=job_id)
    slurm.change(again, BaseState.PENDING, state_reason="PartitionDown")
    kube.edit(UID, {f"sunk.coreweave.com/{key}": value for key, value in edit.items()})
    slurm.allocated["n1"] = TinySlurm.CPUS
    await asyncio.sleep(90)
    assert kube.deleted == [UID]


async def test_pod_that_was_edited_into_a_wrong_one_stays_while_nobody_else_holds_its_node(
    slurm, kube, service
):
    job_id = await run_one(slurm, kube, service)
    kube.edit(UID, {"sunk.coreweave.com/timeout": "rubbish"})
    slurm.end(job_id, BaseState.FAILED)
    await asyncio.sleep(2 * HOUR)
    assert kube.deleted == []
    assert len(slurm.submissions) == 1
    kube.edit(UID, {"sunk.coreweave.com/timeout": "3600"})
    await asked_again(slurm, after=job_id)


async def test_pod_stays_while_nobody_else_holds_its_node(slurm, kube, service):
    job_id = await run_one(slurm, kube, service)
    slurm.forget(job_id)
    again = await asked_again(slurm, after=job_id)
    slurm.change(again, BaseState.PENDING, state_reason="PartitionDown")
    await asyncio.sleep(HOUR)
    assert kube.deleted == []
    assert slurm.calls["node"] <= HOUR / 30 + 10


async def test_what_the_lost_job_itself_held_is_not_taken_for_anothers(slurm, kube, service):
    """slurmctld last counted what is allocated while that job ran."""
    job_id = await run_one(slurm, kube, service)
    slurm.counted["n1"] = TinySlurm.CPUS
    slurm.forget(job_id)
    again = await asked_again(slurm, after=job_id)
    slurm.change(again, BaseState.PENDING, state_reason="PartitionDown")
    await asyncio.sleep(90)
    assert kube.deleted == []


async def test_what_the_former_job_holds_until_its_epilog_ends_is_not_taken_for_anothers(
    slurm, kube, service
):
    job_id = await run_one(slurm, kube, service)
    slurm.allocated["n1"] = TinySlurm.CPUS
    slurm.change(job_id, BaseState.FAILED, "COMPLETING")
    await asyncio.sleep(240)
    assert kube.deleted == []
    assert slurm.calls["submit"] == 1
    slurm.allocated["n1"] = 0
    slurm.end(job_id, BaseState.FAILED)
    await asyncio.sleep(2)
    slurm.start(await asked_again(slurm, after=job_id), node="n1")
    await asyncio.sleep(240)
    assert kube.deleted == []


async def test_own_job_that_has_just_started_is_not_taken_for_anothers(slurm, kube, service):
    job_id = await run_one(slurm, kube, service)
    slurm.forget(job_id)
    again = await asked_again(slurm, after=job_id)
    await asyncio.sleep(29)
    slurm.fail["states"].extend([SlurmUnreachable("slow")] * 3)  # the pulse shows it late
    slurm.start(again, node="n1")
    slurm.allocated["n1"] = TinySlurm.CPUS
    await asyncio.sleep(120)
    assert kube.deleted == []


async def test_pod_goes_when_slurm_says_for_long_that_resources_are_missing(slurm, kube, service):
    """Cores of a socket, or a whole node: the counts of the node do not show it."""
    job_id = await run_one(slurm, kube, service)
    slurm.forget(job_id)
    await asked_again(slurm, after=job_id)
    await asyncio.sleep(100)
    assert kube.deleted == []
    await asyncio.sleep(100)
    assert kube.deleted == [UID]


async def test_pod_stays_when_slurm_says_only_for_a_moment_that_resources_are_missing(
    slurm, kube, service
):
    """Its job waits for a drained node. Slurm gives another reason for a while when it is resumed,
    and once more later.
    """
    job_id = await run_one(slurm, kube, service)
    slurm.forget(job_id)
    again = await asked_again(slurm, after=job_id)
    for reason, seconds in (
        ("ReqNodeNotAvail", HOUR // 2),
        ("Resources", 90),
        ("ReqNodeNotAvail", 120),
        ("Resources", 90),
    ):
        slurm.change(again, BaseState.PENDING, state_reason=reason)
        await asyncio.sleep(seconds)
    slurm.start(again, node="n1")
    await asyncio.sleep(HOUR)
    assert kube.deleted == []


async def test_pod_goes_two_minutes_after_slurm_began_to_say_that_resources_are_missing(
    slurm, kube, service
):
    job_id = await run_one(slurm, kube, service)
    slurm.forget(job_id)
    again = await asked_again(slurm, after=job_id)
    slurm.change(again, BaseState.PENDING, state_reason="ReqNodeNotAvail")
    await asyncio.sleep(HOUR // 2)
    slurm.change(again, BaseState.PENDING, state_reason="Resources")
    await asyncio.sleep(RESOURCES_SECONDS - 5)
    assert kube.deleted == []
    await asyncio.sleep(60)
    assert kube.deleted == [UID]
    (event,) = [it for it in service.recorder.events if "resources are missing" in it.message]
    seconds = int(event.message.partition("has said for ")[2].partition(" s ")[0])
    assert RESOURCES_SECONDS <= seconds < RESOURCES_SECONDS + 30


async def test_script_that_is_killed_gains_no_time(slurm, kube, service):
    job_id = await run_one(slurm, kube, service, age=1800, minutes=60)
    slurm.end(job_id, BaseState.FAILED)
    again = await asked_again(slurm, after=job_id)
    assert slurm.submissions[again].time_limit_minutes in {30, 31}
    assert slurm.submissions[again].priority is None, "it ended by itself: no priority for that"
    tag = read_tag(slurm.jobs[again].admin_comment)
    assert tag is not None
    assert (tag.tries, abs(tag.until - time.time() - 1800) < 60) == (1, True)


async def test_pod_whose_time_is_over_is_not_asked_for_again(slurm, kube, service):
    job_id = await run_one(slurm, kube, service, age=HOUR + 1, minutes=60)
    slurm.end(job_id, BaseState.FAILED)
    await asyncio.sleep(10)
    assert kube.deleted == [UID]
    assert "TimeLimit" in service.recorder.reasons(UID)


@pytest.mark.usefixtures("epoch")
@pytest.mark.parametrize("end", ["failed", "forgotten"])
async def test_pod_outlives_the_limit_that_an_operator_has_removed(slurm, kube, end):
    service = Service(slurm, kube)
    job_id = await run_one(slurm, kube, service, minutes=60)
    slurm.change(job_id, BaseState.RUNNING, time_limit_minutes=None)
    await asyncio.sleep(2 * HOUR)
    for number in range(2):
        slurm.end(job_id, BaseState.FAILED) if end == "failed" else slurm.forget(job_id)
        job_id = await asked_again(slurm, after=job_id)
        assert slurm.submissions[job_id].time_limit_minutes == YEAR_MINUTES
        slurm.start(job_id, node="n1")
        # Slurm shows this limit as none.
        slurm.change(job_id, BaseState.RUNNING, start_time=int(time.time()))
        await asyncio.sleep(10)
        if number == 0:
            await service.kill()
            kube.relist()
            service = Service(slurm, kube)
            service.start()
            await asyncio.sleep(2 * HOUR)
    assert kube.deleted == []
    service.unharmed()
    await service.kill()


@pytest.mark.usefixtures("epoch")
async def test_pod_gets_back_the_time_for_which_its_job_was_suspended(slurm, kube):
    service = Service(slurm, kube, keeps_suspended=True)
    job_id = await run_one(slurm, kube, service, age=2 * HOUR, minutes=90)
    slurm.change(job_id, BaseState.RUNNING, end_time=int(time.time()) + HOUR)
    await asyncio.sleep(60)
    slurm.end(job_id, BaseState.FAILED)
    again = await asked_again(slurm, after=job_id)
    assert slurm.submissions[again].time_limit_minutes in {58, 59, 60}
    assert kube.deleted == []
    service.unharmed()
    await service.kill()


@pytest.mark.usefixtures("epoch")
@pytest.mark.parametrize("end", ["failed", "forgotten"])
async def test_pod_keeps_the_time_that_was_left_when_its_job_was_suspended(slurm, kube, end):
    """Slurm would have added that time to the job's end when it resumed it."""
    service = Service(slurm, kube, keeps_suspended=True)
    job_id = await run_one(slurm, kube, service, minutes=60)
    await asyncio.sleep(10 * 60)
    slurm.change(job_id, BaseState.SUSPENDED)
    await asyncio.sleep(2 * HOUR)
    assert kube.deleted == []
    slurm.end(job_id, BaseState.FAILED) if end == "failed" else slurm.forget(job_id)
    again = await asked_again(slurm, after=job_id)
    assert slurm.submissions[again].time_limit_minutes in {49, 50, 51}
    tag = read_tag(slurm.jobs[again].admin_comment)
    assert tag is not None
    assert abs(tag.until - slurm.now() - 50 * 60) < 60
    slurm.start(again, node="n1")
    await asyncio.sleep(60)
    assert kube.deleted == []
    service.unharmed()
    await service.kill()


@pytest.mark.usefixtures("epoch")
async def test_time_without_a_job_counts_again_after_a_suspension(slurm, kube):
    service = Service(slurm, kube, keeps_suspended=True)
    job_id = await run_one(slurm, kube, service, minutes=60)
    await asyncio.sleep(10 * 60)
    slurm.change(job_id, BaseState.SUSPENDED)
    await asyncio.sleep(2 * HOUR)
    slurm.job_submit = no_such_partition
    slurm.forget(job_id)
    await asyncio.sleep(49 * 60)
    assert kube.deleted == []
    await asyncio.sleep(10 * 60)
    assert kube.deleted == [UID]
    assert "TimeLimit" in service.recorder.reasons(UID)
    service.unharmed()
    await service.kill()


async def test_pod_goes_after_a_few_tries_also_over_a_restart(slurm, kube):
    service = Service(slurm, kube)
    job_id = await run_one(slurm, kube, service)
    for number in range(MOST_TRIES):
        slurm.end(job_id, BaseState.FAILED)
        job_id = await asked_again(slurm, after=job_id)
        slurm.start(job_id, node="n1")
        await asyncio.sleep(10)
        if number == 2:
            await service.kill()
            kube.relist()
            service = Service(slurm, kube)
            service.start()
            await asyncio.sleep(20)
    slurm.end(job_id, BaseState.FAILED)
    await asyncio.sleep(60)
    assert kube.deleted == [UID]
    assert len(slurm.submissions) == 1 + MOST_TRIES
    service.unharmed()
    await service.kill()


async def test_job_that_slurm_itself_has_lost_comes_first(slurm, kube, service):
    job_id = await run_one(slurm, kube, service)
    slurm.forget(job_id)
    again = await asked_again(slurm, after=job_id)
    assert slurm.submissions[again].priority == CLAIM_PRIORITY


async def test_job_that_may_have_ended_and_been_forgotten_gets_no_priority(slurm, kube, service):
    """MinJobAge is shorter than the time between two looks: it may have been PREEMPTED."""
    slurm.min_job_age = 1
    job_id = await run_one(slurm, kube, service)
    slurm.seconds["states"] = 2.0
    await asyncio.sleep(10)
    slurm.forget(job_id)
    again = await asked_again(slurm, after=job_id)
    assert slurm.submissions[again].priority is None


async def test_few_tries_come_first(slurm, kube, service):
    job_id = await run_one(slurm, kube, service)
    priorities = []
    for _ in range(MOST_TRIES):
        slurm.forget(job_id)
        job_id = await asked_again(slurm, after=job_id)
        priorities.append(slurm.submissions[job_id].priority)
        slurm.start(job_id, node="n1")
        await asyncio.sleep(10)
    assert priorities == [CLAIM_PRIORITY, CLAIM_PRIORITY, CLAIM_PRIORITY, None, None]


async def test_former_job_that_is_requeued_does_not_take_the_place_of_the_pinned_one(
    slurm, kube, service
):
    """Slurm starts the pinned job only when no earlier job of its name lives."""
    former = await run_one(slurm, kube, service)
    slurm.end(former, BaseState.FAILED)
    pinned = await asked_again(slurm, after=former)
    slurm.requeue(former)
    slurm.start(former, node="n2")
    slurm.change(pinned, BaseState.PENDING, state_reason="Dependency")
    await asyncio.sleep(30)
    assert not slurm.live(former)
    assert service.job_of(UID) == pinned
    slurm.start(pinned)
    await asyncio.sleep(HOUR)
    assert kube.deleted == []
    assert slurm.jobs[pinned].nodes == ("n1",)


async def test_former_job_that_is_requeued_and_waits_is_found_before_it_starts(
    slurm, kube, service
):
    former = await run_one(slurm, kube, service)
    slurm.end(former, BaseState.FAILED)
    pinned = await asked_again(slurm, after=former)
    slurm.requeue(former)
    slurm.change(pinned, BaseState.PENDING, state_reason="Dependency")
    await asyncio.sleep(20)
    assert not slurm.live(former)
    assert service.job_of(UID) == pinned


async def test_former_job_that_is_requeued_and_starts_on_the_pods_node_is_its_job_again(
    slurm, kube, service
):
    former = await run_one(slurm, kube, service)
    slurm.end(former, BaseState.FAILED)
    pinned = await asked_again(slurm, after=former)
    slurm.requeue(former)
    slurm.start(former, node="n1")
    slurm.change(pinned, BaseState.PENDING, state_reason="Dependency")
    await asyncio.sleep(HOUR)
    assert service.job_of(UID) == former
    assert not slurm.live(pinned)
    assert kube.deleted == []


@pytest.mark.parametrize("ahead", [-600, 600], ids=["slurm behind", "slurm ahead"])
async def test_rest_of_the_time_goes_by_slurms_clock(slurm, kube, service, ahead):
    slurm.ahead = ahead
    job_id = await run_one(slurm, kube, service)
    start = slurm.now()
    slurm.change(job_id, BaseState.RUNNING, start_time=start, time_limit_minutes=5)
    await asyncio.sleep(60)
    slurm.end(job_id, BaseState.FAILED)
    again = await asked_again(slurm, after=job_id)
    assert kube.deleted == []
    assert slurm.submissions[again].time_limit_minutes in {4, 5}


async def test_clock_that_is_set_ends_no_pod_whose_job_is_lost(slurm, kube, service, monkeypatch):
    job_id = await run_one(slurm, kube, service, minutes=30)
    await asyncio.sleep(60)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + HOUR)
    slurm.forget(job_id)
    again = await asked_again(slurm, after=job_id)
    assert kube.deleted == []
    assert slurm.submissions[again].time_limit_minutes in {28, 29, 30}
