"""A pod is deleted by force, so nobody has reported that its containers have stopped."""

from __future__ import annotations

import time
from typing import Final

import pytest

from scheduler.state.pod_remains import KUBELET_SECONDS
from tests.stories.clusters import told_on
from tests.support import pods
from tests.support.handover import cancel_placeholder, fill_others
from tests.support.world import World

cluster = told_on("sandbox-26.05")
# The forced deletion must come before the kubelet kills the containers, even on a crowded machine.
_GRACE: Final = 12


@pytest.mark.slow
async def test_next_pod_is_not_bound_beside_what_one_left_whose_job_had_ended(world: World) -> None:
    await world.create(
        grace=_GRACE,
        cpus=str(world.cluster.cpus_per_node),
        annotations={"sandbox/stop-seconds": "60"},
    )
    pod = await world.running()
    node = pods.node_of(pod)
    others = await fill_others(world, str(node))
    await world.create("second", cpus=str(world.cluster.cpus_per_node))
    await world.waiting("second")
    await cancel_placeholder(world, pod)
    await world.pod_that("is being deleted", pods.leaving)
    went_at = time.monotonic()
    await world.kube.delete("pods", "train", namespace=world.namespace, grace_seconds=0)
    await world.gone()
    await world.message_with("deleted before its containers had stopped", name="second")
    bound_to = await world.until("the second is bound", lambda: _node(world, "second"), seconds=75)
    assert time.monotonic() - went_at >= _GRACE + KUBELET_SECONDS
    assert bound_to == node
    await world.end_native(others)


async def _node(world: World, name: str) -> str | None:
    pod = await world.kube.find("pods", name, namespace=world.namespace)
    return None if pod is None else pods.node_of(pod)
