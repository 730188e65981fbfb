"""The scheduler's account touches pods of its scheduler only, and no labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.admission.test_admission_records import Ask, author, scheduler
from tests.support import pods

if TYPE_CHECKING:
    from tests.rigs.kube import KubeRig

__all__ = ["author", "scheduler"]
pytestmark = pytest.mark.live

_RECORD = {"metadata": {"annotations": {pods.JOB_ID: "4711"}}}
_WAITS = {"type": "PodScheduled", "status": "False", "reason": "SlurmPending"}


@pytest.fixture
def pod_of(policies: KubeRig, namespace: str) -> Any:
    """Makes a pod of a scheduler, with a label and an annotation."""

    def made(name: str, schedulers_name: str) -> None:
        body = pods.pod(name, scheduler=schedulers_name, annotations={"site": "a"})
        path = f"/api/v1/namespaces/{namespace}/pods"
        assert policies.ask("POST", path, body).status == 201

    return made


def test_own_pods_are_told_and_deleted(pod_of: Any, scheduler: Ask) -> None:
    pod_of("ours", "slurm-scheduler")
    patch = {**_RECORD, "status": {"conditions": [_WAITS]}}
    assert scheduler("PATCH", "pods/ours/status", patch).status == 200
    assert scheduler("DELETE", "pods/ours").status == 200


def test_pods_of_others_are_neither_written_nor_deleted(pod_of: Any, scheduler: Ask) -> None:
    pod_of("theirs", "default-scheduler-of-theirs")
    for method, path, body in (
        ("PATCH", "pods/theirs/status", {"status": {"conditions": [_WAITS]}}),
        ("DELETE", "pods/theirs", None),
    ):
        answer = scheduler(method, path, body)
        assert answer.status in {403, 422}, answer.text
        assert "may touch no pods of others" in answer.text


def test_binding_of_others_is_shown_to_no_policy(pod_of: Any, scheduler: Ask) -> None:
    """What whoever takes over the account can do with all policies in place, to any Node there is,
    as the API server does not compare the pod with it.
    """
    pod_of("theirs", "default-scheduler-of-theirs")
    body = {"metadata": {"name": "theirs"}, "target": {"kind": "Node", "name": "of-their-choice"}}
    assert scheduler("POST", "pods/theirs/binding", body).status == 201


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {"app": "other"}},
        {"labels": {"new": "1"}},
        {"labels": None},
        {"annotations": {"site": "b"}},
        {"annotations": {"site": None}},
        {"annotations": {"new": "1"}},
        {"finalizers": ["example.com/hold"]},
    ],
    ids=str,
)
def test_own_pods_keep_their_metadata(
    pod_of: Any, scheduler: Ask, metadata: dict[str, Any]
) -> None:
    pod_of("ours", "slurm-scheduler")
    answer = scheduler("PATCH", "pods/ours/status", {"metadata": metadata})
    assert answer.status in {403, 422}, answer.text
    assert "the account of the scheduler" in answer.text
