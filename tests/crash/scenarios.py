"""What the scheduler lives through while it dies: each way a pod and its job can go.

A scenario waits for what is to come, however often the process was started anew meanwhile, so that
it can be played with a death at any point.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from scheduler.sandbox.kube.deletion import DeleteOptions
from scheduler.sandbox.kube.kubelet import EXIT_CODE, RUN_SECONDS, STOP_SECONDS
from scheduler.sandbox.kube.resources import JOBS, LEADER_WORKER_SETS, NODES, POD_GROUPS, PODS
from scheduler.sandbox.slurm import lifecycle
from scheduler.sandbox.slurm.records import Job, State
from tests.crash.virtual_world import MERGE, NAMESPACE, OPERATOR, VirtualWorld
from tests.support import pods

_DUO: Final = {"gang": "duo", "gang-size": "2"}
_GOES_ON: Final = _DUO | {"no-kill": "true"}
_PACKED: Final = {"gang": "trio", "gang-size": "3", "pods-per-node": "1000"}
_LWS: Final = "leaderworkerset.sigs.k8s.io/"

Play = Callable[[VirtualWorld], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Scenario:
    """`flags` are of the scheduler, `shape` fields of the sandbox. With `hooks` Slurm runs some."""

    play: Play
    release: str = "26.05"
    flags: dict[str, str] = field(default_factory=dict)
    shape: dict[str, Any] = field(default_factory=dict)
    hooks: bool = False

    @property
    def name(self) -> str:
        """As tests show it."""
        how = [flag for flag, value in self.flags.items() if value == "true"]
        return "-".join([self.play.__name__, self.release, *how, *["hooks"] * self.hooks])


async def pod_succeeds(world: VirtualWorld) -> None:
    uid = world.create(annotations={RUN_SECONDS: "3"}, restartPolicy="Never")
    await world.until("the pod has succeeded", lambda: world.phase() == "Succeeded")
    await world.until("its job has gone", lambda: not world.live_jobs())
    job = [it for it in world.jobs(uid) if "Succeeded" in it.comment]
    assert job or len(world.processes) > 1, f"the outcome is not on the job\n{world.picture()}"


async def pod_fails_and_another_takes_its_name(world: VirtualWorld) -> None:
    failing = {RUN_SECONDS: "1", EXIT_CODE: "3"}
    first = world.create(annotations=failing, restartPolicy="Never")
    await world.until("the pod has failed", lambda: world.phase() == "Failed")
    world.delete()
    await world.gone()
    second = world.create()
    await world.running()
    assert first != second


async def pod_is_deleted_while_it_waits(world: VirtualWorld) -> None:
    world.fill()
    uid = world.create()
    await world.submitted(uid)
    await asyncio.sleep(1.0)
    world.delete()
    await world.gone()


async def pod_is_deleted_at_once(world: VirtualWorld) -> None:
    uid = world.create()
    await world.submitted(uid)
    world.delete()
    await world.gone()


async def pod_is_deleted_while_it_runs(world: VirtualWorld) -> None:
    world.create(annotations={STOP_SECONDS: "2"})
    await world.running()
    world.delete()
    await world.gone()


async def job_of_a_running_pod_is_cancelled(world: VirtualWorld) -> None:
    uid = world.create()
    await world.running()
    world.cancel(world.live_job(uid))
    await world.gone()


async def job_of_a_waiting_pod_is_cancelled(world: VirtualWorld) -> None:
    world.fill()
    uid = world.create()
    await world.submitted(uid)
    await world.until("its job is recorded", lambda: recorded(world))
    await _settled(world, uid)
    world.cancel(world.live_job(uid))
    await world.gone()


async def job_is_preempted(world: VirtualWorld) -> None:
    uid = world.create()
    await world.running()
    world.live_job(uid)
    urgent = _preempt(world)
    await world.gone()
    world.cancel(urgent)


async def job_is_preempted_with_grace(world: VirtualWorld) -> None:
    uid = world.create(slurm={"partition": world.sandbox.grace_partition})
    await world.running()
    world.live_job(uid)
    urgent = _preempt(world)
    await world.gone()
    world.cancel(urgent)


async def job_is_preempted_while_the_pod_starts(world: VirtualWorld) -> None:
    """Of a pod that no job has been lost for yet, another one is asked for."""
    uid = world.create()
    job = await world.submitted(uid)
    await world.until("it runs", lambda: job.state is State.RUNNING or not job.alive)
    urgent = _preempt(world)
    await asyncio.sleep(5.0)
    world.cancel(urgent)
    await world.until("it runs again, or is gone", lambda: world.phase() in {"Running", "gone"})


async def job_reaches_its_time_limit(world: VirtualWorld) -> None:
    uid = world.create(slurm={"timeout": "60"})
    await world.running()
    await asyncio.sleep(30.0)
    world.live_job(uid)
    await world.gone()


async def job_loses_its_node(world: VirtualWorld) -> None:
    uid = world.create()
    await world.running()
    job = world.live_job(uid)
    node = job.shares[0].node
    world.bystanders = [it for it in world.bystanders if it.shares[0].node != node]
    world.slurm.update_node(node, {"state": ["DOWN"], "reason": "broken"}, user=OPERATOR)
    await world.gone()
    world.slurm.update_node(node, {"state": ["RESUME"]}, user=OPERATOR)


async def job_is_suspended(world: VirtualWorld) -> None:
    uid = world.create()
    await world.running()
    job = world.live_job(uid)
    world.slurm.suspend(job.id)
    await world.gone()


async def job_is_lost_and_its_pod_runs_on(world: VirtualWorld) -> None:
    """slurmctld comes back from a crash, and the job was never there."""
    uid = world.create()
    await world.running()
    await lose_job(world, uid)
    await world.until("it has a job again", lambda: held(world, uid), seconds=400)
    await asyncio.sleep(5.0)


async def job_of_a_waiting_pod_is_lost(world: VirtualWorld) -> None:
    filler = world.fill()
    uid = world.create()
    await world.submitted(uid)
    await world.until("its job is recorded", lambda: recorded(world))
    await lose_job(world, uid)
    await world.submitted(uid)
    world.cancel(filler)
    await world.running()


async def pod_is_edited_while_it_waits(world: VirtualWorld) -> None:
    filler = world.fill()
    uid = world.create(slurm={"timeout": "600", "comment": "before"})
    await world.submitted(uid)
    await world.until("its job is recorded", lambda: recorded(world))
    world.annotate(comment="after", timeout="1200", qos="normal")
    await _has(world, uid, "the edit has arrived", lambda job: job.comment == "after")
    world.cancel(filler)
    await world.running()


async def pod_is_held_and_released(world: VirtualWorld) -> None:
    filler = world.fill()
    uid = world.create()
    await world.submitted(uid)
    await world.until("its job is recorded", lambda: recorded(world))
    world.annotate(hold="true")
    await _has(world, uid, "the job is held", lambda job: job.held)
    world.cancel(filler)
    world.annotate(hold=None)
    await world.running()


async def pod_is_edited_into_what_needs_a_new_job(world: VirtualWorld) -> None:
    filler = world.fill()
    uid = world.create(slurm={"timeout": "600", "partition": "main"})
    job = await world.submitted(uid)
    await world.until("its job is recorded", lambda: recorded(world))
    world.annotate(timeout=None)
    await _has(world, uid, "a new job waits", lambda it: it.id != job.id)
    await world.until("the former one has ended", lambda: len(_live(world, uid)) == 1)
    world.cancel(filler)
    await world.running()


async def slurm_refuses_until_the_pod_is_corrected(world: VirtualWorld) -> None:
    world.create(slurm={"partition": "nowhere"})
    await world.until("it is told", lambda: told(world, "SlurmRejected"))
    await asyncio.sleep(40.0)  # it is tried again, and told again
    world.annotate(partition="main")
    await world.running()


async def pod_asks_for_nonsense(world: VirtualWorld) -> None:
    world.create(slurm={"timeout": "soon"})
    await world.until("it is told", lambda: told(world, "SchedulingFailed"))


async def allocated_node_is_of_no_use(world: VirtualWorld) -> None:
    """The job is given back, another one avoids that node."""
    first = world.sandbox.nodes[0]
    taint = {"spec": {"taints": [{"key": "broken", "effect": "NoSchedule"}]}}
    uid = world.create()
    await world.submitted(uid)
    world.kube.patch(NODES, "", first, taint, content_type=MERGE)
    await world.running()
    world.kube.patch(NODES, "", first, {"spec": {"taints": None}}, content_type=MERGE)


async def nodes_that_suit_change_while_the_job_waits(world: VirtualWorld) -> None:
    filler = world.fill()
    uid = world.create()
    await world.submitted(uid)
    first = world.sandbox.nodes[0]
    taint = {"spec": {"taints": [{"key": "broken", "effect": "NoSchedule"}]}}
    world.kube.patch(NODES, "", first, taint, content_type=MERGE)
    await _has(world, uid, "it avoids the node", lambda it: first in it.asked.request.excluded)
    world.kube.patch(NODES, "", first, {"spec": {"taints": None}}, content_type=MERGE)
    await _has(world, uid, "it takes any", lambda it: not it.asked.request.excluded)
    world.cancel(filler)
    await world.running()


async def job_is_given_back_for_a_cordoned_cluster(world: VirtualWorld) -> None:
    for node in world.sandbox.nodes:
        world.kube.patch(NODES, "", node, {"spec": {"unschedulable": True}}, content_type=MERGE)
    world.create()
    await asyncio.sleep(70.0)
    for node in world.sandbox.nodes:
        world.kube.patch(NODES, "", node, {"spec": {"unschedulable": None}}, content_type=MERGE)
    await world.until("it runs", lambda: world.phase() == "Running", seconds=400)


async def time_limit_is_changed_by_an_operator(world: VirtualWorld) -> None:
    uid = world.create(slurm={"timeout": "3600"})
    await world.running()
    before = ends_at(world)
    job = next(it for it in world.jobs(uid) if it.alive)
    world.slurm.update(job.id, {"time_limit": 120}, user=OPERATOR)
    await world.until("the pod says so", lambda: ends_at(world) not in {None, before})


async def pod_is_held_by_its_budget(world: VirtualWorld) -> None:
    uid = world.create()
    await world.running()
    world.cancel(world.live_job(uid))
    await world.gone()


async def job_is_requeued_before_the_bind(world: VirtualWorld) -> None:
    for node in world.sandbox.nodes:
        world.kube.patch(NODES, "", node, {"spec": {"unschedulable": True}}, content_type=MERGE)
    uid = world.create()
    job = await world.until("its job runs", lambda: _started(world, uid))
    world.slurm.requeue(job.id)
    for node in world.sandbox.nodes:
        world.kube.patch(NODES, "", node, {"spec": {"unschedulable": None}}, content_type=MERGE)
    job.begin_time = job.eligible_time = world.slurm.clock()  # as an operator may have it
    await world.running()
    world.slurm.requeue(world.live_job(uid).id)
    await world.gone()


async def job_is_requeued_after_the_bind(world: VirtualWorld) -> None:
    uid = world.create()
    await world.running()
    world.slurm.requeue(world.live_job(uid).id)
    await world.gone()


async def script_of_a_running_pod_is_killed(world: VirtualWorld) -> None:
    uid = world.create()
    await world.running()
    job = next(it for it in world.jobs(uid) if it.alive)
    world.slurm.kill_script(job.id)
    await world.until("it has a job again", lambda: held(world, uid), seconds=400)
    await asyncio.sleep(5.0)


async def three_pods_come_and_go(world: VirtualWorld) -> None:
    first = world.create("first")
    world.create("second", annotations={RUN_SECONDS: "2"}, restartPolicy="Never")
    await world.running("first")
    world.create("third")
    world.cancel(world.live_job(first))
    await world.gone("first")
    await world.until("second is over", lambda: world.phase("second") == "Succeeded")
    await world.running("third")


async def pod_of_a_gang_comes_again(world: VirtualWorld) -> None:
    """It takes its slot in the same job."""
    first = await _gang_runs(world)
    job = world.live_job(first)
    world.delete("duo-1")
    await world.gone("duo-1")
    world.create("duo-1", slurm=_DUO)
    await world.running("duo-1")
    assert [it.id for it in world.live_jobs() if it.id == job.id], world.picture()
    for name in ("duo-0", "duo-1"):
        world.delete(name)
        await world.gone(name)


async def pod_of_a_packed_gang_comes_again(world: VirtualWorld) -> None:
    """Slurm has put two pods on one node and the third on the other."""
    names = [f"trio-{rank}" for rank in range(3)]
    for name in names:
        world.create(name, slurm=_PACKED, cpus="25")
    for name in names:
        await world.running(name)
    first, second, third = (_node_of(world, name) for name in names)
    assert first == second != third, world.picture()
    job = next(it for it in world.live_jobs() if len(world.pods_of(it)) == len(names))
    world.delete("trio-2")
    await world.gone("trio-2")
    world.create("trio-2", slurm=_PACKED, cpus="25")
    await world.running("trio-2")
    assert _node_of(world, "trio-2") == third, world.picture()
    world.cancel(job)
    for name in names:
        await world.gone(name)


async def job_of_a_gang_is_cancelled(world: VirtualWorld) -> None:
    first = await _gang_runs(world)
    world.cancel(world.live_job(first))
    await world.gone("duo-0")
    await world.gone("duo-1")


async def gang_of_two_shapes_comes_again_and_is_cancelled(world: VirtualWorld) -> None:
    """Its job has two components; one of them is cancelled alone, which ends all."""
    first = await _gang_runs(world, cpus=("1", "2"))
    job = world.live_job(first)
    world.delete("duo-1")
    await world.gone("duo-1")
    world.create("duo-1", slurm=_DUO, cpus="2")
    await world.running("duo-1")
    assert [it.id for it in world.live_jobs() if it.id == job.id], world.picture()
    (second,) = (it for it in world.slurm.jobs() if it.het_id == job.id and it.het_offset == 1)
    world.cancel(second)
    await world.gone("duo-0")
    await world.gone("duo-1")
    await world.until(
        "no component is left",
        lambda: not any(it.alive for it in world.slurm.jobs() if it.het_id == job.id),
    )


async def pod_whose_node_its_gang_has_lost_waits(world: VirtualWorld) -> None:
    """There is one job anew for both when the other pod goes as well."""
    job = await _gang_loses_a_node(world, slurm=_GOES_ON)
    world.create("duo-1", slurm=_GOES_ON)
    await world.until("it is told", lambda: told(world, "GangSlotLost", "duo-1"))
    await asyncio.sleep(3.0)
    assert (job.alive, world.phase("duo-0")) == (True, "Running"), world.picture()
    world.delete("duo-0")
    await world.gone("duo-0")
    await _both_run_anew(world, _GOES_ON, instead_of=job)


async def gang_is_released_for_a_pod_whose_node_it_has_lost(world: VirtualWorld) -> None:
    """The annotation wants it, and the site would have the pod wait."""
    world.accepted["I6"] = "the pods want the whole gang to end when one slot is lost"
    slurm = _GOES_ON | {"gang-lost-slot": "release"}
    job = await _gang_loses_a_node(world, slurm=slurm)
    world.create("duo-1", slurm=slurm)
    await world.gone("duo-0")
    await _both_run_anew(world, slurm, instead_of=job)


async def worker_takes_the_slot_that_its_template_says(world: VirtualWorld) -> None:
    """LeaderReady: the worker exists once its leader runs, and is larger."""
    small, large = (pods.pod("of-template", cpus=cpus)["spec"] for cpus in ("1", "2"))
    group = {
        "metadata": {"name": "lead"},
        "spec": {
            "startupPolicy": "LeaderReady",
            "leaderWorkerTemplate": {
                "size": 2,
                "leaderTemplate": {"spec": small},
                "workerTemplate": {"spec": large},
            },
        },
    }
    made = world.kube.create(LEADER_WORKER_SETS, NAMESPACE, group)
    owner = str(made.body["metadata"]["uid"])
    leader = _of_lws(world, 0, cpus="1", owner=owner)
    await world.running("lead-0")
    job = world.live_job(leader)
    for _ in range(2):
        _of_lws(world, 1, cpus="2", owner=owner)
        await world.running("lead-0-1")
        assert [it.id for it in world.live_jobs() if it.id == job.id], world.picture()
        assert world.live_job(leader).id == job.id, world.picture()
        world.delete("lead-0-1")
        await world.gone("lead-0-1")


async def pod_beyond_its_gang_has_a_job_of_its_own(world: VirtualWorld) -> None:
    """It keeps it when a pod of the gang comes again, and when the gang's job ends."""
    group = {"metadata": {"name": "trio"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
    world.kube.create(POD_GROUPS, NAMESPACE, group)
    member = {"schedulingGroup": {"podGroupName": "trio"}}
    first, _, beyond = (world.create(f"trio-{it}", **member) for it in range(3))
    for number in range(3):
        await world.running(f"trio-{number}")
    gang, single = world.live_job(first), world.live_job(beyond)
    assert gang.id != single.id, world.picture()
    world.delete("trio-1")
    await world.gone("trio-1")
    again = world.create("trio-1", **member)
    await world.running("trio-1")
    assert world.live_job(again).id == gang.id, world.picture()
    world.cancel(gang)
    await world.gone("trio-0")
    await world.gone("trio-1")
    assert single.state is State.RUNNING, world.picture()
    assert world.phase("trio-2") == "Running", world.picture()


async def gang_gives_the_node_of_a_pod_that_has_succeeded_back(world: VirtualWorld) -> None:
    """The other pod comes again after that, and takes its own slot in the same job."""
    filler = world.fill()
    world.kube.create(JOBS, NAMESPACE, pods.batch_job(2))
    first, second = await _of_index(world, 0), await _of_index(world, 1)
    short = {"metadata": {"annotations": {RUN_SECONDS: "3"}}}
    world.kube.patch(PODS, NAMESPACE, first, short, content_type=MERGE)
    world.cancel(filler)
    await world.running(second)
    job = next(it for it in world.live_jobs() if len(world.pods_of(it)) == 2)
    node = _node_of(world, second)
    await world.until("a node is given back", lambda: [it.node for it in job.shares] == [node])
    world.delete(second)
    await world.gone(second)
    again = await _of_index(world, 1)
    await world.running(again)
    assert _node_of(world, again) == node, world.picture()
    assert [it.id for it in world.live_jobs()] == [job.id], world.picture()
    world.kube.delete(JOBS, NAMESPACE, "train", DeleteOptions())


async def gang_is_withdrawn_while_it_waits(world: VirtualWorld) -> None:
    filler = world.fill()
    first = world.create("duo-0", slurm=_DUO)
    world.create("duo-1", slurm=_DUO)
    await world.submitted(first)
    for name in ("duo-0", "duo-1"):
        world.delete(name)
        await world.gone(name)
    world.cancel(filler)


async def next_job_waits_until_the_pod_has_stopped(world: VirtualWorld) -> None:
    """The guard is asked for it all the while."""
    uid, node = await _on_a_whole_node(world)
    job = world.live_job(uid)
    following = world.native("following", required_nodes=[node], cpus_per_task=_whole(world))
    world.cancel(job)
    await world.gone()
    await world.until("its processes start", lambda: not following.configuring and _runs(following))
    world.cancel(following)


async def next_pod_waits_until_the_one_before_has_stopped(world: VirtualWorld) -> None:
    uid, node = await _on_a_whole_node(world)
    others = [it for it in world.sandbox.nodes if it != node]
    filler = world.native("filler", required_nodes=others, cpus_per_task=_whole(world))
    second = world.create("second", cpus=str(_whole(world)))
    await world.submitted(second)
    world.cancel(world.live_job(uid))
    await world.running("second")
    assert world.pod() is None
    world.cancel(filler)


async def script_that_was_signalled_holds_the_node_until_the_pod_has_stopped(
    world: VirtualWorld,
) -> None:
    """The node is never without a job for it, so it is not said to be taken."""
    uid, node = await _on_a_whole_node(world)
    following = world.native("following", required_nodes=[node], cpus_per_task=_whole(world))
    world.cancel(next(it for it in world.jobs(uid) if it.alive))
    await world.gone()
    await world.until("the next job runs", lambda: _runs(following), seconds=20)
    world.cancel(following)


_ELECTED: Final = {"leader-elect": "true", "leader-elect-resource-namespace": "default"}
_OF_GANGS: Final = {"gang-linger": "2s"}
# Of scenarios that last for minutes.
_SLOWLY: Final = {"poll-interval": "2s"}

SCENARIOS: Final = (
    Scenario(pod_succeeds),
    Scenario(pod_fails_and_another_takes_its_name),
    Scenario(pod_is_deleted_while_it_waits),
    Scenario(pod_is_deleted_at_once),
    Scenario(pod_is_deleted_while_it_runs),
    Scenario(job_of_a_running_pod_is_cancelled),
    Scenario(job_of_a_waiting_pod_is_cancelled),
    Scenario(job_is_preempted),
    Scenario(job_is_preempted_with_grace),
    Scenario(job_is_preempted_while_the_pod_starts),
    Scenario(job_reaches_its_time_limit, flags=_SLOWLY),
    Scenario(job_loses_its_node, flags=_SLOWLY),
    Scenario(job_is_suspended),
    Scenario(job_is_lost_and_its_pod_runs_on),
    Scenario(job_of_a_waiting_pod_is_lost),
    Scenario(pod_is_edited_while_it_waits),
    Scenario(pod_is_held_and_released),
    Scenario(pod_is_edited_into_what_needs_a_new_job),
    Scenario(slurm_refuses_until_the_pod_is_corrected, flags=_SLOWLY),
    Scenario(pod_asks_for_nonsense),
    Scenario(allocated_node_is_of_no_use),
    Scenario(nodes_that_suit_change_while_the_job_waits),
    Scenario(job_is_given_back_for_a_cordoned_cluster, flags=_SLOWLY),
    Scenario(time_limit_is_changed_by_an_operator),
    Scenario(pod_is_held_by_its_budget, flags={"eviction-policy": "budget"}),
    Scenario(job_is_requeued_before_the_bind, release="24.11"),
    Scenario(job_is_requeued_after_the_bind, release="24.11", flags=_SLOWLY),
    Scenario(script_of_a_running_pod_is_killed, release="24.11"),
    Scenario(pod_of_a_gang_comes_again, flags=_OF_GANGS),
    Scenario(pod_of_a_packed_gang_comes_again, flags=_OF_GANGS),
    Scenario(job_of_a_gang_is_cancelled, flags=_OF_GANGS),
    Scenario(gang_is_withdrawn_while_it_waits, flags=_OF_GANGS),
    Scenario(gang_gives_the_node_of_a_pod_that_has_succeeded_back, flags=_OF_GANGS),
    Scenario(pod_beyond_its_gang_has_a_job_of_its_own, flags=_OF_GANGS),
    Scenario(pod_whose_node_its_gang_has_lost_waits, flags=_OF_GANGS),
    Scenario(gang_is_released_for_a_pod_whose_node_it_has_lost, flags=_OF_GANGS),
    Scenario(worker_takes_the_slot_that_its_template_says, flags=_OF_GANGS),
    Scenario(gang_of_two_shapes_comes_again_and_is_cancelled, flags=_OF_GANGS),
    Scenario(three_pods_come_and_go),
    Scenario(three_pods_come_and_go, release="24.11"),
    Scenario(pod_is_deleted_while_it_runs, flags=_ELECTED),
    Scenario(next_job_waits_until_the_pod_has_stopped, hooks=True),
    Scenario(next_pod_waits_until_the_one_before_has_stopped, hooks=True),
    Scenario(
        script_that_was_signalled_holds_the_node_until_the_pod_has_stopped,
        release="24.11",
        hooks=True,
    ),
)


async def _gang_runs(
    world: VirtualWorld,
    *,
    cpus: tuple[str, str] = ("2", "2"),
    slurm: dict[str, str] = _DUO,
) -> str:
    """A gang of two pods, with so many CPUs each; returns the uid of the first."""
    first = world.create("duo-0", slurm=slurm, cpus=cpus[0])
    world.create("duo-1", slurm=slurm, cpus=cpus[1])
    await world.running("duo-0")
    await world.running("duo-1")
    return first


async def _gang_loses_a_node(world: VirtualWorld, *, slurm: dict[str, str]) -> Job:
    """Slurm takes the node of the second pod, which goes; returns the job, which runs on."""
    first = await _gang_runs(world, slurm=slurm)
    job, node = world.live_job(first), _node_of(world, "duo-1")
    world.bystanders = [it for it in world.bystanders if it.shares[0].node != node]
    world.slurm.update_node(str(node), {"state": ["DOWN"], "reason": "broken"}, user=OPERATOR)
    await world.gone("duo-1")
    world.slurm.update_node(str(node), {"state": ["RESUME"]}, user=OPERATOR)
    assert job.alive, world.picture()
    return job


async def _both_run_anew(world: VirtualWorld, slurm: dict[str, str], *, instead_of: Job) -> None:
    """The first pod comes again as well, and both get one job in the place of the former one."""
    anew = world.create("duo-0", slurm=slurm)
    await world.running("duo-0")
    await world.running("duo-1")
    assert not instead_of.alive, world.picture()
    assert len(world.live_job(anew).shares) == 2, world.picture()


def _of_lws(world: VirtualWorld, worker: int, *, cpus: str, owner: str) -> str:
    """A pod as the controller of the LeaderWorkerSet `lead` makes it; returns its uid. The sandbox
    has no StatefulSets, and keeps what belongs to an object that exists, the one with uid `owner`.
    """
    maker = "lead-0" if worker else "lead"
    body = pods.pod(f"lead-0-{worker}" if worker else "lead-0", cpus=cpus)
    body["metadata"]["labels"] |= {
        f"{_LWS}name": "lead",
        f"{_LWS}group-index": "0",
        f"{_LWS}worker-index": str(worker),
    }
    body["metadata"]["annotations"][f"{_LWS}size"] = "2"
    controller = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": maker, "uid": owner}
    body["metadata"]["ownerReferences"] = [controller | {"controller": True}]
    stored = world.kube.create(PODS, NAMESPACE, {"apiVersion": "v1", "kind": "Pod", **body})
    return str(stored.body["metadata"]["uid"])


async def _of_index(world: VirtualWorld, index: int) -> str:
    """The pod with this completion index that is not going, once it exists; returns its name."""
    wanted = ("batch.kubernetes.io/job-completion-index", str(index))

    def found() -> str | None:
        there = (it["metadata"] for it in world.kube.bodies(PODS))
        of_it = (it for it in there if wanted in it.get("annotations", {}).items())
        return next((it["name"] for it in of_it if "deletionTimestamp" not in it), None)

    return await world.until(f"the pod with index {index} exists", found)


def _node_of(world: VirtualWorld, name: str) -> str | None:
    pod = world.pod(name)
    return None if pod is None else pods.annotation(pod, pods.NODES)


# --- what scenarios wait for


def recorded(world: VirtualWorld, name: str = "train") -> str | None:
    """The job id on the pod."""
    pod = world.pod(name)
    return None if pod is None else pods.annotation(pod, pods.JOB_ID)


def ends_at(world: VirtualWorld) -> str | None:
    """Until when the pod may run, as it is told."""
    pod = world.pod()
    return None if pod is None else pods.annotation(pod, "slurm-pod-scheduler/ends-at")


def told(world: VirtualWorld, reason: str, name: str = "train") -> bool:
    """Whether PodScheduled=False has that reason."""
    pod = world.pod(name)
    return pod is not None and bool(pods.why(pod, reason))


def held(world: VirtualWorld, uid: str) -> bool:
    """Whether a job of the pod runs on its node."""
    pod = world.pod()
    node = None if pod is None else pods.node_of(pod)
    return any(
        it.state is State.RUNNING and any(share.node == node for share in it.shares)
        for it in world.jobs(uid)
    )


def _whole(world: VirtualWorld) -> int:
    """All CPUs of a node, but the one of the bystander."""
    return world.sandbox.shape.cpus_per_node - 1


async def _on_a_whole_node(world: VirtualWorld) -> tuple[str, str]:
    """A pod that runs on all of a node, and takes its time to stop; its uid and its node."""
    uid = world.create(cpus=str(_whole(world)), annotations={STOP_SECONDS: "4"}, grace=10)
    await world.running()
    pod = world.pod()
    assert pod is not None
    return uid, str(pods.node_of(pod))


def _runs(job: Job) -> bool:
    return job.state is State.RUNNING


def _preempt(world: VirtualWorld) -> Job:
    """A job that makes all others go, whose end is nobody's fault then."""
    world.bystanders = []
    return world.fill(partition=world.sandbox.high_partition)


async def lose_job(world: VirtualWorld, uid: str) -> None:
    """slurmctld is away for 3 s, and comes back without the pod's jobs."""
    world.slurm.stop_controller()
    await asyncio.sleep(3.0)
    world.slurm.start_controller()
    for job in world.jobs(uid):
        if job.alive:
            lifecycle.end(world.slurm.cluster, job, State.CANCELLED, now=world.slurm.clock())
        world.slurm.cluster.forget(job)


def _live(world: VirtualWorld, uid: str) -> list[Job]:
    return [it for it in world.jobs(uid) if it.alive]


def _started(world: VirtualWorld, uid: str) -> Job | None:
    return next((it for it in world.jobs(uid) if it.state is State.RUNNING), None)


async def _has(world: VirtualWorld, uid: str, what: str, holds: Callable[[Job], bool]) -> None:
    await world.until(what, lambda: any(holds(it) for it in _live(world, uid)), seconds=120)


async def _settled(world: VirtualWorld, uid: str) -> None:
    """Until the pod has one job, the one that it names."""

    def one() -> bool:
        live = _live(world, uid)
        return [str(it.id) for it in live] == [recorded(world)]

    await world.until("it has one job, which it names", one, seconds=400)
