"""What is kept of claims, volumes and Namespaces, whatever their authors write into them."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from scheduler.kube.store import Store
from scheduler.kube.wire import (
    CLAIMS,
    MOST_NAMESPACE_LABELS,
    NAMESPACES,
    VOLUMES,
    Added,
    Claim,
    Decode,
)
from tests.support.costs import measured

Body = dict[str, Any]

# 253 bytes of the name, as many of the namespace, and a label has 380.
MOST_CLAIM_BYTES: Final = 2 * 1024
MOST_NAMESPACE_BYTES: Final = 80 * 1024
COMPLETED: Final = "pv.kubernetes.io/bind-completed"
LABELS: Final = {f"key-{n}": "v" * 63 for n in range(10_000)}
ANNOTATIONS: Final = {f"note-{n}": "" for n in range(10_000)} | {COMPLETED: "y" * 200_000}


def line(number: int = 0, *, meta: Body | None = None, spec: Body | None = None) -> bytes:
    identity = {"name": f"o-{number}", "namespace": "ns", "uid": f"u-{number}"}
    metadata = {**identity, "resourceVersion": "7", **(meta or {})}
    return json.dumps(
        {"type": "ADDED", "object": {"metadata": metadata, "spec": spec or {}}}
    ).encode()


@pytest.mark.parametrize(
    ("decode", "most_bytes"),
    [
        (CLAIMS, MOST_CLAIM_BYTES),
        (VOLUMES, MOST_CLAIM_BYTES),
        (NAMESPACES, MOST_NAMESPACE_BYTES),
    ],
    ids=["claims", "volumes", "namespaces"],
)
def test_little_is_kept_of_an_object_of_a_megabyte(decode: Decode[Any], most_bytes: int) -> None:
    large = {"labels": LABELS, "annotations": ANNOTATIONS}
    store, count = Store[Any](), 4
    spec = {"volumeName": "v" * 300_000}
    lines = [line(number, meta=large, spec=spec) for number in range(count)]
    assert min(map(len, lines)) > 1_000_000
    with measured() as cost:
        for it in lines:
            event = decode.event(it)
            assert isinstance(event, Added)
            store.apply(event.object)
    assert len(store) == count
    assert cost.kept_bytes / count < most_bytes


@pytest.mark.parametrize(
    ("meta", "spec", "bound"),
    [
        ({"annotations": {COMPLETED: "yes"}}, {"volumeName": "v"}, True),
        ({"annotations": {COMPLETED: ""}}, {"volumeName": "v" * 253}, True),
        ({"annotations": {COMPLETED: "yes"}}, {}, False),
        ({"annotations": {"other": "yes"}}, {"volumeName": "v"}, False),
        ({}, {"volumeName": "v"}, False),
    ],
)
def test_claim_is_bound_once_it_has_a_volume_and_the_mark(
    meta: Body, spec: Body, *, bound: bool
) -> None:
    event = CLAIMS.event(line(meta=meta, spec=spec))
    assert isinstance(event, Added)
    claim: Claim = event.object
    assert claim.bound is bound
    assert claim.spec.volume_name == spec.get("volumeName", "")


def test_labels_of_an_ordinary_namespace_are_all_kept() -> None:
    labels = {f"l{n}": str(n) for n in range(MOST_NAMESPACE_LABELS)}
    event = NAMESPACES.event(line(meta={"labels": labels}))
    assert isinstance(event, Added)
    assert event.object.metadata.labels == labels
