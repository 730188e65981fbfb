"""PodGroups of Kubernetes' own, as in test_pod_groups.py: who is the gang, and what they say."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.stories.clusters import told_on
from tests.stories.test_pod_groups import three_pods_of_which_two_are_the_gang
from tests.support.pod_group import condition
from tests.support.world import World

# The real API server is one of its own, with the gate GenericWorkload.
cluster = told_on("sandbox-26.05", "sandbox-24.11", "live-26.05-pod-groups")
_KIND: Final = "podgroups.scheduling.k8s.io"
pytestmark = [
    pytest.mark.flags("--gang-linger=2s"),
    pytest.mark.xdist_group("pod_groups"),
    pytest.mark.live_on("26.05"),
]


async def _of_kubernetes(world: World) -> dict[str, Any]:
    """A PodGroup of two pods of Kubernetes' own; what its pods have."""
    body = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "trio"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }
    await world.kube.create(_KIND, body, namespace=world.namespace)
    return {"schedulingGroup": {"podGroupName": "trio"}}


async def test_pods_beyond_min_count_get_jobs_of_their_own(world: World) -> None:
    await three_pods_of_which_two_are_the_gang(world, await _of_kubernetes(world))


async def test_condition_of_a_pod_group_says_why_and_that_it_is_placed(
    world: World,
) -> None:
    member = await _of_kubernetes(world)
    await world.create("trio-0", cpus="1", memory="100Mi", **member)

    async def says(*wanted: str) -> bool:
        found = await world.kube.get(_KIND, "trio", namespace=world.namespace)
        return condition(found) == wanted

    await world.until("it says that it waits", lambda: says("False", "Unschedulable"))
    await world.create("trio-1", cpus="1", memory="100Mi", **member)
    for number in range(2):
        await world.running(f"trio-{number}")
    await world.until("it says that it is placed", lambda: says("True", "Scheduled"))
