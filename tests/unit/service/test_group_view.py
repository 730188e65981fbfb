"""A pod as the API server sends it, the cache keeps it, and the gang that it then belongs to."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from annotations import PREFIX
from scheduler.core.gang_sources import ALL_SOURCES, Membership, Outsider, Source
from scheduler.core.membership import membership
from scheduler.facts.group_view import group_view
from scheduler.kube.slim import slimmed
from scheduler.kube.wire import PODS, Added

DECODE: Final = slimmed(PODS, prefixes=(PREFIX,))
OF_JOB: Final[dict[str, Any]] = {
    "labels": {
        "batch.kubernetes.io/controller-uid": "u1",
        "batch.kubernetes.io/job-completion-index": "1",
        "batch.kubernetes.io/job-name": "train",
        "controller-uid": "u1",
        "job-name": "train",
    },
    "annotations": {"batch.kubernetes.io/job-completion-index": "1"},
    "ownerReferences": [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u0"},
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": "train",
            "uid": "u1",
            "controller": True,
            "blockOwnerDeletion": True,
        },
    ],
}


def gang(metadata: Any, **spec: Any) -> Any:
    meta = {"name": "p", "namespace": "ml", "uid": "u", **metadata}
    event = DECODE.event(
        json.dumps({"type": "ADDED", "object": {"metadata": meta, "spec": spec}}).encode()
    )
    assert isinstance(event, Added)
    pod = event.object
    return membership(group_view(pod, pod.metadata.annotations, (PREFIX,)), ALL_SOURCES)


def test_pod_of_a_batch_job_belongs_to_it() -> None:
    found = gang(OF_JOB)
    assert isinstance(found, Membership)
    assert (found.source, found.identity, found.rank) == (Source.JOB, "u1", 1)


def test_owner_that_is_not_the_controller_does_not_count() -> None:
    owners = [{**it, "controller": False} for it in OF_JOB["ownerReferences"]]
    assert isinstance(gang({**OF_JOB, "ownerReferences": owners}), Outsider)
    assert isinstance(gang({**OF_JOB, "ownerReferences": []}), Outsider)


@pytest.mark.parametrize(("group", "name"), [({"podGroupName": "ring"}, "ring"), ({}, None)])
def test_pod_names_its_pod_group_in_its_spec(group: dict[str, str], name: str | None) -> None:
    found = gang({}, schedulingGroup=group)
    assert (found and found.name) == name


def test_annotations_of_ours_count() -> None:
    found = gang({"annotations": {f"{PREFIX}gang": "ours", f"{PREFIX}gang-size": "2"}})
    assert isinstance(found, Membership)
    assert (found.source, found.size) == (Source.ANNOTATIONS, 2)
    assert gang({**OF_JOB, "annotations": {f"{PREFIX}gang": "none"}}) is None
