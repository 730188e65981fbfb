"""No pod is bound beside one whose containers may run while no job of it holds the Node (I12)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from scheduler.core.intervals import UNFIT_SECONDS
from scheduler.core.naming import JOB_ID, JOB_NODES
from scheduler.core.node_suitability import Taint
from scheduler.kube.wire import ObjectMeta, Pod, PodSpec
from scheduler.nodes.presence import CLAIM_SECONDS
from scheduler.observe.wake import WakeCause
from scheduler.state.pod_remains import KUBELET_SECONDS
from slurmapi import BaseState
from tests.unit.core.things import tag
from tests.unit.service.test_gangs import member
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import OWNER, Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime
OLD = "old"
NEW = "new"
GRACE = 20  # of each pod here
# A condition that keeps its reason changes its wording no more often than each 10 s.
_WORDING_SECONDS = 12.0
SOME_DAY = datetime(2026, 11, 1, tzinfo=UTC)
MARKS = {JOB_ID: "999", JOB_NODES: "n1"}


async def old_pod_runs(service: Service) -> int:
    """A pod that this process has bound to n1; gives its job."""
    service.start()
    return await service.bound(OLD, name="old")


async def new_job_starts(slurm: TinySlurm, kube: TinyKube, *, seconds: float = 5) -> int:
    """Slurm gives n1 to the next pod; gives its job."""
    kube.create(NEW, name="new")
    await asyncio.sleep(5)
    job_id = max(it for it, job in slurm.jobs.items() if f'"{NEW}"' in job.admin_comment)
    slurm.start(job_id, node="n1")
    await asyncio.sleep(seconds)
    return int(job_id)


def is_bound(kube: TinyKube) -> bool:
    return (NEW, "n1") in kube.bindings


def told(kube: TinyKube) -> str:
    written = kube.condition_of(NEW)
    return "" if written is None else written.message


async def test_pods_whose_jobs_hold_their_shares_live_on_one_node(slurm, kube, service):
    await old_pod_runs(service)
    await new_job_starts(slurm, kube, seconds=1)
    assert is_bound(kube)


async def test_pod_waits_for_one_whose_job_has_ended(slurm, kube, service):
    job_id = await old_pod_runs(service)
    slurm.end(job_id, BaseState.PREEMPTED)
    await new_job_starts(slurm, kube, seconds=_WORDING_SECONDS)
    assert not is_bound(kube)
    assert "pod old may still run" in told(kube)
    kube.end_containers(OLD)
    await asyncio.sleep(3)
    assert is_bound(kube)


@pytest.mark.parametrize("nodes", [("n1", "n2"), ("n2", "n1")], ids=["first", "second"])
async def test_gang_waits_whole_for_a_pod_on_one_of_its_nodes(slurm, kube, service, nodes):
    job_id = await old_pod_runs(service)
    slurm.end(job_id, BaseState.PREEMPTED)
    for rank in (0, 1):
        member(kube, rank)
    await asyncio.sleep(5)
    (gang,) = slurm.submissions.keys() - {job_id}
    slurm.change(gang, BaseState.RUNNING, nodes=nodes, start_time=1)
    await asyncio.sleep(_WORDING_SECONDS)
    assert kube.bindings == [(OLD, "n1")]
    for uid in ("uid-0", "uid-1"):
        said = kube.condition_of(uid)
        assert said is not None
        assert "pod old may still run" in said.message
    kube.end_containers(OLD)
    await asyncio.sleep(3)
    assert dict(kube.bindings[1:]) == dict(zip(("uid-0", "uid-1"), nodes, strict=True))


async def test_pod_is_not_bound_on_what_was_known_before_its_own_job_started(slurm, kube, service):
    """The other job ends in the same moment, and the answer that says so is slow."""
    job_id = await old_pod_runs(service)
    kube.create(NEW, name="new")
    await asyncio.sleep(5)
    (new,) = slurm.jobs.keys() - {job_id}
    states, slow = slurm.job_states, asyncio.Event()

    async def late(job_ids=None):
        await slow.wait()
        return await states(job_ids)

    slurm.job_states = late
    await asyncio.sleep(1)
    slurm.end(job_id, BaseState.PREEMPTED)
    slurm.start(new, node="n1")
    service.units.get(NEW).job.state = None  # have it looked at by itself
    service.queue.add(NEW, WakeCause.WATCH)
    await asyncio.sleep(3)
    assert not is_bound(kube)
    slow.set()
    await asyncio.sleep(3)
    assert not is_bound(kube)


async def test_pod_waits_for_one_whose_lost_job_is_asked_for_anew(slurm, kube, service):
    """Its new job waits for the very node that Slurm has given away."""
    job_id = await old_pod_runs(service)
    slurm.forget(job_id)
    held = await new_job_starts(slurm, kube, seconds=20)
    assert not is_bound(kube)
    await asyncio.sleep(UNFIT_SECONDS)
    assert not slurm.live(held), "two that wait for each other"
    anew = max(slurm.jobs, key=lambda it: (f'"{OLD}"' in slurm.jobs[it].admin_comment, it))
    slurm.start(anew, node="n1")
    await asyncio.sleep(60)
    new = max(slurm.jobs)
    if not is_bound(kube) and slurm.jobs[new].state.base is BaseState.PENDING:
        slurm.start(new, node="n1")
    await asyncio.sleep(10)
    assert is_bound(kube)


async def test_node_is_given_back_and_left_out_where_a_pod_does_not_leave(slurm, kube, service):
    job_id = await old_pod_runs(service)
    slurm.end(job_id, BaseState.CANCELLED)
    held = await new_job_starts(slurm, kube, seconds=UNFIT_SECONDS + 10)
    assert not slurm.live(held)
    assert not is_bound(kube)
    await asyncio.sleep(10)
    again = slurm.submissions[max(slurm.jobs)]
    assert again.excluded_nodes == ("n1",)
    reasons = service.recorder.reasons(NEW)
    assert "NodeUnavailable" in reasons


async def test_name_of_a_pod_is_not_told_in_another_namespace(slurm, kube, service):
    job_id = await old_pod_runs(service)
    service.units.get(OLD).namespace = "another"
    slurm.end(job_id, BaseState.PREEMPTED)
    await new_job_starts(slurm, kube, seconds=_WORDING_SECONDS)
    assert "a pod of another namespace" in told(kube)
    assert "pod old" not in told(kube)


async def test_next_process_waits_for_a_pod_whose_job_ended_meanwhile(slurm, kube):
    kube.create(OLD, name="old", node="n1", annotations=MARKS)
    kube.delete(OLD)
    await asyncio.sleep(1)
    service = Service(slurm, kube)
    service.start()
    await new_job_starts(slurm, kube)
    assert not is_bound(kube)
    kube.end_containers(OLD)
    await asyncio.sleep(3)
    assert is_bound(kube)
    await service.kill()


async def test_job_of_a_former_process_proves_a_pod(slurm, kube):
    """For as long as its containers may run, however its job has ended."""
    ended = slurm.add(admin_comment=tag(uids=(OLD,)), nodes=("n1",))
    slurm.start(ended, node="n1")
    kube.create(OLD, name="old", node="n1", annotations=MARKS | {JOB_ID: str(ended)})
    await asyncio.sleep(1)
    service = Service(slurm, kube)
    service.start()
    await asyncio.sleep(CLAIM_SECONDS + 10)
    slurm.end(ended, BaseState.CANCELLED)
    await new_job_starts(slurm, kube)
    assert not is_bound(kube)
    await service.kill()


@pytest.mark.parametrize("marks", [{}, MARKS], ids=["no marks", "forged marks"])
async def test_pod_that_its_author_put_on_a_node_holds_up_nobody(slurm, kube, service, marks):
    service.start()
    await asyncio.sleep(CLAIM_SECONDS + 10)
    kube.create(OLD, name="old", node="n1", annotations=marks)
    kube.delete(OLD)
    await new_job_starts(slurm, kube)
    assert is_bound(kube)


async def test_question_costs_what_is_on_the_node_and_nothing_more(slurm, kube, service):
    """Thousands of pods elsewhere are not gone through, and none that has left is kept."""
    for number in range(3000):
        kube.create(f"uid-{number}", node=f"far-{number}", annotations=MARKS)
    service.start()
    await asyncio.sleep(1)
    asked = service.presence.on(["n1"], has_job=lambda _uid: pytest.fail("it is elsewhere"))
    assert asked == {}
    for uid in list(kube.pods):
        kube.end_containers(uid)
    await asyncio.sleep(1)
    assert not service.presence._placed
    assert not service.presence._on


async def test_job_that_started_while_a_census_looked_at_it_waits_for_newer_news(
    slurm, kube, service
):
    """The other job ends meanwhile, and was asked about only before."""
    job_id = await old_pod_runs(service)
    found = slurm.add(admin_comment=tag(owner=OWNER, uids=(NEW,)), submit_time=0)
    answer, states, silent = slurm.job, slurm.job_states, asyncio.Event()

    async def late(asked):
        if asked == found:
            await asyncio.sleep(3)
            slurm.end(job_id, BaseState.PREEMPTED)
            slurm.start(found, node="n1")
            await asyncio.sleep(0)
            slurm.job_states = quiet
        return await answer(asked)

    async def quiet(job_ids=None):
        await silent.wait()
        return await states(job_ids)

    slurm.job = late
    service.census.ask()
    kube.create(NEW, name="new")
    await asyncio.sleep(10)
    assert not is_bound(kube)
    silent.set()
    await asyncio.sleep(3)
    assert not is_bound(kube)


async def test_job_that_was_requeued_unseen_waits_for_news_since_its_second_start(
    slurm, kube, service
):
    job_id = await old_pod_runs(service)
    kube.set_node("n2", ready=False)
    kube.create(NEW, name="new")
    await asyncio.sleep(5)
    (new,) = slurm.jobs.keys() - {job_id}
    slurm.start(new, node="n2")
    await asyncio.sleep(5)
    states, silent = slurm.job_states, asyncio.Event()

    async def quiet(job_ids=None):
        await silent.wait()
        return await states(job_ids)

    slurm.job_states = quiet
    await asyncio.sleep(1)
    slurm.end(job_id, BaseState.PREEMPTED)
    slurm.requeue(new)
    slurm.start(new, node="n1")
    await asyncio.sleep(5)
    assert not is_bound(kube)
    silent.set()
    await asyncio.sleep(3)
    assert not is_bound(kube)


async def test_binding_that_the_watch_does_not_show_yet_is_no_authors_word(slurm, kube, service):
    """Long after the start, when a pod's own word for its Node does not count any more."""
    service.start()
    await asyncio.sleep(CLAIM_SECONDS + 10)
    kube.create(OLD, name="old")
    kube.create(NEW, name="new")
    await asyncio.sleep(5)
    jobs = {uid: service.units.get(uid).job.job_id for uid in (OLD, NEW)}
    kube.lag = 60
    slurm.start(jobs[OLD], node="n1")
    await asyncio.sleep(5)
    assert kube.bindings == [(OLD, "n1")]
    slurm.end(jobs[OLD], BaseState.PREEMPTED)
    slurm.start(jobs[NEW], node="n1")
    await asyncio.sleep(5)
    assert not is_bound(kube)


@pytest.mark.parametrize("keeps", [False, True])
async def test_suspended_pod_is_in_the_way_unless_the_site_keeps_it(slurm, kube, keeps):
    """What runs in its place computes on the same cores."""
    service = Service(slurm, kube, keeps_suspended=keeps)
    job_id = await old_pod_runs(service)
    slurm.change(job_id, BaseState.SUSPENDED)
    await new_job_starts(slurm, kube)
    assert is_bound(kube) == keeps
    await service.kill()


@pytest.mark.parametrize(
    "case", ["as it should be", "overwritten", "elsewhere", "anothers", "slurm is silent"]
)
async def test_job_covers_its_own_pod_on_its_own_node_only(slurm, kube, service, case):
    await old_pod_runs(service)
    await new_job_starts(slurm, kube, seconds=1)
    old, new = service.units.get(OLD), service.units.get(NEW)
    old.job.asked_at = new.job.runs_from
    if case == "elsewhere":
        old.job.wrote(replace(old.job.record, nodes=("n2",)))
    elif case == "overwritten":
        old.job.wrote(replace(old.job.record, admin_comment="an operator's"))
    elif case == "anothers":
        later = old.job.record.submit_time + 1
        old.job.wrote(replace(old.job.record, admin_comment="", submit_time=later))
    elif case == "slurm is silent":
        service.units.silent = True
    in_way = service.parts.coverage.in_way(new, ["n1"])
    assert (in_way is None) == (case in {"as it should be", "overwritten"})


async def old_pod_went_without_a_job(slurm, kube, service) -> None:
    """Its job has ended, and it was deleted by force while it stopped."""
    job_id = await old_pod_runs(service)
    slurm.end(job_id, BaseState.PREEMPTED)
    await asyncio.sleep(3)
    kube.force_delete(OLD)
    await asyncio.sleep(1)
    assert service.units.get(OLD) is None


async def test_pod_waits_for_what_one_left_that_was_deleted_by_force(slurm, kube, service):
    await old_pod_went_without_a_job(slurm, kube, service)
    went = asyncio.get_running_loop().time() - 1
    await new_job_starts(slurm, kube, seconds=_WORDING_SECONDS)
    assert "pod old, deleted before its containers had stopped, may still run" in told(kube)
    await asyncio.sleep(went + GRACE + KUBELET_SECONDS - 1 - asyncio.get_running_loop().time())
    assert not is_bound(kube)
    await asyncio.sleep(3)
    assert is_bound(kube)


async def test_pod_waits_for_what_one_left_whose_job_ended_later(slurm, kube, service):
    """Its job stayed for what it left, and Slurm has taken the node before that was over."""
    job_id = await old_pod_runs(service)
    kube.force_delete(OLD)
    await asyncio.sleep(10)
    slurm.end(job_id, BaseState.PREEMPTED)
    await new_job_starts(slurm, kube)
    assert not is_bound(kube)
    await asyncio.sleep(GRACE + KUBELET_SECONDS)
    assert is_bound(kube)


async def test_share_that_the_job_of_a_forced_pod_still_holds_is_in_nobodys_way(
    slurm, kube, service
):
    await old_pod_runs(service)
    kube.force_delete(OLD)
    await new_job_starts(slurm, kube)
    assert is_bound(kube)


async def is_in_way(kube, service) -> bool:
    """Whether somebody is in the way of the next pod on n1, which Slurm has not given to it yet."""
    if NEW not in kube.pods:
        kube.create(NEW, name="new")
        await asyncio.sleep(5)
    new = service.units.get(NEW)
    new.job.runs_from = 0.0
    return service.parts.coverage.in_way(new, ["n1"]) is not None


async def test_nothing_that_was_left_on_a_dead_node_is_in_the_way(slurm, kube, service):
    await old_pod_went_without_a_job(slurm, kube, service)
    assert await is_in_way(kube, service)
    kube.set_node("n1", taints=(Taint("node.kubernetes.io/out-of-service", "NoExecute", ""),))
    await asyncio.sleep(1)
    assert not await is_in_way(kube, service)


async def test_pod_that_a_list_had_lacked_is_there_as_before(slurm, kube, service):
    """Until its containers have stopped, however long that takes, and no longer."""
    job_id = await old_pod_runs(service)
    slurm.end(job_id, BaseState.PREEMPTED)
    await asyncio.sleep(3)
    kube.lose(OLD)
    await asyncio.sleep(1)
    kube.list_again()
    await asyncio.sleep(GRACE + KUBELET_SECONDS + 5)
    assert await is_in_way(kube, service)
    kube.end_containers(OLD)
    await asyncio.sleep(1)
    assert not await is_in_way(kube, service)


async def test_next_process_waits_for_what_a_pod_left_that_it_saw_go(slurm, kube):
    """Its job is known to nobody any more, and its annotations are all that is known of it."""
    kube.create(OLD, name="old", node="n1", annotations=MARKS)
    await asyncio.sleep(1)
    service = Service(slurm, kube)
    service.start()
    await asyncio.sleep(5)
    kube.force_delete(OLD)
    await new_job_starts(slurm, kube)
    assert not is_bound(kube)
    await asyncio.sleep(GRACE + KUBELET_SECONDS)
    assert is_bound(kube)
    await service.kill()


async def test_what_forged_pods_left_holds_up_nobody(slurm, kube, service):
    """Not even one whose grace is a century: nobody has put it there but its author."""
    service.start()
    await asyncio.sleep(CLAIM_SECONDS + 10)
    spec = PodSpec(node_name="n1", termination_grace_period_seconds=3_000_000_000)
    kube.create(OLD, name="old", annotations=MARKS, spec=spec)
    await asyncio.sleep(1)
    kube.force_delete(OLD)
    await new_job_starts(slurm, kube)
    assert is_bound(kube)


async def test_binding_does_not_count_once_its_pod_is_deleted_without_a_node(kube, service):
    """The API server binds no pod that is being deleted. A finalizer may keep it for ever."""
    service.units.binding[OLD] = "n1"
    waiting = Pod(ObjectMeta(name="old", namespace="ns", uid=OLD))
    deleted = replace(waiting, metadata=replace(waiting.metadata, deletion_timestamp=SOME_DAY))
    service.presence.changed(None, waiting)
    assert service.presence.node_of(OLD) == "n1"
    service.presence.changed(waiting, deleted)
    assert service.presence.node_of(OLD) is None
