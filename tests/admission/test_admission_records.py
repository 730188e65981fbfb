"""Nobody but the scheduler writes its records on pods, by whatever way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from tests.support import pods
from tests.support.admission import until

if TYPE_CHECKING:
    from tests.rigs.kube import Answer, KubeRig

pytestmark = pytest.mark.live

RIGHTS: Final = Path(__file__).parents[2] / "deploy/manifests/rbac.yaml"
_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
HOME: Final = "slurm-pod-scheduler"
ALONE: Final = "for the scheduler alone"
Ask = Callable[..., "Answer"]


def token(rig: KubeRig, name: str, *, namespace: str) -> str:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    wanted = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    return str(rig.ask("POST", path, wanted).body["status"]["token"])


@pytest.fixture
def author(policies: KubeRig, namespace: str) -> Ask:
    """Somebody with the rights of the role `edit`, and to bind pods and write their status."""
    roles = {
        "edit": {"kind": "ClusterRole", "name": "edit"},
        "more": {"kind": "Role", "name": "more"},
    }
    rule = {"apiGroups": [""], "resources": ["pods/binding", "bindings"], "verbs": ["create"]}
    status = {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]}
    more = {"metadata": {"name": "more"}, "rules": [rule, status]}
    policies.ask("POST", f"{_RBAC}/namespaces/{namespace}/roles", more)
    for name, role in roles.items():
        subject = {"kind": "ServiceAccount", "name": "default", "namespace": namespace}
        reference = {"apiGroup": "rbac.authorization.k8s.io", **role}
        body = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
        policies.ask("POST", f"{_RBAC}/namespaces/{namespace}/rolebindings", body)
    ask = _as(policies, token(policies, "default", namespace=namespace), namespace)
    until(lambda: ask("GET", "pods").status == 200 and _may_patch(ask), "the author's rights count")
    return ask


@pytest.fixture
def scheduler(policies: KubeRig, namespace: str) -> Ask:
    """The scheduler's service account, with the rights of the manifest."""
    plural = {"Namespace": "namespaces", "ServiceAccount": "serviceaccounts"}
    for body in yaml.safe_load_all(RIGHTS.read_text()):
        kind, within = body["kind"], body["metadata"].get("namespace")
        place = f"/namespaces/{within}" if within else ""
        group = "/api/v1" if kind in plural else _RBAC
        path = f"{group}{place}/{plural.get(kind, kind.lower() + 's')}"
        assert policies.ask("POST", path, body).status in {201, 409}
    ask = _as(policies, token(policies, HOME, namespace=HOME), namespace)
    until(lambda: _may_patch(ask), "the scheduler's rights count")
    return ask


def _may_patch(ask: Ask) -> bool:
    """The API server learns of a new role by a watch of its own."""
    return ask("PATCH", "pods/no-such-pod/status", {}).status == 404


def _as(rig: KubeRig, user: str, namespace: str) -> Ask:
    def ask(method: str, path: str, body: Any = None) -> Answer:
        return rig.ask(method, f"/api/v1/namespaces/{namespace}/{path}", body, token=user)

    return ask


def annotated(**values: str | None) -> dict[str, Any]:
    names = {key.replace("_", "-"): value for key, value in values.items()}
    return {"metadata": {"annotations": {f"slurm-pod-scheduler/{k}": v for k, v in names.items()}}}


def refused(answer: Answer, *words: str) -> None:
    assert answer.status == 403, answer.text
    for word in words:
        assert word in answer.body["message"]


def test_pod_that_is_created_with_records_is_refused(author: Ask) -> None:
    for forged in ({pods.JOB_ID: "4711"}, {pods.NODES: "e-000"}, {pods.ENDS_AT: "never"}):
        ((key, value),) = forged.items()
        answer = author("POST", "pods", pods.pod("forged", annotations=forged))
        refused(answer, f"{key} is '{value}'", "expected no such annotation", ALONE)


def test_pod_on_a_node_of_its_authors_choice_is_refused(author: Ask) -> None:
    placed = pods.pod("placed", nodeName="e-000")
    refused(author("POST", "pods", placed), "spec.nodeName is 'e-000'", "expected not set")
    foreign = pods.pod("foreign", scheduler="default-scheduler", nodeName="e-000")
    assert author("POST", "pods?dryRun=All", foreign).status == 201


def test_records_are_edited_by_the_scheduler_alone(author: Ask, scheduler: Ask) -> None:
    assert author("POST", "pods", pods.pod("train")).status == 201
    refused(author("PATCH", "pods/train", annotated(job_id="1")), ALONE)
    refused(author("PATCH", "pods/train/status", annotated(job_id="1")), ALONE)
    assert scheduler("PATCH", "pods/train/status", annotated(job_id="7")).status == 200
    refused(author("PATCH", "pods/train", annotated(job_id="8")), "is '8'", ALONE)
    refused(author("PATCH", "pods/train", annotated(job_id=None)), "expected '7' as before", ALONE)
    refused(author("PATCH", "pods/train/status", annotated(job_id=None)), ALONE)
    assert scheduler("PATCH", "pods/train/status", annotated(job_id=None)).status == 200


def test_everything_else_about_a_pod_with_records_can_be_changed(
    author: Ask, scheduler: Ask
) -> None:
    assert author("POST", "pods", pods.pod("train")).status == 201
    assert scheduler("PATCH", "pods/train/status", annotated(job_id="7")).status == 200
    mine = {"metadata": {"annotations": {"example.com/mine": "1"}, "labels": {"a": "b"}}}
    assert author("PATCH", "pods/train", mine).status == 200
    ready = {"status": {"conditions": [{"type": "example.com/ready", "status": "True"}]}}
    assert author("PATCH", "pods/train/status", ready).status == 200
    assert author("DELETE", "pods/train").status == 200


@pytest.mark.parametrize("way", ["pods/train/binding", "bindings"])
def test_binding_carries_records_only_from_the_scheduler(
    author: Ask, scheduler: Ask, way: str
) -> None:
    assert author("POST", "pods", pods.pod("train")).status == 201
    target = {"apiVersion": "v1", "kind": "Node", "name": "e-000"}
    binding = {"metadata": {"name": "train"} | annotated(job_id="1")["metadata"], "target": target}
    refused(author("POST", way, binding), "slurm-pod-scheduler/job-id is '1'", ALONE)
    assert scheduler("POST", "pods/train/binding", binding).status == 201
    bound = author("GET", "pods/train").body
    assert pods.annotation(bound, pods.JOB_ID) == "1"


def test_records_in_a_template_are_refused_when_a_controller_makes_the_pods(
    policies: KubeRig, author: Ask, namespace: str
) -> None:
    template = pods.pod("any", annotations={pods.JOB_ID: "1"})
    body = {
        "metadata": {"name": "forged"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "any"}},
            "template": {
                "metadata": {k: v for k, v in template["metadata"].items() if k != "name"},
                "spec": template["spec"],
            },
        },
    }
    sets = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    assert policies.ask("POST", sets, body).status == 201

    def told() -> bool:
        events = author("GET", "events").body["items"]
        return any(it["reason"] == "FailedCreate" and ALONE in it["message"] for it in events)

    until(told, "the ReplicaSet tells why it has no pods")
