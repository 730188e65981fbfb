"""The service finds what it does not remember, and leaves alone what is not its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from annotations import PREFIX
from scheduler.core.intervals import HANDOVER_SECONDS, UNFIT_SECONDS
from scheduler.core.naming import JOB_ID, JOB_NODES
from scheduler.core.owner_tag import Owner
from scheduler.slurm.census import _NEWEST, _PACE_SECONDS, _PERIOD_SECONDS
from slurmapi import BaseState, Job, JobState, SlurmBusy, SlurmUnreachable, SlurmUnreadable
from tests.unit.core.things import tag as tag_of
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import OWNER, Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime
UID = "uid-0"
RUNNING = JobState(BaseState.RUNNING)


def tag(uid: str = UID, *, owner: Owner = OWNER) -> str:
    return tag_of(owner=owner, uids=(uid,))


@pytest.fixture
async def service(slurm: TinySlurm, kube: TinyKube) -> AsyncIterator[Service]:
    service = Service(slurm, kube)
    yield service
    await service.kill()


async def seen(kube: TinyKube) -> None:
    """Until the watch has shown all pods there are."""
    await asyncio.sleep(2 * kube.lag)


def live(slurm: TinySlurm) -> set[int]:
    return {job_id for job_id in slurm.jobs if slurm.live(job_id)}


def assert_adopted(service: Service, job_id: int) -> None:
    unit = service.units.get(UID)
    assert unit is not None
    assert unit.job is not None
    assert unit.job.job_id == job_id


async def test_unrecorded_job_of_a_waiting_pod_is_adopted(slurm, kube, service):
    job_id = slurm.add(admin_comment=tag())
    kube.create(UID)
    await seen(kube)
    service.start()
    await asyncio.sleep(10)
    assert slurm.calls["submit"] == 0
    assert_adopted(service, job_id)


async def test_job_that_a_former_process_gave_back_is_ended_and_not_adopted(slurm, kube, service):
    """Its cancel may still be on its way, and would look like somebody's scancel."""
    former = slurm.add(
        admin_comment=tag_of(owner=OWNER, uids=(UID,), given_back=True),
        name=f"ns.train.{UID}",
        state=RUNNING,
        nodes=("n1",),
    )
    kube.create(UID)
    await seen(kube)
    service.start()
    await asyncio.sleep(10)
    unit = service.units.get(UID)
    assert unit is not None
    assert unit.job is not None
    assert unit.job.job_id != former
    assert live(slurm) == {unit.job.job_id}
    assert kube.bindings == []


async def test_job_that_its_pod_names_is_kept_whatever_mark_came_late(slurm, kube, service):
    job_id = slurm.add(
        admin_comment=tag_of(owner=OWNER, uids=(UID,), given_back=True),
        state=RUNNING,
        nodes=("n1",),
    )
    kube.create(UID, annotations={JOB_ID: str(job_id)}, node="n1")
    await seen(kube)
    service.start()
    await asyncio.sleep(10)
    assert slurm.live(job_id)
    assert slurm.calls["cancel"] == 0


async def test_adopted_job_waits_like_any_other_for_a_pod_that_still_stops(slurm, kube):
    """How long it has been running is not known: not since this machine was started."""
    slurm.add(admin_comment=tag(), state=RUNNING, nodes=("n1",))
    kube.create(UID)
    kube.create("old", name="old", node="n1", annotations={JOB_ID: "999", JOB_NODES: "n1"})
    kube.delete("old")
    await asyncio.sleep(2 * HANDOVER_SECONDS)
    service = Service(slurm, kube)
    service.start()
    await asyncio.sleep(UNFIT_SECONDS - 20)
    assert kube.bindings == []
    kube.end_containers("old")
    await asyncio.sleep(5)
    assert kube.bindings == [(UID, "n1")]
    await service.kill()


async def test_job_without_a_pod_is_ended(slurm, kube, service):
    orphan = slurm.add(admin_comment=tag("gone-uid"))
    service.start()
    await asyncio.sleep(10)
    assert not slurm.live(orphan)
    assert len(service.units) == 0


async def test_job_of_several_pods_is_left_alone_until_its_unit_exists(slurm, kube, service):
    """Its pods may be shown or not: here one is, as a single pod. It gets no job of its own."""
    comment = tag_of(owner=OWNER, uids=(UID, "gone"), key="gang")
    job_id = slurm.add(admin_comment=comment, name="ns.train.gang", state=RUNNING, nodes=("n9",))
    kube.create(UID)
    await seen(kube)
    service.start()
    await asyncio.sleep(10)
    searches = slurm.calls["all_states"]
    await asyncio.sleep(_PERIOD_SECONDS / 2)
    assert slurm.calls["all_states"] == searches
    assert slurm.asked.count(("job", (job_id,))) == 1
    assert slurm.live(job_id)
    assert slurm.calls["submit"] == 0
    assert kube.bindings == []


async def test_job_that_a_group_gave_back_ends_though_its_pods_are_single_ones_now(
    slurm, kube, service
):
    comment = tag_of(owner=OWNER, uids=(UID, "gone"), key="gang", given_back=True)
    job_id = slurm.add(admin_comment=comment, name="ns.train.gang", state=RUNNING, nodes=("n9",))
    kube.create(UID)
    await seen(kube)
    service.start()
    await asyncio.sleep(10)
    assert not slurm.live(job_id)
    assert slurm.calls["submit"] == 1


async def test_job_of_several_pods_whose_unit_never_exists_ends_with_them(slurm, kube, service):
    """However many jobs of others are younger: it is not among the newest then."""
    comment = tag_of(owner=OWNER, uids=(UID, "gone"), key="gang")
    job_id = slurm.add(admin_comment=comment, name="ns.train.gang", state=RUNNING, nodes=("n1",))
    kube.create(UID, node="n1", phase="Running", annotations={JOB_ID: str(job_id)})
    await seen(kube)
    service.start()
    await asyncio.sleep(10)
    for _ in range(_NEWEST + 10):
        slurm.add(state=RUNNING, nodes=("n9",))
    await asyncio.sleep(2 * _PERIOD_SECONDS)
    assert slurm.live(job_id)
    kube.end_containers(UID)
    await asyncio.sleep(2 * _PERIOD_SECONDS)
    assert not slurm.live(job_id)


async def test_job_of_a_gang_ends_once_its_pods_are_known_to_be_gone(slurm, kube, service):
    """Their containers may run for their grace period and 30 s."""
    comment = tag_of(owner=OWNER, uids=(UID, "uid-1"), key="gang")
    job_id = slurm.add(admin_comment=comment, name="ns.train.gang", state=RUNNING, nodes=("n1",))
    service.start()
    await asyncio.sleep(50)
    assert slurm.live(job_id)
    await asyncio.sleep(30)
    assert not slurm.live(job_id)
    assert slurm.calls["cancel"] == 1


@pytest.mark.parametrize(
    "comment",
    [
        "",
        "{not json",
        tag(owner=Owner("cluster-2", "slurm-scheduler")),
        tag(owner=Owner("cluster-1", "another-scheduler")),
    ],
)
async def test_job_of_others_is_looked_at_once_and_left(slurm, kube, service, comment):
    foreign = slurm.add(admin_comment=comment, name="ns.train.uid-0")
    service.start()
    for _ in range(5):
        await asyncio.sleep(10)
        service.census.ask()
    await asyncio.sleep(10)
    assert slurm.live(foreign)
    assert slurm.calls["cancel"] == 0
    assert slurm.asked.count(("job", (foreign,))) == 1


async def test_of_two_jobs_that_wait_one_stays(slurm, kube, service):
    for _ in range(2):
        slurm.add(admin_comment=tag(), name="ns.train.uid-0")
    kube.create(UID)
    await seen(kube)
    service.start()
    await asyncio.sleep(10)
    assert len(live(slurm)) == 1
    unit = service.units.get(UID)
    assert unit is not None
    assert unit.job is not None
    assert live(slurm) == {unit.job.job_id}


@pytest.mark.parametrize("recorded", ["the running", "the waiting"])
async def test_of_two_jobs_the_one_that_runs_stays(slurm, kube, service, recorded):
    running = slurm.add(admin_comment=tag(), state=RUNNING, nodes=("n1",))
    waiting = slurm.add(admin_comment=tag())
    known = running if recorded == "the running" else waiting
    kube.create(UID, annotations={JOB_ID: str(known)})
    await seen(kube)
    service.start()
    await asyncio.sleep(10)
    assert live(slurm) == {running}
    assert kube.bindings == [(UID, "n1")]


@pytest.mark.parametrize("state", [JobState(BaseState.PENDING), RUNNING])
async def test_job_of_others_that_a_pod_claims_is_not_ended_for_a_twin(slurm, kube, service, state):
    """The annotation says what anybody wrote there, or what was true before Slurm's crash."""
    foreign = slurm.add(admin_comment="", state=state, nodes=("n2",))
    ours = slurm.add(admin_comment=tag(), state=RUNNING, nodes=("n1",))
    kube.create(UID, annotations={JOB_ID: str(foreign)})
    await seen(kube)
    service.start()
    await asyncio.sleep(30)
    assert live(slurm) == {foreign, ours}
    assert kube.bindings == [(UID, "n1")]


async def test_nothing_is_submitted_before_all_jobs_were_seen(slurm, kube, service):
    slurm.fail["all_states"].extend([SlurmBusy("not yet")] * 6)
    kube.create(UID)
    await seen(kube)
    service.start()
    await asyncio.sleep(4)
    assert slurm.calls["submit"] == 0
    await asyncio.sleep(10)
    assert slurm.calls["submit"] == 1


async def test_lost_answer_to_a_submit_leads_to_one_job(slurm, kube, service):
    service.start()
    await asyncio.sleep(5)
    slurm.lose_next_submit = True
    kube.create(UID)
    await asyncio.sleep(30)
    assert len(live(slurm)) == 1
    assert slurm.calls["submit"] == 1
    slurm.start(next(iter(live(slurm))))
    await asyncio.sleep(5)
    assert len(kube.bindings) == 1


_MANY = 3000
# Jobs and pods of before, and of the time since; clocks may differ by minutes.
_LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
_LATER = _LONG_AGO + timedelta(hours=1)


def crowd(slurm: TinySlurm) -> None:
    """Jobs of others, all of them live."""
    for _ in range(_MANY):
        slurm.add(submit_time=int(_LONG_AGO.timestamp()))


async def submitted(slurm: TinySlurm, count: int) -> None:
    async with asyncio.timeout(60):
        while slurm.calls["submit"] < count:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)


async def test_new_pod_does_not_wait_for_a_look_at_all_old_jobs_of_others(slurm, kube, service):
    kube.says_time = False
    crowd(slurm)
    kube.create(UID, created=_LATER)
    await seen(kube)
    service.start()
    await submitted(slurm, 1)
    assert slurm.calls["job"] < _MANY / 10
    kube.create("uid-1", name="second", created=_LATER)
    await submitted(slurm, 2)
    assert slurm.calls["job"] < _MANY / 5


async def test_unrecorded_job_of_a_new_pod_is_found_before_the_old_ones(slurm, kube, service):
    crowd(slurm)
    job_id = slurm.add(admin_comment=tag(), submit_time=int(_LATER.timestamp()))
    kube.create(UID, created=_LATER)
    await seen(kube)
    service.start()
    await asyncio.sleep(10)
    assert slurm.calls["submit"] == 0
    assert_adopted(service, job_id)


@pytest.mark.parametrize("created", [_LONG_AGO, _LONG_AGO + timedelta(minutes=5), None])
async def test_pod_that_may_be_older_than_a_job_waits_for_a_look_at_it(
    slurm, kube, service, created
):
    """The API server does not say its time, so five minutes may be the difference of two clocks."""
    kube.says_time = False
    job_id = slurm.add(admin_comment=tag(), submit_time=int(_LONG_AGO.timestamp()))
    crowd(slurm)
    kube.create(UID, created=created)
    await seen(kube)
    service.start()
    await asyncio.sleep(20)
    assert slurm.calls["submit"] == 0
    assert live(slurm) > {job_id}
    assert_adopted(service, job_id)


@pytest.mark.parametrize("ahead", [-300, 0, 300])
async def test_clocks_that_differ_hide_no_job_of_a_pod(slurm, kube, service, ahead):
    slurm.ahead = ahead
    created = datetime.fromtimestamp(kube.now(), UTC)
    kube.create(UID, created=created)
    job_id = slurm.add(admin_comment=tag(), submit_time=slurm.now() + 1)
    for _ in range(_MANY):
        slurm.add(submit_time=slurm.now() + 1)
    await seen(kube)
    service.start()
    await asyncio.sleep(20)
    assert slurm.calls["submit"] == 0
    assert_adopted(service, job_id)


@pytest.mark.parametrize("ahead", [-300, 0, 300])
async def test_clocks_that_differ_delay_no_pod(slurm, kube, service, ahead):
    """The jobs are a minute older than the pod by each clock."""
    slurm.ahead = ahead
    for _ in range(_MANY):
        slurm.add(submit_time=slurm.now() - 60)
    kube.create(UID, created=datetime.fromtimestamp(kube.now(), UTC))
    await seen(kube)
    service.start()
    await submitted(slurm, 1)
    assert slurm.calls["job"] < _MANY / 10


def tasks_of_an_old_array(slurm: TinySlurm, count: int, *, state: JobState, started: int) -> None:
    """Each has got its id when it started, `started` seconds from now."""
    old, at = slurm.now() - 3600, slurm.now() + started
    for _ in range(count):
        slurm.add(array=1, submit_time=old, start_time=at, state=state, nodes=("n2",))


@pytest.mark.parametrize("state", [RUNNING, JobState(BaseState.PENDING)])
async def test_tasks_of_an_array_that_started_after_the_pod_came_hide_none_of_its_jobs(
    slurm, kube, service, state
):
    kube.create(UID, created=datetime.fromtimestamp(kube.now(), UTC))
    job_id = slurm.add(admin_comment=tag(), submit_time=slurm.now() + 1)
    # One that waits again was preempted, and its start is the one that Slurm expects.
    tasks_of_an_old_array(slurm, _MANY, state=state, started=1 if state is RUNNING else -60)
    await seen(kube)
    service.start()
    await asyncio.sleep(20)
    assert slurm.calls["submit"] == 0
    assert_adopted(service, job_id)


async def test_tasks_of_an_array_that_have_run_for_a_while_delay_no_pod(slurm, kube, service):
    tasks_of_an_old_array(slurm, _MANY, state=RUNNING, started=-60)
    kube.create(UID, created=datetime.fromtimestamp(kube.now(), UTC))
    await seen(kube)
    service.start()
    await submitted(slurm, 1)
    assert slurm.calls["job"] < _MANY / 10


async def test_jobs_of_another_cluster_of_a_federation_hide_none_of_a_pod(slurm, kube, service):
    """Their ids have the number of their cluster in the upper bits, and may be old and high."""
    kube.create(UID, created=datetime.fromtimestamp(kube.now(), UTC))
    job_id = slurm.add(admin_comment=tag(), submit_time=slurm.now() + 1)
    slurm.next_id = (2 << 26) + 1
    for _ in range(_MANY):
        slurm.add(submit_time=slurm.now() - 3600)
    await seen(kube)
    service.start()
    await asyncio.sleep(20)
    assert slurm.calls["submit"] == 0
    assert_adopted(service, job_id)


async def test_clock_that_was_set_before_a_start_leaves_one_job(slurm, kube, service):
    """Slurm's clock was five minutes behind when it noted the submit, and others' jobs hide it."""
    created = datetime.fromtimestamp(kube.now(), UTC)
    kube.create(UID, created=created)
    job_id = slurm.add(admin_comment=tag(), submit_time=slurm.now() - 300, nodes=("n1",))
    for _ in range(_MANY):
        slurm.add(submit_time=slurm.now() - 300)
    others = live(slurm) - {job_id}
    await seen(kube)
    service.start()
    await submitted(slurm, 1)
    await asyncio.sleep(60)
    assert len(live(slurm) - others) == 1
    unit = service.units.get(UID)
    assert unit is not None
    assert unit.job is not None
    assert live(slurm) - others == {unit.job.job_id}


async def looks(slurm: TinySlurm, service: Service, *, afresh: bool = False) -> tuple[int, int]:
    """Lists and single looks that one more census costs, asked for."""
    before, former = slurm.calls.copy(), service.census.completed_at
    service.census.ask(afresh=afresh)
    async with asyncio.timeout(60):
        while service.census.completed_at == former:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
    spent = slurm.calls - before
    return spent["all_states"], spent["job"]


async def first_census(service: Service) -> None:
    service.start()
    async with asyncio.timeout(600):
        while service.census.completed_at is None:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.1)


async def test_later_census_among_many_jobs_of_others_costs_one_request(slurm, service):
    crowd(slurm)
    await first_census(service)
    assert slurm.calls["job"] == _MANY
    assert await looks(slurm, service) == (1, 0)
    newest = [slurm.add(admin_comment="") for _ in range(3)]
    assert await looks(slurm, service) == (1, 3)
    assert {ids for call, ids in slurm.asked[-3:] if call == "job"} == {(it,) for it in newest}
    assert await looks(slurm, service) == (1, 0)
    assert await looks(slurm, service, afresh=True) == (1, _NEWEST)


async def test_census_that_nobody_asked_for_takes_its_time_until_somebody_does(slurm, service):
    await first_census(service)
    crowd(slurm)
    await asyncio.sleep(_PERIOD_SECONDS + 10)
    assert 4 * 9 / _PACE_SECONDS <= slurm.calls["job"] <= 4 * 12 / _PACE_SECONDS
    await looks(slurm, service)
    assert slurm.calls["job"] == _MANY


async def test_ids_are_looked_at_anew_after_slurm_has_lost_its_state(slurm, service):
    """The memory of what was foreign must not hide a job of ours that has one of those ids now."""
    crowd(slurm)
    await first_census(service)
    slurm.jobs.clear()
    slurm.next_id = 1
    orphan = slurm.add(admin_comment=tag("gone-uid"))
    for _ in range(_MANY // 2 - 1):
        slurm.add()
    await looks(slurm, service)
    await asyncio.sleep(5)
    assert not slurm.live(orphan)


async def test_jobs_of_others_that_end_do_not_have_the_rest_looked_at_again(slurm, service):
    crowd(slurm)
    await first_census(service)
    for job_id in range(1, _MANY // 3):
        slurm.end(job_id, BaseState.COMPLETED)
    assert await looks(slurm, service) == (1, 0)


async def test_job_given_back_that_ended_without_our_cancel_is_no_leftover(slurm, kube, service):
    """As one whose cancel was carried out, and the answer lost."""
    kube.create(UID)
    await first_census(service)
    await submitted(slurm, 1)
    unit = service.units.get(UID)
    assert unit is not None
    ended, lives = slurm.add(), slurm.add()
    slurm.end(ended, BaseState.CANCELLED)
    unit.given_back |= {ended, lives}
    await looks(slurm, service)
    assert unit.given_back == {lives}


async def test_job_that_cannot_be_read_is_tried_again_seldom(slurm, service):
    """Such as an array whose first task has gone."""
    await first_census(service)
    odd = slurm.add()
    slurm.fail["job"].append(SlurmUnreadable("no record of that job"))
    assert await looks(slurm, service) == (1, 1)
    assert await looks(slurm, service) == (1, 0)
    await asyncio.sleep(_PERIOD_SECONDS + 10)
    assert slurm.asked.count(("job", (odd,))) == 2


async def test_job_about_which_slurm_never_answers_keeps_no_pod_waiting_for_ever(
    slurm, kube, service
):
    """After a start, a pod gets no job before all jobs have been looked at."""
    poison = slurm.add(submit_time=slurm.now())

    def shown(job: Job) -> Job:
        if job.job_id == poison:
            raise SlurmUnreachable("the connection was cut")
        return job

    slurm.shows = shown
    service.start()
    kube.create(UID, created=datetime.fromtimestamp(slurm.now(), UTC))
    await asyncio.sleep(10)
    assert slurm.calls["submit"] == 0
    await asyncio.sleep(100)
    assert slurm.calls["submit"] == 1
    asked = slurm.asked.count(("job", (poison,)))
    await asyncio.sleep(100)
    assert slurm.asked.count(("job", (poison,))) == asked


async def test_slurm_that_answers_nothing_makes_no_job_unreadable(slurm, kube, service):
    own = slurm.add(submit_time=slurm.now(), admin_comment=tag())
    for operation in ("job", "ping"):
        slurm.fail[operation].extend(SlurmUnreachable("away") for _ in range(60))
    service.start()
    kube.create(UID, created=datetime.fromtimestamp(slurm.now(), UTC))
    await asyncio.sleep(300)
    assert slurm.calls["submit"] == 0
    assert_adopted(service, own)


async def test_answer_with_all_ids_that_takes_long_is_asked_for_seldom(slurm, kube, service):
    slurm.seconds["all_states"] = 4.0
    service.start()
    for _ in range(400):
        await asyncio.sleep(1)
        service.census.ask()
    assert slurm.calls["all_states"] <= 400 / 20 + 1


async def test_pods_that_come_and_go_ask_for_no_census(slurm, kube, service):
    service.start()
    await asyncio.sleep(5)
    for number in range(20):
        kube.create(f"uid-{number}", name=f"train-{number}")
        await asyncio.sleep(2)
    assert slurm.calls["submit"] == 20
    assert slurm.calls["all_states"] == 1


async def test_job_that_a_pass_has_looked_at_meanwhile_is_not_looked_at_again(slurm, kube, service):
    """At a start the census and the passes share thousands of looks."""
    for number in range(200):
        job_id = slurm.add(admin_comment=tag(f"uid-{number}"), name=f"ns.train.{number}")
        kube.create(f"uid-{number}", name=f"train-{number}", annotations={JOB_ID: str(job_id)})
    slurm.seconds["job"] = 0.01
    await seen(kube)
    service.start()
    await asyncio.sleep(3)
    assert service.census.completed_at is not None
    assert 200 <= slurm.calls["job"] < 230
    assert slurm.calls["submit"] == slurm.calls["cancel"] == 0


async def test_running_pods_whose_jobs_the_census_sees_first_are_not_written_to(
    slurm, kube, service
):
    """The pods name their jobs already, and the passes are as slow as the looks."""
    for number in range(100):
        uid, job = f"uid-{number}", {"state": RUNNING, "nodes": ("n1",), "start_time": 1}
        job_id = slurm.add(admin_comment=tag(uid), name=f"ns.train.{number}", **job)
        said = {JOB_ID: str(job_id), JOB_NODES: "n1"}
        kube.create(uid, name=f"train-{number}", annotations=said, node="n1", phase="Running")
    slurm.seconds["job"] = 0.5
    await seen(kube)
    service.start()
    await asyncio.sleep(60)
    assert kube.patches == []
    assert all(unit.job is not None and unit.job.record is not None for unit in service.units)


async def test_start_that_a_look_of_the_census_shows_first_binds_the_pod(slurm, kube, service):
    """The next pulse shows nothing new then, so the pod must get its pass from the census."""
    kube.create("uid-1")
    service.start()
    await asyncio.sleep(1)
    slurm.start(1, "CONFIGURING", node="n1")
    await asyncio.sleep(5)
    slurm.seconds["states"] = 600.0
    await asyncio.sleep(1)
    slurm.change(1, BaseState.RUNNING)
    unit = service.units.get("uid-1")
    await service.census._look(unit, unit.job)
    await asyncio.sleep(1)
    assert kube.bindings == [("uid-1", "n1")]


async def test_job_that_a_pod_gave_back_before_it_joined_a_gang_is_ended(slurm, kube, service):
    """The former process had no gangs, and ended before its cancel was accepted."""
    comment = tag_of(owner=OWNER, uids=(UID,), given_back=True)
    former = slurm.add(admin_comment=comment, name="ns.train.uid-0", state=RUNNING, nodes=("n1",))
    labels = {f"{PREFIX}gang": "duo", f"{PREFIX}gang-size": "2"}
    kube.create(UID, annotations=labels)
    await seen(kube)
    service.start()
    await asyncio.sleep(10)
    searches = slurm.calls["all_states"]
    await asyncio.sleep(_PERIOD_SECONDS / 2)
    assert not slurm.live(former)
    assert slurm.calls["all_states"] - searches <= 1
