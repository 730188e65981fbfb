"""PodGroups with more pods than start together: so many are a gang, the others get jobs of their
own when it runs.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.support import pods
from tests.support.kube import Object
from tests.support.world import World

_GANG: Final = "slurm-pod-scheduler/gang"
_LABEL: Final = "scheduling.x-k8s.io/pod-group"
# What matters here of the definition of scheduler-plugins v0.33.5.
_DEFINITION: Final[Object] = {
    "metadata": {"name": "podgroups.scheduling.x-k8s.io"},
    "spec": {
        "group": "scheduling.x-k8s.io",
        "names": {"kind": "PodGroup", "plural": "podgroups", "shortNames": ["pg", "pgs"]},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {"minMember": {"type": "integer", "minimum": 1}},
                            }
                        },
                    }
                },
            }
        ],
    },
}
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
pytestmark = [pytest.mark.flags("--gang-linger=2s")]


@pytest.fixture
async def defined(world: World) -> None:
    """The API server has the PodGroups of scheduler-plugins."""
    if world.cluster.name.startswith("live"):
        status, body = await world.kube.answer("POST", _DEFINITIONS, _DEFINITION)
        assert status == 201 or "already exists" in str(body), body

        async def is_served() -> bool:
            path = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"
            return (await world.kube.answer("GET", path, None))[0] == 200

        await world.until("PodGroups are served", is_served)


async def _of_plugins(world: World) -> dict[str, Any]:
    """A PodGroup of two pods of scheduler-plugins; what its pods have."""
    body = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "trio"},
        "spec": {"minMember": 2},
    }
    await world.kube.create("podgroups", body, namespace=world.namespace)
    return {"labels": {_LABEL: "trio"}}


async def _of_kubernetes(world: World) -> dict[str, Any]:
    """A PodGroup of two pods of Kubernetes' own; what its pods have."""
    body = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "trio"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }
    await world.kube.create("podgroups.scheduling.k8s.io", body, namespace=world.namespace)
    return {"schedulingGroup": {"podGroupName": "trio"}}


@pytest.mark.live_on("26.05")
@pytest.mark.usefixtures("defined")
async def test_pods_beyond_min_member_get_jobs_of_their_own(world: World) -> None:
    await _three_pods_of_which_two_are_the_gang(world, await _of_plugins(world))


@pytest.mark.live_on("neither")
async def test_pods_beyond_min_count_get_jobs_of_their_own(world: World) -> None:
    await _three_pods_of_which_two_are_the_gang(world, await _of_kubernetes(world))


async def _three_pods_of_which_two_are_the_gang(world: World, member: dict[str, Any]) -> None:
    for number in range(3):
        await world.create(f"trio-{number}", cpus="1", memory="100Mi", **member)
    first, second, third = [await world.running(f"trio-{it}") for it in range(3)]
    gang, single = await world.placeholder(first), await world.placeholder(third)
    assert pods.annotation(second, pods.JOB_ID) == str(gang.job_id)
    assert gang.tag["uids"] == [it["metadata"]["uid"] for it in (first, second)]
    assert single.tag["uids"] == [third["metadata"]["uid"]]
    assert pods.annotation(third, _GANG) == "none"

    world.scheduler.kill()
    world.scheduler.start()
    await world.delete("trio-1")
    await world.gone("trio-1")
    await world.create("trio-1", cpus="1", memory="100Mi", **member)
    again = await world.running("trio-1")
    assert pods.annotation(again, pods.JOB_ID) == str(gang.job_id)
    assert pods.node_of(again) == pods.node_of(second)

    await world.slurm.cancel(gang.job_id)
    await world.gone("trio-0")
    await world.gone("trio-1")
    world.unharmed(third)
    assert [it.job_id for it in await world.slurm.live_placeholders(world.namespace)] == [
        single.job_id
    ]
    await world.delete("trio-2")
    await world.job_ended(single.job_id, state="CANCELLED")
    await world.nothing_left()
