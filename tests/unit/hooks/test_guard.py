"""Whom the next job on a node waits for, and whom it does not."""

from __future__ import annotations

import asyncio
import time

import pytest

from scheduler.core.owner_tag import Owner
from scheduler.hooks.guard import HandoverAnswer
from scheduler.state.units import Placeholder, Unit
from slurmapi import BaseState, Job, JobState, SlurmUnreachable
from tests.support.loop_turns import beside
from tests.unit.hooks.conftest import Scene, pod_on

pytestmark = pytest.mark.looptime

SHORT = 0.15
LONG = 10.0
NATIVE = 900


async def cleared(scene: Scene, *, job_id: int = NATIVE, nodes=("n1",), seconds: float = SHORT):
    return await scene.guard.clear(job_id, nodes, seconds=seconds)


async def test_empty_node_is_free_and_slurm_is_not_asked(scene):
    assert (await cleared(scene)).answer is HandoverAnswer.FREE
    assert not scene.slurm.calls


async def test_pod_whose_job_holds_its_share_of_the_node_is_in_nobodys_way(scene):
    scene.running_pod("a")
    assert (await cleared(scene)).answer is HandoverAnswer.FREE


async def test_each_pod_of_a_unit_is_held_by_the_job_of_the_unit(scene):
    job_id = scene.gang_on("gang", a="n1", b="n2")
    assert (await cleared(scene, nodes=("n1", "n2"))).answer is HandoverAnswer.FREE
    scene.slurm.end(job_id, BaseState.CANCELLED)
    assert (await cleared(scene, nodes=("n2",))).answer is HandoverAnswer.BUSY


async def test_job_that_runs_in_place_of_a_suspended_one_waits_until_its_pod_has_gone(scene):
    job_id = scene.running_pod("a")
    scene.slurm.change(job_id, BaseState.SUSPENDED)
    verdict = await cleared(scene)
    assert (verdict.answer, verdict.pods) == (HandoverAnswer.BUSY, ("ns/a",))
    scene.stop("a")
    assert (await cleared(scene)).answer is HandoverAnswer.FREE


async def test_suspended_pod_that_the_site_keeps_is_in_nobodys_way(scene):
    guard = scene.make_guard(keeps_suspended=True)
    job_id = scene.running_pod("a")
    scene.slurm.change(job_id, BaseState.SUSPENDED)
    assert (await guard.clear(NATIVE, ("n1",), seconds=SHORT)).answer is HandoverAnswer.FREE


async def test_job_that_ended_an_instant_ago_is_known_to_have_ended(scene):
    job_id = scene.running_pod("a")
    await cleared(scene)
    scene.slurm.end(job_id, BaseState.PREEMPTED)
    verdict = await cleared(scene)
    assert verdict.answer is HandoverAnswer.BUSY
    assert verdict.pods == ("ns/a",)


async def test_question_starts_the_end_of_the_pod_that_is_in_the_way(scene):
    scene.departing_pod("a")
    await cleared(scene)
    assert "a" in scene.changed


async def test_waits_until_the_last_pod_in_the_way_is_gone(scene):
    scene.departing_pod("a")
    scene.departing_pod("b")
    asking = asyncio.create_task(cleared(scene, seconds=LONG))
    await asyncio.sleep(0.05)
    scene.stop("a")
    await asyncio.sleep(0.05)
    assert not asking.done()
    scene.finish("b")
    assert (await asking).answer is HandoverAnswer.FREED


async def test_pods_on_other_nodes_are_in_nobodys_way(scene):
    scene.departing_pod("a", node="n2")
    assert (await cleared(scene)).answer is HandoverAnswer.FREE
    assert (await cleared(scene, nodes=("n1", "n2"))).answer is HandoverAnswer.BUSY


async def test_requeued_placeholder_holds_nothing(scene):
    job_id = scene.running_pod("a")
    scene.slurm.requeue(job_id)
    assert (await cleared(scene)).answer is HandoverAnswer.BUSY


async def test_placeholder_that_slurm_forgot_holds_nothing(scene):
    job_id = scene.running_pod("a")
    scene.slurm.forget(job_id)
    assert (await cleared(scene)).answer is HandoverAnswer.BUSY


async def test_placeholder_on_another_node_does_not_hold_this_one(scene):
    job_id = scene.running_pod("a", node="n1")
    scene.slurm.change(job_id, BaseState.RUNNING, nodes=("n2",))
    assert (await cleared(scene)).answer is HandoverAnswer.BUSY


async def test_job_id_that_is_anothers_now_holds_nothing(scene):
    """slurmctld gives ids out again after a crash; a pod may also claim any id."""
    job_id = scene.running_pod("a")
    scene.slurm.change(job_id, BaseState.RUNNING, admin_comment="")
    assert (await cleared(scene)).answer is HandoverAnswer.BUSY


async def test_job_that_is_known_to_be_the_pods_holds_its_node_without_its_tag(scene):
    job_id = scene.running_pod("a")
    scene.slurm.change(job_id, BaseState.RUNNING, admin_comment="an operator's", submit_time=5)
    scene.units.get("a").job.known_as = (scene.slurm.jobs[job_id].name, 5)
    assert (await cleared(scene)).answer is HandoverAnswer.FREE


async def test_pod_does_not_wait_for_itself(scene):
    """Its node was asked for anew while it runs there."""
    scene.departing_pod("a")
    again = scene.placeholder("a", node="n1")
    assert (await cleared(scene, job_id=again)).answer is HandoverAnswer.FREE


async def test_pod_does_not_wait_for_itself_when_a_further_component_asks(scene):
    """Only the first component of a heterogeneous job has the tag."""
    scene.departing_pod("a")
    again = scene.placeholder("a", node="n1")
    second = scene.slurm.add(state=JobState(BaseState.RUNNING), nodes=("n1",), leader=again)
    assert (await cleared(scene, job_id=second)).answer is HandoverAnswer.FREE
    stranger = scene.slurm.add(state=JobState(BaseState.RUNNING), nodes=("n1",))
    assert (await cleared(scene, job_id=stranger)).answer is HandoverAnswer.BUSY


async def test_tag_of_another_owner_stands_for_none_of_our_pods(scene):
    scene.departing_pod("a")
    forged = scene.placeholder("a", node="n1", owner=Owner("cluster-2", "slurm-scheduler"))
    assert (await cleared(scene, job_id=forged)).answer is HandoverAnswer.BUSY


async def test_pod_without_a_known_job_is_in_the_way(scene):
    scene.units.add(Unit("a", "ns", "a", seen_at=0.0))
    scene.presence.changed(None, pod_on("n1", uid="a"))
    assert (await cleared(scene)).answer is HandoverAnswer.BUSY


async def test_pod_that_somebody_else_put_there_is_not_waited_for(scene):
    scene.units.add(Unit("a", "ns", "a", seen_at=0.0))
    scene.presence.changed(None, pod_on("n1", uid="a", ours=False))
    assert (await cleared(scene)).answer is HandoverAnswer.FREE


async def test_annotations_taken_away_do_not_hide_a_pod(scene):
    scene.departing_pod("a")
    scene.presence.changed(pod_on("n1", uid="a"), pod_on("n1", uid="a", ours=False))
    assert (await cleared(scene)).answer is HandoverAnswer.BUSY


async def test_annotations_taken_away_before_a_restart_hide_no_pod_that_has_a_job(scene):
    """A census knows the pod by the tag of its job."""
    job_id = scene.placeholder("a", node="n1")
    scene.presence.changed(None, pod_on("n1", uid="a", ours=False))
    scene.units.add(Unit("a", "ns", "a", seen_at=0.0, job=Placeholder(job_id)))
    assert (await cleared(scene)).answer is HandoverAnswer.FREE
    scene.slurm.end(job_id, BaseState.PREEMPTED)
    assert (await cleared(scene)).answer is HandoverAnswer.BUSY
    scene.stop("a")
    assert (await cleared(scene)).answer is HandoverAnswer.FREE


async def test_binding_under_way_counts_as_a_pod(scene):
    """Its placeholder ended while the binding was sent: the watch shows the pod too late."""
    scene.departing_pod("a")
    scene.presence.changed(None, pod_on("", uid="a"))
    scene.units.binding["a"] = "n1"
    assert (await cleared(scene)).answer is HandoverAnswer.BUSY
    scene.stop("a")
    assert (await cleared(scene)).answer is HandoverAnswer.FREE
    assert not scene.units.binding


async def test_nothing_is_known_before_the_pods_are_listed(scene):
    scene.synced.clear()
    assert (await cleared(scene)).answer is HandoverAnswer.UNKNOWN
    asking = asyncio.create_task(cleared(scene, seconds=LONG))
    await asyncio.sleep(0.02)
    scene.synced.set()
    assert (await asking).answer is HandoverAnswer.FREE


async def test_silent_slurm_is_no_evidence(scene):
    scene.running_pod("a")
    scene.slurm.fail["states"].extend(SlurmUnreachable("down") for _ in range(100))
    assert (await cleared(scene)).answer is HandoverAnswer.UNKNOWN


async def test_slurm_that_comes_back_is_believed(scene):
    scene.running_pod("a")
    scene.slurm.fail["states"].append(SlurmUnreachable("down"))
    assert (await cleared(scene, seconds=LONG)).answer is HandoverAnswer.FREE


async def test_thousand_questions_cost_slurm_a_few_requests(scene):
    for number in range(50):
        scene.running_pod(f"pod-{number}", node=f"n{number}")
    await asyncio.gather(*(cleared(scene, nodes=(f"n{n}",), seconds=LONG) for n in range(50)))
    scene.slurm.calls.clear()
    asked = [cleared(scene, nodes=(f"n{n % 50}",), seconds=LONG) for n in range(1000)]
    answers = await asyncio.gather(*asked)
    assert {verdict.answer for verdict in answers} == {HandoverAnswer.FREE}
    assert scene.slurm.calls["states"] <= 3
    assert not scene.slurm.calls["job"]


async def test_others_get_their_turns_while_a_job_of_very_many_nodes_is_asked_about(scene):
    def slow(node: str) -> str:
        until = time.thread_time() + 0.001
        while time.thread_time() < until:
            pass
        return node

    guard = scene.make_guard(kube_node=slow)
    nodes = tuple(f"n{number}" for number in range(100))
    async with beside() as turns:
        assert (await guard.clear(NATIVE, nodes, seconds=SHORT)).answer is HandoverAnswer.FREE
    assert turns.count > 10


async def test_nodes_of_a_gangs_job_are_mapped_once_for_all_its_pods(scene):
    """A question about the nodes of a gang of 1024 pods took 640 ms in one turn of the loop."""
    mapped = list[str]()

    def kube_node(node: str) -> str:
        mapped.append(node)
        return node

    nodes = {f"p{number}": f"n{number}" for number in range(40)}
    scene.gang_on("gang", **nodes)
    guard = scene.make_guard(kube_node=kube_node)
    verdict = await guard.clear(NATIVE, tuple(nodes.values()), seconds=SHORT)
    assert verdict.answer is HandoverAnswer.FREE
    assert len(mapped) <= 3 * len(nodes)


async def test_pods_that_leave_one_after_the_other_cost_slurm_a_few_requests(scene):
    """1024 of them within 20 s cost it 50 requests a second."""
    nodes = {f"p{number}": f"n{number}" for number in range(40)}
    job_id = scene.gang_on("gang", **nodes)
    scene.slurm.end(job_id, BaseState.CANCELLED)
    asking = asyncio.create_task(cleared(scene, nodes=tuple(nodes.values()), seconds=LONG))
    await asyncio.sleep(0.05)
    scene.slurm.calls.clear()
    began = asyncio.get_running_loop().time()
    for uid in nodes:
        scene.stop(uid)
        await asyncio.sleep(0.02)
    assert (await asking).answer is HandoverAnswer.FREED
    seconds = asyncio.get_running_loop().time() - began
    assert scene.slurm.calls["states"] <= 2 + seconds / 0.25


async def test_job_that_waits_is_read_once(scene):
    """A crowd of jobs that wait for one pod would otherwise be a storm of requests."""
    scene.departing_pod("a")
    await cleared(scene)
    scene.slurm.calls.clear()
    assert (await cleared(scene, seconds=60.0)).answer is HandoverAnswer.BUSY
    assert scene.slurm.calls["job"] == 1


async def test_job_that_waits_is_read_again_when_another_pod_gets_in_its_way(scene):
    scene.departing_pod("a")
    asked = asyncio.create_task(cleared(scene, job_id=0, seconds=LONG))
    await asyncio.sleep(1.0)
    scene.slurm.calls.clear()
    scene.departing_pod("b")
    assert (await asked).pods == ("ns/a", "ns/b")
    assert scene.slurm.calls["job"] >= 1


async def test_placeholder_is_told_when_its_pod_is_gone(scene):
    scene.departing_pod("a")
    assert (await scene.guard.gone("a", seconds=SHORT)).answer is HandoverAnswer.BUSY
    assert scene.hurries == 1, "its job has most likely ended"
    asking = asyncio.create_task(scene.guard.gone("a", seconds=LONG))
    await asyncio.sleep(0.02)
    scene.stop("a")
    assert (await asking).answer is HandoverAnswer.FREED
    assert (await scene.guard.gone("a", seconds=LONG)).answer is HandoverAnswer.FREE


async def test_placeholder_of_a_gang_is_told_when_all_its_pods_are_gone(scene):
    scene.gang_on("gang", a="n1", b="n2")
    assert (await scene.guard.gone("gang", seconds=SHORT)).answer is HandoverAnswer.BUSY
    assert scene.hurries == 1, "its job has most likely ended"
    asking = asyncio.create_task(scene.guard.gone("gang", seconds=LONG))
    await asyncio.sleep(0.05)
    scene.stop("a")
    await asyncio.sleep(0.05)
    assert not asking.done()
    scene.finish("b", node="n2")
    assert (await asking).answer is HandoverAnswer.FREED
    assert (await scene.guard.gone("gang", seconds=LONG)).answer is HandoverAnswer.FREE


async def test_placeholder_of_a_gang_does_not_wait_for_pods_that_come_again_meanwhile(scene):
    scene.gang_on("gang", a="n1", b="n2")
    asking = asyncio.create_task(scene.guard.gone("gang", seconds=LONG))
    await asyncio.sleep(0.05)
    scene.gangs["gang"].add("c")
    scene.presence.changed(None, pod_on("n3", uid="c"))
    scene.stop("a")
    scene.finish("b", node="n2")
    assert (await asking).answer is HandoverAnswer.FREED


async def test_placeholder_of_a_gang_waits_for_a_pod_that_was_deleted_by_force(scene):
    """The watch shows it no longer; the unit still has it."""
    scene.gang_on("gang", a="n1", b="n2")
    scene.stop("b")
    scene.force_delete("a")
    scene.gangs.clear()
    assert (await scene.guard.gone("gang", seconds=SHORT)).answer is HandoverAnswer.BUSY


async def test_placeholder_of_a_gang_that_a_new_process_has_not_met_waits_for_its_pods(scene):
    """The watch shows its pods before the process has a unit for them."""
    scene.gang_on("gang", a="n1", b="n2")
    scene.units.remove("gang")
    assert (await scene.guard.gone("gang", seconds=SHORT)).answer is HandoverAnswer.BUSY
    assert not await scene.guard.is_over("gang")
    for uid, node in ("a", "n1"), ("b", "n2"):
        scene.presence.changed(pod_on(node, uid=uid, phase="Succeeded"), None)
    assert await scene.guard.is_over("gang")


async def test_question_of_a_placeholder_costs_slurm_no_request_of_its_own(scene):
    """Its user has the token, and may ask without end."""
    scene.running_pod("a")
    for _ in range(100):
        await scene.guard.gone("a", seconds=SHORT)
    assert not scene.slurm.calls


async def test_pod_deleted_by_force_is_in_the_way_until_its_node_is_dead(scene):
    """Its job has ended, and its unit is forgotten: only what it left is known."""
    scene.departing_pod("a")
    scene.force_delete("a")
    scene.units.remove("a")
    verdict = await cleared(scene)
    assert (verdict.answer, verdict.pods) == (HandoverAnswer.BUSY, ("ns/a",))
    assert (await scene.guard.gone("a", seconds=SHORT)).answer is HandoverAnswer.BUSY
    assert not await scene.guard.is_over("a")
    scene.presence.judge_nodes(lambda node: node == "n1")
    assert (await cleared(scene)).answer is HandoverAnswer.FREE
    assert (await scene.guard.gone("a", seconds=SHORT)).answer is HandoverAnswer.FREE
    assert await scene.guard.is_over("a")


async def test_pod_that_is_on_no_node_is_as_good_as_gone(scene):
    job_id = scene.placeholder("a", node="n1")
    scene.units.add(Unit("a", "ns", "a", seen_at=0.0))
    scene.presence.changed(None, pod_on("", uid="a"))
    assert scene.slurm.live(job_id)
    assert (await scene.guard.gone("a", seconds=SHORT)).answer is HandoverAnswer.FREE


async def test_what_is_behind_a_node_is_asked_once_that_is_known(scene):
    """A prolog asks while this process starts; the node has another name in Kubernetes."""
    scene.synced.clear()
    asking = asyncio.create_task(cleared(scene, nodes=("gpu-1",), seconds=1.0))
    await asyncio.sleep(0.02)
    scene.behind["gpu-1"] = "n1"
    scene.departing_pod("a")
    scene.synced.set()
    assert (await asking).answer is HandoverAnswer.BUSY


async def test_end_that_the_guard_is_the_first_to_see_is_told(scene):
    """The next pulse finds the state that is known already."""
    job_id = scene.running_pod("a")
    await scene.pulse.look_now([job_id])
    unit = scene.units.get("a")
    scene.changed.clear()
    job = scene.slurm.job

    async def ends_before(asked: int) -> Job:
        scene.slurm.end(job_id, BaseState.PREEMPTED)
        found: Job = await job(asked)
        return found

    scene.slurm.job = ends_before
    waiting = scene.placeholder("b", node="n1")
    await scene.guard.clear(waiting, ["n1"], seconds=1)
    assert unit.job.state.ended
    assert "a" in scene.changed
