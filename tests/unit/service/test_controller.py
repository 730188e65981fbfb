"""The loop over keys: one pass, what came of it, and when the key comes back."""

from __future__ import annotations

import asyncio

import pytest

from scheduler.core.actions import Action
from scheduler.core.node_suitability import Taint
from scheduler.execute.dispatch import Executor
from scheduler.kube.errors import Conflict, KubeUnreachable, TooMany
from scheduler.reconcile.controller import Controller
from scheduler.state.units import Unit
from slurmapi import SlurmBusy, SlurmInvalid
from tests.unit.service.tiny_service import Service

pytestmark = pytest.mark.looptime
UID = "01234567-89ab"


async def begin(service: Service) -> None:
    """Start it, and let its first census pass; not in the fixture, where time is real."""
    service.start()
    await asyncio.sleep(3)


async def test_pod_is_served_and_its_job_goes_after_it(slurm, kube, service):
    await begin(service)
    job_id = await service.bound(UID)
    assert kube.bindings == [(UID, "n1")]
    kube.delete(UID)
    await asyncio.sleep(60)
    assert slurm.live(job_id), "its containers still run"
    kube.end_containers(UID)
    await asyncio.sleep(5)
    assert not slurm.live(job_id)
    assert len(service.units) == 0


async def test_finished_pod_frees_its_job_though_it_stays(slurm, kube, service):
    await begin(service)
    job_id = await service.bound(UID)
    kube.end_containers(UID)
    await asyncio.sleep(5)
    assert not slurm.live(job_id)
    assert UID in kube.pods


async def test_quiet_pod_costs_the_pulse_and_a_look_now_and_then(slurm, kube, service):
    await begin(service)
    await service.bound(UID)
    await asyncio.sleep(10)
    before = slurm.calls.copy()
    await asyncio.sleep(250)
    assert slurm.calls["states"] - before["states"] <= 250 / 0.75 + 1
    assert slurm.calls["job"] - before["job"] <= 250 / 5, "a preemption may be under way"
    assert slurm.calls["submit"] == 1


@pytest.mark.parametrize("error", [KubeUnreachable("refused"), Conflict(409), TooMany(429)])
async def test_binding_that_failed_is_made_again(slurm, kube, service, error):
    await begin(service)
    kube.fail["bind"].extend([error] * 3)
    await service.bound(UID)
    assert kube.bindings == [(UID, "n1")]
    assert service.acted("reconcile", error.outcome) == 3


class NeverSettles(Executor):
    """Wants each unit looked at again at once, whatever was done."""

    def __init__(self) -> None:
        self.passes = 0

    async def do(self, unit: Unit, action: Action) -> float | None:
        self.passes += 1
        assert self.passes < 1000, "it loops hot"
        return 0.0


async def test_unit_that_never_settles_does_not_loop_hot(kube, service):
    executor = NeverSettles()
    controller = Controller(
        queue=service.queue,
        newcomers=service.newcomers,
        gatherer=service.gatherer,
        executor=executor,
        teller=service.teller,
        metrics=service.metrics,
        clock=asyncio.get_running_loop().time,
    )
    service.controller = controller
    await begin(service)
    kube.create(UID, cpu="")
    await asyncio.sleep(600)
    assert 10 < executor.passes < 200


async def test_server_that_asks_for_time_gets_it(slurm, kube, service):
    await begin(service)
    kube.fail["bind"].append(TooMany(429, retry_after=30.0))
    kube.create(UID)
    await asyncio.sleep(2)
    slurm.start(1)
    await asyncio.sleep(20)
    assert not kube.runs(UID)
    await asyncio.sleep(15)
    assert kube.runs(UID)


async def test_slurm_that_cannot_look_now_harms_nothing(slurm, kube, service):
    await begin(service)
    job_id = await service.bound(UID)
    slurm.end(job_id, slurm.jobs[job_id].state.base.COMPLETED)
    slurm.fail["job"].extend([SlurmBusy("later")] * 3)
    await asyncio.sleep(15)
    assert kube.deleted == [UID]


async def test_fault_of_our_own_is_logged_and_holds_up_nobody_else(slurm, kube, service):
    await begin(service)
    kube.fail["patch"].append(ZeroDivisionError("a bug"))
    kube.create("first", name="first")
    kube.create("second", name="second")
    await asyncio.sleep(10)
    assert service.acted("reconcile", "error") == 1
    assert slurm.calls["submit"] == 2


async def test_job_lost_by_slurm_is_asked_for_again_on_the_same_node(slurm, kube, service):
    await begin(service)
    job_id = await service.bound(UID)
    slurm.forget(job_id)
    await asyncio.sleep(10)
    assert kube.deleted == []
    (again,) = slurm.jobs
    assert slurm.submissions[again].required_nodes == ("n1",)
    slurm.start(again)
    await asyncio.sleep(10)
    assert kube.deleted == []
    assert kube.runs(UID)


async def test_copied_annotation_neither_binds_nor_loses_the_original(slurm, kube, service):
    await begin(service)
    job_id = await service.bound(UID)
    kube.create("copy-uid", name="copy", annotations=kube.pods[UID].metadata.annotations)
    await asyncio.sleep(10)
    own = slurm.calls["submit"]
    assert own == 2, "the copy gets a job of its own"
    slurm.end(job_id, slurm.jobs[job_id].state.base.PREEMPTED)
    await asyncio.sleep(10)
    assert kube.deleted == [UID]


@pytest.mark.parametrize("claimed", ["9" * 5000, "99999999999", "-1", "0", "٤٧", "4711"])
async def test_odd_job_id_on_a_pod_is_no_hindrance(slurm, kube, service, claimed):
    await begin(service)
    kube.create(UID, annotations={"slurm-pod-scheduler/job-id": claimed})
    await asyncio.sleep(20)
    assert slurm.calls["submit"] == 1
    assert service.acted("reconcile", "error") == 0


async def test_cancel_that_a_crash_of_slurm_undoes_is_repeated(slurm, kube, service):
    await begin(service)
    job_id = await service.bound(UID)
    alive = slurm.jobs[job_id]

    def undo(_job):
        slurm.on_cancel = lambda _job: None
        asyncio.get_running_loop().call_soon(slurm.jobs.__setitem__, job_id, alive)

    slurm.on_cancel = undo
    kube.delete(UID)
    kube.end_containers(UID)
    await asyncio.sleep(30)
    assert slurm.calls["cancel"] == 2
    assert not slurm.live(job_id)


async def test_gone_node_gives_the_allocation_back_after_a_minute(slurm, kube, service):
    await begin(service)
    kube.set_node("n1", ready=False)
    kube.create(UID)
    await asyncio.sleep(2)
    slurm.start(1)
    await asyncio.sleep(50)
    assert kube.condition_of(UID).reason == "NodeUnavailable"
    assert slurm.live(1)
    await asyncio.sleep(20)
    assert not slurm.live(1)
    assert slurm.calls["submit"] == 2


async def test_node_with_a_taint_is_given_back_at_once_and_another_one_is_used(
    slurm, kube, service
):
    await begin(service)
    kube.set_node("n1", taints=(Taint("gpu", "NoSchedule"),))
    kube.create(UID)
    await asyncio.sleep(2)
    slurm.start(1, node="n1")
    await asyncio.sleep(5)
    assert not slurm.live(1)
    assert slurm.jobs[2].excluded_nodes == ("n1",)
    assert "taint gpu:NoSchedule" in next(
        it.message for it in service.recorder.events if it.reason == "NodeUnavailable"
    )
    slurm.start(2)
    await asyncio.sleep(2)
    assert kube.bindings == [(UID, "n2")]


async def test_exclusion_that_is_over_is_taken_from_the_job_that_waits(slurm, kube, service):
    await begin(service)
    kube.set_node("n1", taints=(Taint("gpu", "NoSchedule"),))
    kube.create(UID)
    await asyncio.sleep(2)
    slurm.start(1, node="n1")
    await asyncio.sleep(5)
    kube.set_node("n1")
    await asyncio.sleep(30)
    assert slurm.jobs[2].excluded_nodes == ("n1",)
    await asyncio.sleep(40)
    assert slurm.jobs[2].excluded_nodes == ()


async def test_pod_that_no_node_can_take_gets_its_job_once_one_can(slurm, kube, service):
    await begin(service)
    kube.create(UID, selector={"zone": "a"})
    await asyncio.sleep(5)
    assert slurm.calls["submit"] == 0
    assert kube.condition_of(UID).reason == "NoNodeFits"
    assert "2 has no label zone" in kube.condition_of(UID).message
    assert service.recorder.reasons() == ["NoNodeFits"]
    kube.set_node("n2", labels={"zone": "a"})
    await asyncio.sleep(2)
    assert slurm.calls["submit"] == 1


async def test_outage_costs_slurm_the_same_whoever_waits(slurm, kube, service):
    await begin(service)
    slurm.fail["submit"].extend(
        SlurmBusy("MaxJobCount limit reached", error_number=2007, status=422) for _ in range(1000)
    )
    for number in range(100):
        kube.create(f"{number:08}-many", name=f"many-{number}")
    await asyncio.sleep(60)
    assert slurm.calls["submit"] <= 10
    assert not slurm.jobs
    slurm.fail["submit"].clear()
    # The longest pause, and one try more for who came while the first one was under way.
    await asyncio.sleep(30)
    assert len(slurm.jobs) == 100


async def test_job_that_slurm_refuses_keeps_nobody_else_back(slurm, kube, service):
    await begin(service)
    slurm.fail["submit"].append(SlurmInvalid("Invalid account", error_number=2045))
    kube.create("11111111-bad", name="bad")
    await asyncio.sleep(0.5)
    kube.create(UID)
    await asyncio.sleep(0.5)
    assert len(slurm.jobs) == 1
