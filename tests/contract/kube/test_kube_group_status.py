"""The statuses of PodGroups, and who wrote them: what the scheduler may write, and over what."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

import pytest

from tests.contract.kube.client import (
    MERGE,
    STRATEGIC,
    Answer,
    Body,
    KubeClient,
    Namespace,
    eventually,
)
from tests.contract.kube.conftest import KubePeer
from tests.support.pod_group import DEFINITIONS, OF_PLUGINS, condition

if TYPE_CHECKING:
    from tests.rigs.kube import KubeRig

_OWN: Final = "/apis/scheduling.k8s.io/v1alpha2"
_PLUGINS: Final = "/apis/scheduling.x-k8s.io/v1alpha1"
_SPEC: Final[dict[str, Body]] = {
    _OWN: {"schedulingPolicy": {"gang": {"minCount": 2}}},
    _PLUGINS: {"minMember": 2},
}
_TIME: Final = "2026-01-02T03:04:05Z"


@pytest.fixture
def live_peer(live_pod_groups: KubeRig) -> KubePeer:
    """The rig that has Kubernetes' own PodGroups."""
    rig = live_pod_groups
    return KubePeer(url=rig.url, token=rig.token, ca=rig.ca, nodes=())


@pytest.fixture
async def kube(kube_peer: KubePeer) -> AsyncIterator[KubeClient]:
    """A client with the administrator's token; a real server gets scheduler-plugins' PodGroups."""
    async with KubeClient(kube_peer.url, token=kube_peer.token, ca=kube_peer.ca) as client:
        if kube_peer.ca is not None:
            answer = await client.post(DEFINITIONS, OF_PLUGINS)
            assert answer.status in {201, 409}, answer.body

            async def is_served() -> bool:
                return (await client.get(f"{_PLUGINS}/podgroups")).status == 200

            await eventually(is_served, "PodGroups are served")
        yield client


async def _create(kube: KubeClient, namespace: Namespace, api: str) -> tuple[str, Answer]:
    """Make a PodGroup; its path, and the answer."""
    path = namespace.path("podgroups", api=api)
    body = {
        "apiVersion": api.removeprefix("/apis/"),
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": _SPEC[api],
        "status": {},
    }
    answer = await kube.post(path, body)
    assert answer.status == 201, answer.body
    return f"{path}/g", answer


async def _write(
    kube: KubeClient, path: str, status: Body, *, manager: str, version: str | None = None
) -> Answer:
    """Merge this into the status, as the scheduler does."""
    metadata = {} if version is None else {"resourceVersion": version}
    return await kube.call(
        "PATCH",
        f"{path}/status",
        {"metadata": metadata, "status": status},
        content_type=STRATEGIC if _OWN in path else MERGE,
        query={"fieldManager": manager},
    )


def _condition(kind: str, status: str) -> Body:
    one = {"type": kind, "status": status, "reason": "Why", "message": "m"}
    return {"conditions": [{**one, "observedGeneration": 0, "lastTransitionTime": _TIME}]}


def _writers(group: Body, name: str, key: str = "") -> set[str]:
    """Who has written this field of the status, or this condition, last."""
    found = set()
    for it in group["metadata"].get("managedFields", ()):
        fields = it["fieldsV1"].get("f:status", {})
        if name in fields and (not key or key in fields[name]):
            assert it["subresource"] == "status"
            found.add(it["manager"])
    return found


async def test_condition_of_one_type_leaves_the_others(
    kube: KubeClient, namespace: Namespace
) -> None:
    path, _ = await _create(kube, namespace, _OWN)
    first = await _write(kube, path, _condition("Other", "True"), manager="somebody")
    assert first.status == 200, first.body
    second = await _write(kube, path, _condition("PodGroupScheduled", "False"), manager="us")
    assert second.status == 200, second.body
    conditions = second.body["status"]["conditions"]
    assert {it["type"]: it["status"] for it in conditions} == {
        "Other": "True",
        "PodGroupScheduled": "False",
    }
    assert _writers(second.body, "f:conditions", 'k:{"type":"PodGroupScheduled"}') == {"us"}
    assert _writers(second.body, "f:conditions", 'k:{"type":"Other"}') == {"somebody"}
    third = await _write(kube, path, _condition("PodGroupScheduled", "True"), manager="us")
    assert condition(third.body) == ("True", "Why")


async def test_phase_is_noted_with_its_last_writer(kube: KubeClient, namespace: Namespace) -> None:
    path, _ = await _create(kube, namespace, _PLUGINS)
    first = await _write(kube, path, {"phase": "Pending"}, manager="us")
    assert first.status == 200, first.body
    assert _writers(first.body, "f:phase") == {"us"}
    other = await _write(kube, path, {"phase": "Running", "running": 2}, manager="controller")
    assert other.body["status"] == {"phase": "Running", "running": 2}
    assert _writers(other.body, "f:phase") == {"controller"}
    again = await _write(kube, path, {"phase": "Running"}, manager="us")
    assert _writers(again.body, "f:phase") - {"us"} == {"controller"}
    assert again.body["spec"] == _SPEC[_PLUGINS]


@pytest.mark.parametrize("api", [_OWN, _PLUGINS], ids=["own", "plugins"])
async def test_write_over_another_version_is_refused(
    kube: KubeClient, namespace: Namespace, api: str
) -> None:
    path, made = await _create(kube, namespace, api)
    status = _condition("PodGroupScheduled", "False") if api == _OWN else {"phase": "Pending"}
    first = await _write(kube, path, status, manager="us", version=made.version)
    assert first.status == 200, first.body
    late = _condition("PodGroupScheduled", "True") if api == _OWN else {"phase": "Running"}
    refused = await _write(kube, path, late, manager="us", version=made.version)
    refused.refused(409, "Conflict")
    gone = await _write(kube, f"{path}x", late, manager="us")
    gone.refused(404, "NotFound")


async def test_write_of_the_spec_leaves_the_status(kube: KubeClient, namespace: Namespace) -> None:
    path, _ = await _create(kube, namespace, _PLUGINS)
    await _write(kube, path, {"phase": "Pending"}, manager="us")
    answer = await kube.patch(
        path, {"spec": {"minMember": 3}, "status": {"phase": "Failed"}}, MERGE
    )
    assert answer.body["spec"] == {"minMember": 3}
    assert answer.body["status"]["phase"] == "Pending"
