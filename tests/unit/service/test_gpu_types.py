"""GPU types learnt of Slurm: before the first submit, and never at the cost of a job that waits."""

from __future__ import annotations

import asyncio

import pytest

from scheduler.core.naming import JOB_ID, JOB_NODES
from slurmapi import BaseState, JobState, SlurmDenied, SlurmUnreachable
from tests.unit.core.things import tag
from tests.unit.service.test_nodes import World, slurm_node
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime
UID = "uid-0"
LABEL = "gpu.nvidia.com/model"
AWAY = SlurmUnreachable("connection refused")


def create(kube: TinyKube) -> None:
    for name in ("n1", "n2"):
        kube.set_node(name, labels={LABEL: "H100_NVLINK_80GB"})
    kube.create(UID, gpus=2, selector={LABEL: "H100_NVLINK_80GB"})


def asked(slurm: TinySlurm) -> list[object]:
    return [it.gres for it in slurm.submissions.values()]


async def test_pod_is_submitted_with_a_type_that_only_slurm_has_told(slurm, kube, service):
    slurm.gres = "gpu:h100:8(S:0-1)"
    create(kube)
    service.start()
    await asyncio.sleep(5)
    assert asked(slurm) == ["gres/gpu:h100:2"]
    assert slurm.calls["submit"] == 1


async def test_type_that_no_job_can_be_asked_for_is_not_learnt(slurm, kube, service):
    """Without a letter it would be read as a count."""
    slurm.gres = "gpu:3090:8"
    for name in ("n1", "n2"):
        kube.set_node(name, labels={LABEL: "NVIDIA-GeForce-RTX-3090"})
    kube.create(UID, gpus=2, selector={LABEL: "NVIDIA-GeForce-RTX-3090"})
    service.start()
    await asyncio.sleep(5)
    assert asked(slurm) == ["gres/gpu:2"]


async def test_pod_waits_for_the_first_list_and_says_so(slurm, kube, service):
    slurm.gres = "gpu:h100:8"
    slurm.fail["nodes"].extend([AWAY] * 5)
    create(kube)
    service.start()
    await asyncio.sleep(7)
    assert slurm.calls["submit"] == 0
    condition = kube.condition_of(UID)
    assert condition is not None
    assert condition.reason == "SlurmUnavailable"
    assert "connection refused" in condition.message
    await asyncio.sleep(6)
    assert asked(slurm) == ["gres/gpu:h100:2"]


async def test_pod_says_why_the_nodes_cannot_be_listed_now(slurm, kube, service):
    slurm.fail["nodes"].extend([AWAY] * 3 + [SlurmDenied("no right to see nodes")] * 1000)
    create(kube)
    service.start()
    await asyncio.sleep(30)
    condition = kube.condition_of(UID)
    assert condition is not None
    assert "no right to see nodes" in condition.message


async def submit_and_die(slurm: TinySlurm, kube: TinyKube) -> None:
    slurm.gres = "gpu:h100:8"
    create(kube)
    first = Service(slurm, kube)
    first.start()
    await asyncio.sleep(5)
    await first.kill()
    kube.relist()


@pytest.mark.parametrize("lists", [0, 20], ids=["at once", "much later"])
async def test_restart_costs_no_pending_job_its_place(slurm, kube, lists):
    await submit_and_die(slurm, kube)
    slurm.fail["nodes"].extend([AWAY] * lists)
    second = Service(slurm, kube)
    second.start()
    await asyncio.sleep(100)
    await second.kill()
    assert slurm.calls["submit"] == 1
    assert slurm.calls["cancel"] == 0
    assert slurm.live(1)


async def test_restart_while_the_nodes_of_a_type_are_away_costs_no_job_its_place(slurm, kube):
    """Dynamic nodes come back to Slurm only after it was started again itself."""
    await submit_and_die(slurm, kube)
    slurm.gres = ""
    second = Service(slurm, kube)
    second.start()
    await asyncio.sleep(30)
    slurm.gres = "gpu:h100:8"
    await asyncio.sleep(600)
    await second.kill()
    assert slurm.calls["submit"] == 1
    assert slurm.calls["cancel"] == 0


async def test_pod_that_runs_gets_no_job_of_another_type_while_slurm_is_silent(
    slurm, kube, service
):
    """Slurm has lost its job, and lists its nodes only later."""
    slurm.gres = "gpu:h100:8"
    slurm.fail["nodes"].extend([AWAY] * 8)
    kube.create(
        UID,
        gpus=2,
        selector={LABEL: "H100_NVLINK_80GB"},
        node="n1",
        annotations={JOB_ID: "999", JOB_NODES: "n1"},
    )
    service.start()
    await asyncio.sleep(100)
    assert asked(slurm) == ["gres/gpu:h100:2"]
    assert kube.deleted == []


async def test_job_that_runs_is_bound_before_slurm_tells_its_nodes(slurm, kube, service):
    slurm.fail["nodes"].extend([AWAY] * 1000)
    slurm.add(admin_comment=tag(), state=JobState(BaseState.RUNNING), nodes=("n1",))
    kube.create(UID)
    await asyncio.sleep(2 * kube.lag)
    service.start()
    await asyncio.sleep(10)
    assert kube.bindings == [(UID, "n1")]


async def test_pods_that_wait_are_read_anew_when_a_type_appears(slurm, kube, service):
    create(kube)
    service.start()
    await asyncio.sleep(5)
    assert asked(slurm) == ["gres/gpu:2"]
    slurm.gres = "gpu:h100:8"
    await asyncio.sleep(320)
    assert asked(slurm)[-1] == "gres/gpu:h100:2"
    assert [it.job_id for it in slurm.jobs.values() if not it.state.ended] == [2]


def types(world: World) -> set[str]:
    return set(world.nodes.gpu_types or ())


async def test_types_are_not_known_before_the_first_list_and_stay_known_after() -> None:
    world = World()
    assert world.nodes.gpu_types is None
    assert world.nodes.unlisted
    await world.list()
    assert (types(world), world.nodes.unlisted, world.changes) == (set(), "", 1)
    await world.list(slurm_node("n1", gres="gpu:h100:8"))
    assert (types(world), world.changes) == ({"h100"}, 2)
    await world.list(slurm_node("n1", gres="gpu:a100:8"))
    assert (types(world), world.changes) == ({"h100", "a100"}, 3)
    await world.list(slurm_node("n1", gres="gpu:a100:8", gres_used="gpu:a100:1"))
    assert world.changes == 3


async def test_type_of_a_node_that_is_asked_for_by_itself_is_learnt() -> None:
    world = World("comment")
    await world.list()
    world.slurm.items["n9"] = slurm_node("n9", gres="gpu:b200:8")
    await world.nodes.learn(("n9",))
    assert types(world) == {"b200"}


@pytest.mark.parametrize("lists", [0, 3], ids=["at once", "later"])
async def test_pod_that_no_node_fits_is_not_submitted_right_after_a_start(
    slurm, kube, service, lists
):
    """Before Slurm has told its nodes none of them is ruled out."""
    slurm.fail["nodes"].extend([AWAY] * lists)
    kube.create(UID, selector={"zone": "nowhere"})
    await asyncio.sleep(2 * kube.lag)
    service.start()
    await asyncio.sleep(30)
    assert slurm.calls["submit"] == 0
    condition = kube.condition_of(UID)
    assert condition is not None
    assert condition.reason == "NoNodeFits"
