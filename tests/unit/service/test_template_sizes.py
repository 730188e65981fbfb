"""Gangs whose pods come in steps: those that do not exist yet get slots as their templates say."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

import msgspec
import pytest

from scheduler.core.gang_objects import (
    DependsOn,
    GroupMeta,
    JobSet,
    JobSetSpec,
    JobSpec,
    JobTemplate,
    LeaderWorkerSet,
    LeaderWorkerSetSpec,
    LeaderWorkerTemplate,
    ReplicatedJob,
)
from scheduler.facts.reader import RequestReader
from scheduler.facts.template_sizes import MOST_TEMPLATES
from scheduler.kube.wire import OwnerReference
from tests.unit.service.test_gangs import PREFIX
from tests.unit.service.test_large_gangs import Turns
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime
LWS: Final = "leaderworkerset.sigs.k8s.io/"
SETS: Final = "jobset.sigs.k8s.io/"
EXCLUSIVE: Final = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}
TWO: Final = {f"{PREFIX}pods-per-node": "2"}


def template(cpu: str, **spec: Any) -> msgspec.Raw:
    """The template of pods, with what an API server adds to it."""
    requests = {"cpu": cpu, "memory": "1Gi"} if cpu else {}
    container = {"name": "main", "resources": {"requests": requests}}
    body = {
        "metadata": {"creationTimestamp": None, "annotations": TWO},
        "spec": {"terminationGracePeriodSeconds": 20, "containers": [container], **spec},
    }
    return msgspec.Raw(json.dumps(body).encode())


def leader_worker_set(worker: msgspec.Raw, *, leader: msgspec.Raw | None = None) -> LeaderWorkerSet:
    of_set = LeaderWorkerTemplate(
        size=3, leader_template=leader or msgspec.Raw(), worker_template=worker
    )
    return LeaderWorkerSet(GroupMeta("train", "u"), LeaderWorkerSetSpec(of_set, "LeaderReady"))


def of_lws(kube: TinyKube, worker: int, *, cpu: str) -> None:
    """A pod of the set's only group."""
    labels = {f"{LWS}name": "train", f"{LWS}group-index": "0", f"{LWS}worker-index": str(worker)}
    maker = "train-0" if worker else "train"
    kube.create(
        f"uid-{worker}",
        name=f"train-0-{worker}",
        labels=labels,
        annotations={f"{LWS}size": "3", **TWO},
        owner=OwnerReference("StatefulSet", maker, "set", "apps/v1", controller=True),
        cpu=cpu,
    )


def components(slurm: TinySlurm) -> list[tuple[int, int]]:
    """The CPUs of a pod, and the number of slots, of each component of the only job."""
    (found,) = slurm.components.values()
    return [(it.cpus, (it.nodes or 0) * it.tasks_per_node) for it in found]


async def test_workers_that_come_when_their_leader_is_ready_find_slots_of_their_size(
    slurm, kube, service
):
    kube.groups["train"] = leader_worker_set(template("8"), leader=template("1"))
    service.start()
    of_lws(kube, 0, cpu="1")
    await asyncio.sleep(2)
    assert components(slurm) == [(1, 1), (8, 2)]
    slurm.start_parts(1, ("n2",), ("n1",))
    await asyncio.sleep(5)
    assert dict(kube.bindings) == {"uid-0": "n2"}
    for worker in (1, 2):
        of_lws(kube, worker, cpu="8")
    await asyncio.sleep(5)
    assert dict(kube.bindings) == {"uid-0": "n2", "uid-1": "n1", "uid-2": "n1"}
    assert slurm.calls["submit"] == 1


async def test_template_needs_no_metadata(slurm, kube, service):
    """The API server adds none to a template in a custom resource."""
    body = json.loads(bytes(template("8")))
    bare = msgspec.Raw(json.dumps({"spec": body["spec"]}).encode())
    kube.groups["train"] = leader_worker_set(bare, leader=template("1"))
    service.start()
    of_lws(kube, 0, cpu="1")
    await asyncio.sleep(2)
    assert components(slurm) == [(1, 1), (8, 2)]
    assert "RequirementIgnored" not in service.recorder.reasons()


async def test_init_containers_and_overhead_of_a_template_count(slurm, kube, service):
    init = [{"name": "i", "resources": {"requests": {"cpu": "6", "memory": "1Gi"}}}]
    large = template("4", initContainers=init, overhead={"cpu": "1"})
    kube.groups["train"] = leader_worker_set(large, leader=template("1"))
    service.start()
    of_lws(kube, 0, cpu="1")
    await asyncio.sleep(2)
    assert components(slurm) == [(1, 1), (7, 2)]


async def test_leader_without_a_template_of_its_own_shows_what_becomes_of_the_template(
    slurm, kube, service
):
    """Defaults of the namespace have changed its leader, so they will change its workers."""
    kube.groups["train"] = leader_worker_set(template("2"))
    service.start()
    of_lws(kube, 0, cpu="4")
    await asyncio.sleep(2)
    (submitted,) = slurm.submissions.values()
    assert (submitted.cpus, submitted.nodes, submitted.tasks_per_node) == (4, 1, 2)
    assert "RequirementIgnored" not in service.recorder.reasons()


def job_set(*parts: tuple[str, int, msgspec.Raw]) -> JobSet:
    """Each part waits until the one before is ready."""
    found: list[ReplicatedJob] = []
    for name, pods, made_of in parts:
        after = (DependsOn(found[-1].name, "Ready"),) if found else ()
        spec = JobSpec(parallelism=pods, completions=pods, template=made_of)
        found.append(ReplicatedJob(name, 1, JobTemplate(spec=spec), after))
    return JobSet(GroupMeta("train", "uid-of-set"), JobSetSpec(tuple(found)))


def of_set(kube: TinyKube, part: str, job: int, index: int, *, cpu: str) -> None:
    labels = {
        f"{SETS}jobset-name": "train",
        f"{SETS}jobset-uid": "uid-of-set",
        f"{SETS}replicatedjob-name": part,
        f"{SETS}job-index": "0",
        f"{SETS}job-global-index": str(job),
    }
    kube.create(
        f"{part}-{index}",
        name=f"train-{part}-0-{index}",
        labels=labels,
        annotations={"batch.kubernetes.io/job-completion-index": str(index), **TWO},
        owner=OwnerReference("Job", f"train-{part}-0", "job", "batch/v1", controller=True),
        cpu=cpu,
    )


async def test_jobs_that_come_when_others_are_ready_find_slots_of_their_size(slurm, kube, service):
    kube.groups["train"] = job_set(("driver", 1, template("1")), ("workers", 2, template("8")))
    service.start()
    of_set(kube, "driver", 0, 0, cpu="1")
    await asyncio.sleep(2)
    assert components(slurm) == [(1, 1), (8, 2)]
    slurm.start_parts(1, ("n2",), ("n1",))
    await asyncio.sleep(5)
    for index in (0, 1):
        of_set(kube, "workers", 1, index, cpu="8")
    await asyncio.sleep(5)
    assert {uid for uid, _ in kube.bindings} == {"driver-0", "workers-0", "workers-1"}
    assert slurm.calls["submit"] == 1


async def test_pod_that_exists_counts_more_than_its_template(slurm, kube, service):
    """Its requests are defaults of the namespace, so its template says no size."""
    parts = job_set(("workers", 2, template("")))
    kube.groups["train"] = msgspec.structs.replace(
        parts, metadata=GroupMeta("train", "uid-of-set", annotations=EXCLUSIVE)
    )
    service.start()
    of_set(kube, "workers", 0, 0, cpu="4")
    await asyncio.sleep(2)
    (submitted,) = slurm.submissions.values()
    assert (submitted.cpus, submitted.tasks_per_node) == (4, 2)
    assert "RequirementIgnored" not in service.recorder.reasons()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (template(""), "cpu"),
        (template("many"), "many"),
        (template("1", containers=[{"name": "c"}] * 200), "200 containers"),
        (msgspec.Raw(), "template is 'none'"),
        (msgspec.Raw(b'"text"'), "something else"),
        (msgspec.Raw(b'{"spec": {"containers": 3}}'), "something else"),
    ],
)
async def test_template_that_says_no_size_is_told_and_the_slots_are_as_those_before(
    slurm, kube, service, wrong, said
):
    kube.groups["train"] = job_set(("driver", 2, template("4")), ("workers", 2, wrong))
    service.start()
    for index in (0, 1):
        of_set(kube, "driver", 0, index, cpu="4")
    await asyncio.sleep(2)
    (submitted,) = slurm.submissions.values()
    assert (submitted.cpus, submitted.nodes, submitted.tasks_per_node) == (4, 2, 2)
    (event,) = {it.message for it in service.recorder.events if it.reason == "RequirementIgnored"}
    assert "spec.replicatedJobs[workers].template.spec.template" in event
    assert said in event
    assert len(event) <= 1024


async def test_more_sizes_than_components_are_refused_before_the_pods_exist(slurm, kube, service):
    parts = [(f"p{it}", 1, template(str(it + 1))) for it in range(9)]
    kube.groups["train"] = job_set(*parts)
    service.start()
    of_set(kube, "p0", 0, 0, cpu="1")
    await asyncio.sleep(2)
    condition = kube.condition_of("p0-0")
    assert condition is not None
    assert "different sizes of pods" in condition.message
    assert slurm.calls["submit"] == 0


async def test_template_beyond_those_that_are_read_counts_as_the_one_before_it(
    slurm, kube, service
):
    parts = [(f"p{it}", 1, template("4", hostname=f"h{it}")) for it in range(MOST_TEMPLATES)]
    kube.groups["train"] = job_set(*parts, ("last", 1, template("8")))
    service.start()
    of_set(kube, "p0", 0, 0, cpu="4")
    await asyncio.sleep(2)
    (submitted,) = slurm.submissions.values()
    assert submitted.cpus == 4
    assert not slurm.components


async def test_templates_are_read_in_many_turns(slurm, kube, service, monkeypatch):
    """Each may have two lists of 4096 nodes: 64 of them in one turn took half a second."""
    turns = Turns(RequestReader.read_template)
    monkeypatch.setattr(RequestReader, "read_template", turns.counted)
    parts = [(f"p{it}", 1, template("4", hostname=f"h{it}")) for it in range(MOST_TEMPLATES)]
    kube.groups["train"] = job_set(*parts)
    service.start()
    of_set(kube, "p0", 0, 0, cpu="4")
    await asyncio.sleep(2)
    assert (turns.calls, slurm.calls["submit"]) == (MOST_TEMPLATES, 1)
    assert turns.most <= 4
