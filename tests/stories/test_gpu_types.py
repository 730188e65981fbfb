"""A pod names its GPU type as Node labels do, and the job asks for it by Slurm's own name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from tests.support import pods
from tests.support.world import World

pytestmark = pytest.mark.flags("--gpu-type-keys=gpu.nvidia.com/model,nvidia.com/gpu.product")

PRODUCT: Final = "nvidia.com/gpu.product"
VALUE: Final = "NVIDIA-H100-80GB-HBM3"


@pytest.fixture
async def labelled(world: World) -> AsyncIterator[World]:
    """The world with Nodes that are labelled as by NVIDIA's GPU feature discovery."""
    await _label(world, VALUE)
    yield world
    await _label(world, None)


async def _label(world: World, value: str | None) -> None:
    for node in world.cluster.nodes:
        await world.kube.patch("nodes", node, {"metadata": {"labels": {PRODUCT: value}}})


def affinity(value: str) -> dict[str, Any]:
    wanted = {"key": PRODUCT, "operator": "In", "values": [value]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    return {"affinity": {"nodeAffinity": required}}


@pytest.mark.parametrize(
    "wants", [{"nodeSelector": {PRODUCT: VALUE}}, affinity(VALUE)], ids=["selector", "affinity"]
)
async def test_type_that_slurm_has_is_asked_for_without_any_map(
    labelled: World, wants: dict[str, Any]
) -> None:
    await labelled.create(gpus=2, **wants)
    job = await labelled.placeholder(await labelled.running())
    assert job.raw["tres_per_node"] == "gres/gpu:h100:2"


@pytest.mark.live_on("26.05")
async def test_restart_with_slurm_away_costs_no_pending_job_its_place(labelled: World) -> None:
    world = labelled
    await world.fill()
    await world.create(gpus=2, nodeSelector={PRODUCT: VALUE})
    await world.waiting()
    job = await world.submitted()
    world.scheduler.kill()
    await world.cluster.stop("slurmrestd")
    world.scheduler.launch()
    try:
        await world.create("second", gpus=1, nodeSelector={PRODUCT: VALUE})
        await world.message_with("cannot be", name="second")
    finally:
        await world.cluster.start("slurmrestd")
    second = await world.submitted("second")
    assert second.raw["tres_per_node"] == "gres/gpu:h100:1"
    events = await world.kube.events_of("train", namespace=world.namespace)
    assert "PlaceholderLost" not in {it["reason"] for it in events}
    now = await world.submitted()
    assert (now.job_id, now.live) == (job.job_id, True)
    waits = await world.kube.get("pods", "train", namespace=world.namespace)
    assert pods.node_of(waits) is None
