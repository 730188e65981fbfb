"""PodGroups: the definition of scheduler-plugins for a real server, and what both kinds say."""

from __future__ import annotations

from typing import Final

from tests.support.kube import Object
from tests.support.world import World

DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
# What matters here of the definition of scheduler-plugins v0.33.5.
OF_PLUGINS: Final[Object] = {
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
                            },
                            "status": {
                                "type": "object",
                                "properties": {
                                    "phase": {"type": "string"},
                                    "running": {"type": "integer"},
                                },
                            },
                        },
                    }
                },
                "subresources": {"status": {}},
            }
        ],
    },
}


async def define(world: World) -> None:
    """Have a real API server serve the PodGroups of scheduler-plugins; the model always does."""
    if not world.cluster.name.startswith("live"):
        return
    status, body = await world.kube.answer("POST", DEFINITIONS, OF_PLUGINS)
    assert status == 201 or "already exists" in str(body), body

    async def is_served() -> bool:
        path = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"
        return (await world.kube.answer("GET", path, None))[0] == 200

    await world.until("PodGroups are served", is_served)


async def create(world: World, name: str, *, size: int) -> Object:
    """Create a PodGroup of scheduler-plugins; what its pods have."""
    body = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": size},
    }
    await world.kube.create("podgroups", body, namespace=world.namespace)
    return {"labels": {"scheduling.x-k8s.io/pod-group": name}}


def phase(group: Object) -> str:
    """The phase of one of scheduler-plugins; "" if it has none."""
    return str(group.get("status", {}).get("phase", ""))


def condition(group: Object) -> tuple[str, str]:
    """Status and reason of the condition of one of Kubernetes' own; ("", "") if it has none."""
    for it in group.get("status", {}).get("conditions", ()):
        if it["type"] == "PodGroupScheduled":
            return it["status"], it["reason"]
    return "", ""
