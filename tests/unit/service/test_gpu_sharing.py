"""Who else may use the node of a pod with GPUs."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from annotations import Sharing
from scheduler.core.actions import Submit
from scheduler.core.edits import digests
from scheduler.core.owner_tag import read_tag
from scheduler.core.slot_choice import Seat
from scheduler.state.units import Unit
from tests.unit.core.things import REQUEST
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import NODES, TinySlurm

pytestmark = pytest.mark.looptime

UID = "01234567-89ab"
ONE = (Seat(0, UID),)
GPUS = replace(REQUEST, gpus=2, gres="gpu:2", exclusive=None, keys={})


async def asked(slurm: TinySlurm, kube: TinyKube, request=GPUS, *, sharing="user", node=""):
    kube.create(UID)
    service = Service(slurm, kube, gpu_sharing=sharing)
    unit = service.units.add(Unit(UID, "ns", "train", seen_at=0.0))
    await service.executor.do(unit, Submit(request, ONE, nodes=(node,) if node else ()))
    assert unit.job is not None
    return slurm.submissions[unit.job.job_id]


@pytest.mark.parametrize(
    ("sharing", "shared"), [("user", "user"), ("node", "none"), ("shared", None)]
)
async def test_node_with_a_slurmd_is_shared_as_the_site_says(slurm, kube, sharing, shared):
    slurm.with_slurmd = set(NODES)
    job = await asked(slurm, kube, sharing=sharing)
    assert job.shared == shared
    tag = read_tag(job.admin_comment)
    assert tag is not None
    assert tag.asked == digests(GPUS), "what the site adds is no edit of the pod"


@pytest.mark.parametrize("gres", ["gres/shard:2", "gres/nic:1,gres/mps:50"])
async def test_part_of_a_gpu_is_as_much_a_danger_as_a_whole_one(slurm, kube, gres):
    """The kubelet may choose the device that Slurm has given to a native job as a whole."""
    slurm.with_slurmd = set(NODES)
    assert (await asked(slurm, kube, replace(GPUS, gpus=0, gres=gres))).shared == "user"


async def test_other_devices_are_none(slurm, kube):
    slurm.with_slurmd = set(NODES)
    nic = replace(GPUS, gpus=0, gres="gres/nic:2")
    assert (await asked(slurm, kube, nic)).shared is None


async def test_one_such_node_among_others_is_enough(slurm, kube):
    slurm.with_slurmd = {"n2"}
    assert (await asked(slurm, kube)).shared == "user"


async def test_nodes_without_a_slurmd_need_nothing(slurm, kube):
    assert (await asked(slurm, kube)).shared is None


async def test_pod_that_runs_goes_by_its_node(slurm, kube):
    slurm.with_slurmd = {"n2"}
    assert (await asked(slurm, kube, node="n1")).shared is None


async def test_pod_without_gpus_shares_as_ever(slurm, kube):
    slurm.with_slurmd = set(NODES)
    assert (await asked(slurm, kube, replace(GPUS, gpus=0, gres=None))).shared is None


@pytest.mark.parametrize(("wanted", "shared"), [(Sharing.NONE, "none"), (None, None)])
async def test_annotation_wins_and_false_is_one(slurm, kube, wanted, shared):
    slurm.with_slurmd = set(NODES)
    request = replace(GPUS, exclusive=wanted, keys={"exclusive": "slurm/exclusive"})
    assert (await asked(slurm, kube, request)).shared == shared
