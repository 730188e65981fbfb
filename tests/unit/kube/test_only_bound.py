"""`only_bound`: whether a change of a pod is nothing but our own binding."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from annotations import PREFIX
from scheduler.core.naming import JOB_ID
from scheduler.kube.slim import only_bound
from scheduler.kube.wire import ObjectMeta, Pod, PodSpec

_ZONE, _REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
WAITS = Pod(
    metadata=ObjectMeta(name="p", uid="u", resource_version="1", labels={"app": "x"}),
    spec=PodSpec(),
)


def changed(pod: Pod = WAITS, *, node: str = "n1", **metadata: object) -> Pod:
    """The pod on a Node, with these fields of its metadata changed."""
    meta = replace(pod.metadata, resource_version="2", **metadata)
    return replace(pod, metadata=meta, spec=replace(pod.spec, node_name=node))


@pytest.mark.parametrize(
    "after",
    [
        changed(),
        changed(annotations={JOB_ID: "7"}),
        changed(labels={"app": "x", _ZONE: "a", _REGION: "r"}),
    ],
    ids=["node", "with the scheduler's records", "with the zone of the Node"],
)
def test_node_with_what_comes_with_it_is_a_binding(after: Pod) -> None:
    assert only_bound(WAITS, after)


@pytest.mark.parametrize(
    "after",
    [
        changed(annotations={f"{PREFIX}comment": "new"}),
        changed(labels={"app": "y"}),
        changed(labels={"app": "x", _ZONE: "a", "more": "1"}),
        changed(deletion_timestamp="2030-01-01T00:00:00Z"),
    ],
    ids=["annotation", "label", "label beside the zone", "deletion"],
)
def test_any_other_change_beside_the_node_is_more_than_a_binding(after: Pod) -> None:
    assert not only_bound(WAITS, after)


def test_change_of_a_pod_on_a_node_is_no_binding() -> None:
    assert not only_bound(changed(), changed(labels={"app": "x", _ZONE: "a"}))
