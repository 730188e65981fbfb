"""What a namespace's labels give to its pods, and what templates are warned of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support import pods
from tests.support.admission import KINDS, deployment, dry, until

if TYPE_CHECKING:
    from tests.rigs.kube import KubeRig

pytestmark = pytest.mark.live

NAME = {"slurm-pod-scheduler/scheduler-name": "slurm-scheduler"}
CLAMP = {"slurm-pod-scheduler/grace": "clamp"}


def label(rig: KubeRig, namespace: str, labels: dict[str, str]) -> None:
    path = f"/api/v1/namespaces/{namespace}"
    assert rig.ask("PATCH", path, {"metadata": {"labels": labels}}).status == 200


def spec_of(rig: KubeRig, namespace: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = dry(rig, body, namespace=namespace)
    assert answer.status == 201, answer.text
    return dict(answer.body["spec"])


def plain(name: str = "plain", **more: Any) -> dict[str, Any]:
    return pods.pod(name, scheduler="default-scheduler", **more)


def becomes_ours(rig: KubeRig, namespace: str) -> None:
    """Labels of namespaces are seen a moment later."""

    def named() -> bool:
        return bool(spec_of(rig, namespace, plain())["schedulerName"] == "slurm-scheduler")

    until(named, "pods get the namespace's scheduler")


def test_pods_get_the_scheduler_of_their_namespace(policies: KubeRig, namespace: str) -> None:
    assert spec_of(policies, namespace, plain())["schedulerName"] == "default-scheduler"
    label(policies, namespace, NAME)
    becomes_ours(policies, namespace)
    other = pods.pod("other", scheduler="another-scheduler")
    assert spec_of(policies, namespace, other)["schedulerName"] == "another-scheduler"


def test_pods_with_a_node_of_their_own_are_left_alone(policies: KubeRig, namespace: str) -> None:
    label(policies, namespace, NAME)
    becomes_ours(policies, namespace)
    daemon = plain()
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "1"}
    daemon["metadata"]["ownerReferences"] = [owner]
    left_out = plain()
    left_out["metadata"]["labels"] = {"slurm-pod-scheduler/scheduler-name": "none"}
    for body in (daemon, left_out, plain(nodeName="e-000")):
        assert spec_of(policies, namespace, body)["schedulerName"] == "default-scheduler"


def test_pod_that_got_the_scheduler_is_checked(policies: KubeRig, namespace: str) -> None:
    label(policies, namespace, NAME)
    becomes_ours(policies, namespace)
    answer = dry(policies, plain(grace=30), namespace=namespace)
    assert answer.status == 422
    assert "expected at most 24 (KillWait is 30s)" in answer.body["message"]


def test_grace_is_cut_where_the_namespace_asks_for_it(policies: KubeRig, namespace: str) -> None:
    label(policies, namespace, NAME | CLAMP)
    becomes_ours(policies, namespace)
    for grace, kept in ((30, 24), (25, 24), (24, 24), (3, 3), (0, 0)):
        found = spec_of(policies, namespace, plain(grace=grace))
        assert found["terminationGracePeriodSeconds"] == kept
    foreign = pods.pod("foreign", scheduler="another-scheduler", grace=90)
    assert spec_of(policies, namespace, foreign)["terminationGracePeriodSeconds"] == 90


def test_template_whose_pods_will_be_refused_is_warned_of(
    policies: KubeRig, namespace: str
) -> None:
    sets = f"/apis/apps/v1/namespaces/{namespace}/deployments?dryRun=All"
    wrong = policies.ask("POST", sets, deployment(pods.pod("a", slurm={"timeout": "1h"})))
    assert wrong.status == 201
    assert "sunk.coreweave.com/timeout is '1h'" in "".join(wrong.warnings)
    right = policies.ask("POST", sets, deployment(pods.pod("a", slurm={"timeout": "60"})))
    assert (right.status, right.warnings) == (201, ())
    crons = f"/apis/batch/v1/namespaces/{namespace}/cronjobs?dryRun=All"
    template = deployment(pods.pod("a", grace=30, restartPolicy="Never"))["spec"]["template"]
    job = {"spec": {"template": template}}
    cron = {"metadata": {"name": "c"}, "spec": {"schedule": "* * * * *", "jobTemplate": job}}
    warned = policies.ask("POST", crons, cron)
    assert warned.status == 201, warned.text
    assert "expected at most 24" in "".join(warned.warnings)


def test_pods_of_a_deployment_are_made_by_its_controller(policies: KubeRig, namespace: str) -> None:
    label(policies, namespace, NAME | CLAMP)
    becomes_ours(policies, namespace)
    sets = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    made = policies.ask("POST", sets, deployment(plain("web", grace=30, slurm={"nice": "1"})))
    assert (made.status, made.warnings) == (201, ())
    path = f"/api/v1/namespaces/{namespace}/pods"
    until(lambda: bool(policies.ask("GET", path).body["items"]), "the Deployment has a pod")
    (pod,) = policies.ask("GET", path).body["items"]
    assert pod["spec"]["schedulerName"] == "slurm-scheduler"
    assert pod["spec"]["terminationGracePeriodSeconds"] == 24


def test_edit_of_a_waiting_pod_is_checked_and_other_edits_are_not(
    policies: KubeRig, namespace: str
) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    assert policies.ask("POST", path, pods.pod("train")).status == 201

    def annotate(key: str, value: str | None) -> int:
        change = {"metadata": {"annotations": {key: value}}}
        return policies.ask("PATCH", f"{path}/train", change).status

    assert annotate("sunk.coreweave.com/timeout", "60") == 200
    assert annotate("sunk.coreweave.com/timeout", "1h") == 422
    assert annotate("sunk.coreweave.com/time", "1") == 422
    assert annotate("sunk.coreweave.com/timeout", None) == 200
    assert annotate("example.com/any", "thing") == 200


def test_hostile_sizes_are_refused_and_cost_other_pods_nothing(policies: KubeRig) -> None:
    """Within the API server's limits for what an expression may cost."""
    long = pods.pod("long", slurm={"comment": "x" * 250_000})
    assert "(250000 characters)" in dry(policies, long).body["message"]
    many = pods.pod("many", slurm={f"key-{index}": "x" for index in range(3000)})
    assert dry(policies, many).status == 422
    lists = "n," * 500 + "n"
    both = pods.pod("both", slurm={"required-nodes": lists, "excluded-nodes": lists})
    assert dry(policies, both).status == 422
    ports = [{"name": f"c{i}", "image": "registry.invalid/a:1"} for i in range(100)]
    wide = pods.pod("wide", containers=ports)
    assert "a cpu request above 0" in dry(policies, wide).body["message"]
    foreign = plain("foreign", annotations={f"example.com/{i}": "x" for i in range(8000)})
    assert dry(policies, foreign).status == 201


def test_api_server_has_nothing_to_say_of_the_expressions(policies: KubeRig) -> None:
    """The controller manager checks the types of all of them."""
    path = KINDS["ValidatingAdmissionPolicy"]

    def checked() -> bool:
        items = policies.ask("GET", path).body["items"]
        return all("typeChecking" in it.get("status", {}) for it in items)

    until(checked, "types are checked")
    for it in policies.ask("GET", path).body["items"]:
        assert it["status"]["typeChecking"] == {}, it["status"]
