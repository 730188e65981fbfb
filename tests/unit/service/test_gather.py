"""From what the watches show to the facts of a unit."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import msgspec
import pytest

from annotations import JobRequest
from scheduler.core.facts import InDoubt, NoJob, PodStage, Tracked
from scheduler.core.naming import JOB_ID
from scheduler.core.node_suitability import Place, Requirement, Term, Unfit
from scheduler.facts.claims import recorded_job
from scheduler.facts.stage import stage_of
from scheduler.kube.wire import (
    Affinity,
    ContainerStatus,
    NodeAffinity,
    NodeSelector,
    ObjectMeta,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    SchedulingGate,
)
from scheduler.state.units import Placeholder
from tests.unit.core.things import record
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import TinySlurm

UID = "uid-0"
GOING = datetime(2026, 11, 21, tzinfo=UTC)


def pod(
    *, phase: str = "Pending", node: str = "", going: bool = False, gates: tuple[str, ...] = ()
) -> Pod:
    return Pod(
        ObjectMeta(uid=UID, deletion_timestamp=GOING if going else None),
        PodSpec(node_name=node, scheduling_gates=tuple(map(SchedulingGate, gates))),
        PodStatus(phase=phase),
    )


@pytest.mark.parametrize(
    ("seen", "bound", "stage"),
    [
        (pod(), False, PodStage.WAITING),
        (pod(gates=("a",)), False, PodStage.GATED),
        (pod(going=True), False, PodStage.WITHDRAWN),
        (pod(going=True, gates=("a",)), False, PodStage.WITHDRAWN),
        (pod(node="n1"), False, PodStage.BOUND),
        (pod(), True, PodStage.BOUND),
        (pod(node="n1", phase="Running"), False, PodStage.BOUND),
        (pod(node="n1", phase="Running", going=True), False, PodStage.DEPARTING),
        (pod(going=True), True, PodStage.DEPARTING),
        (pod(node="n1", phase="Succeeded"), False, PodStage.FINISHED),
        (pod(node="n1", phase="Failed", going=True), False, PodStage.FINISHED),
        (pod(phase="Failed"), False, PodStage.FINISHED),
        (pod(node="n1", phase="Unknown"), False, PodStage.BOUND),
    ],
)
def test_stage(seen, bound, stage):
    assert stage_of(seen, bound=bound) is stage


@pytest.mark.parametrize(
    ("text", "job_id"),
    [
        ("4711", 4711),
        ("4294967292", 4294967292),
        ("4294967293", None),
        ("9999999999", None),
        ("0", None),
        ("", None),
        ("-1", None),
        (" 7", None),
        ("٤٧", None),
        ("9" * 5000, None),
    ],
)
def test_recorded_job(text, job_id):
    assert recorded_job(Pod(ObjectMeta(annotations={JOB_ID: text}))) == job_id


@pytest.fixture
async def service(slurm: TinySlurm, kube: TinyKube) -> Service:
    return Service(slurm, kube)


async def shown(kube: TinyKube, **pod: object) -> None:
    kube.lag = 0.0
    kube.create(UID, **pod)  # type: ignore[arg-type]
    await asyncio.sleep(0.001)


async def test_pod_nobody_knows_has_no_unit(service):
    assert service.newcomers.unit("unheard-of") is None


async def test_new_pod_is_doubtful_until_all_jobs_were_seen(service, kube):
    await shown(kube)
    unit = service.newcomers.unit(UID)
    assert service.gatherer.facts(unit).job == InDoubt()
    assert service.newcomers.unit(UID) is unit


async def test_new_pod_is_not_doubtful_after_that(service, kube):
    service.census.completed_at = 0.0
    await shown(kube)
    assert service.gatherer.facts(service.newcomers.unit(UID)).job == NoJob()


async def test_recorded_job_is_taken_up_and_not_yet_believed(service, kube):
    await shown(kube, annotations={JOB_ID: "7"})
    assert service.gatherer.facts(service.newcomers.unit(UID)).job == Tracked(
        job_id=7, claimed=True, settled=False
    )


async def test_pod_that_another_hand_placed(service, kube):
    await shown(kube, node="n1")
    facts = service.gatherer.facts(service.newcomers.unit(UID))
    assert not facts.pods[0].placed_by_us
    assert facts.pods[0].node == "n1"


async def test_binding_the_watch_does_not_show_yet_is_a_fact(service, kube):
    await shown(kube)
    unit = service.newcomers.unit(UID)
    unit.bindings.nodes[UID] = "n2"
    (seen,) = service.gatherer.facts(unit).pods
    assert (seen.stage, seen.node, seen.placed_by_us) == (PodStage.BOUND, "n2", True)


async def test_unit_outlives_its_pod(service, kube):
    await shown(kube)
    unit = service.newcomers.unit(UID)
    kube.delete(UID)
    await asyncio.sleep(0.001)
    assert service.newcomers.unit(UID) is unit
    assert service.gatherer.facts(unit).pods == ()


async def test_resources_become_a_request(service, kube):
    await shown(kube, annotations={"sunk.coreweave.com/partition": "gpu"})
    request = service.gatherer.facts(service.newcomers.unit(UID)).request
    assert isinstance(request, JobRequest)
    assert (request.cpus, request.memory_mib, request.partition) == (4, 1024, "gpu")


async def test_annotation_that_changes_is_read_again(service, kube):
    await shown(kube)
    unit = service.newcomers.unit(UID)
    assert service.gatherer.facts(unit).request.partition is None
    await shown(kube, annotations={"sunk.coreweave.com/partition": "gpu"})
    assert service.gatherer.facts(unit).request.partition == "gpu"


async def test_pod_as_a_whole_and_its_affinity_become_a_request(service, kube):
    required = NodeSelector((Term((Requirement("gpu.nvidia.com/class", "In", ("a", "b")),)),))
    whole = PodSpec(
        resources=ResourceRequirements(requests={"cpu": 6, "memory": "2Gi"}),
        affinity=Affinity(node_affinity=NodeAffinity(required)),
        node_selector={"zone": "z"},
        active_deadline_seconds=90,
        termination_grace_period_seconds=20,
    )
    await shown(kube, spec=whole)
    request = service.gatherer.facts(service.newcomers.unit(UID)).request
    assert isinstance(request, JobRequest)
    assert (request.cpus, request.memory_mib, request.time_limit_minutes) == (6, 2048, 2)


@pytest.mark.parametrize("reason", ["Infeasible", "Deferred"])
async def test_resize_that_the_node_refuses_asks_for_nothing(service, kube, reason):
    """A job for 64 CPUs in the place of a lost one would not fit, and the pod would be ended."""
    await shown(kube)
    unit = service.newcomers.unit(UID)
    assert service.gatherer.facts(unit).request.cpus == 4
    await shown(kube, node="n1", cpu="64")
    pod = kube.pods[UID]
    resize = PodCondition(type="PodResizePending", status="True", reason=reason)
    said = ContainerStatus(name="c", allocated_resources={"cpu": "4", "memory": "1Gi"})
    status = msgspec.structs.replace(pod.status, conditions=(resize,), container_statuses=(said,))
    assert service.gatherer.facts(unit).request.cpus == 64
    kube._put(msgspec.structs.replace(pod, status=status))
    await asyncio.sleep(0.001)
    assert service.gatherer.facts(unit).request.cpus == 4
    kube._put(pod)  # there is room now
    await asyncio.sleep(0.001)
    assert service.gatherer.facts(unit).request.cpus == 64


async def test_active_deadline_that_changes_is_read_again(service, kube):
    await shown(kube)
    unit = service.newcomers.unit(UID)
    assert service.gatherer.facts(unit).request.time_limit_minutes is None
    spec = msgspec.structs.replace(kube.pods[UID].spec, active_deadline_seconds=60)
    await shown(kube, spec=spec)
    assert service.gatherer.facts(unit).request.time_limit_minutes == 1


async def test_fitness_of_the_nodes_of_the_allocation(service, kube):
    await shown(kube)
    unit = service.newcomers.unit(UID)
    assert service.gatherer.facts(unit).nodes == {}
    looked = record(nodes=("n1", "n2", "n3"))
    unit.job = Placeholder(looked.job_id, record=looked, proven=True)
    kube.set_node("n2", ready=False)
    await asyncio.sleep(0)  # until the news of the Node is passed on
    assert service.gatherer.facts(unit).nodes == {
        "n1": Place("n1"),
        "n2": Place("n2", Unfit("is not ready", passes=True)),
    }
    await service.nodes.learn(("n1", "n2", "n3"))
    assert service.gatherer.facts(unit).nodes["n3"] == Place(
        "",
        Unfit("maps to no Kubernetes Node: no Node has the name n3, Slurm does not know it"),
    )


async def test_what_a_former_process_told_is_known(service, kube):
    await shown(kube)
    condition = PodCondition("PodScheduled", "False", "SlurmPending", "why")
    seen = Pod(
        kube.pods[UID].metadata, PodSpec(), PodStatus(phase="Pending", conditions=(condition,))
    )
    kube.store.new().apply(Pod(ObjectMeta(uid="uid-1"), seen.spec, seen.status))
    unit = service.newcomers.unit("uid-1")
    assert unit.pods[0].said.condition == ("SlurmPending", "why")
