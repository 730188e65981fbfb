"""Access: authentication, discovery, and the forms of answers."""

from __future__ import annotations

import json
import time
from pathlib import Path

from scheduler.kube.api import KubeApi
from scheduler.kube.session import KubeSession
from tests.contract.kube.client import Body, KubeClient, Namespace, condition, eventually
from tests.contract.kube.conftest import KubePeer
from tests.rigs.kube_files import kubeconfig

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


async def test_wrong_token_is_unauthorized(kube_peer: KubePeer) -> None:
    async with KubeClient(kube_peer.url, token="wrong", ca=kube_peer.ca) as stranger:
        (await stranger.get("/api/v1/pods")).refused(401, "Unauthorized")


async def test_without_token_nothing_is_given(kube_peer: KubePeer) -> None:
    # a server that accepts anonymous requests gives them no rights
    async with KubeClient(kube_peer.url, token=None, ca=kube_peer.ca) as stranger:
        assert (await stranger.get("/api/v1/pods")).status in {401, 403}


async def test_server_says_that_it_is_ready(kube: KubeClient) -> None:
    for probe in ("/livez", "/readyz"):
        answer = await kube.get(probe)
        assert (answer.status, answer.body) == (200, {"text": "ok"})


async def test_server_says_its_version(kube: KubeClient) -> None:
    answer = await kube.get("/version")
    assert answer.body["gitVersion"].startswith("v1.")


async def test_server_says_its_time(kube_peer: KubePeer, tmp_path: Path) -> None:
    config = tmp_path / "kubeconfig"
    config.write_text(json.dumps(kubeconfig(kube_peer.ca, kube_peer.url, kube_peer.token)))
    async with await KubeSession.open(config, user_agent="test/1") as session:
        said = await KubeApi(session).server_time()
    assert said is not None
    assert abs(said - time.time()) < 10  # one machine, and whole seconds


async def test_administrator_may_do_everything(kube: KubeClient) -> None:
    attributes = {"verb": "create", "resource": "pods", "subresource": "binding"}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    answer = await kube.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
    assert answer.status == 201
    assert answer.body["status"]["allowed"] is True


async def test_discovery_lists_what_schedulers_use(kube: KubeClient) -> None:
    core = (await kube.get("/api/v1")).body
    names = {resource["name"] for resource in core["resources"]}
    assert {"pods", "pods/binding", "pods/eviction", "pods/status", "nodes", "events"} <= names
    groups = {group["name"] for group in (await kube.get("/apis")).body["groups"]}
    assert {"apps", "batch", "coordination.k8s.io", "events.k8s.io", "policy"} <= groups
    policy = (await kube.get("/apis/policy/v1")).body
    assert "poddisruptionbudgets" in {resource["name"] for resource in policy["resources"]}


async def test_discovery_in_one_document(kube: KubeClient) -> None:
    answer = await kube.call("GET", "/api", accept=AGGREGATED)
    assert answer.body["kind"] == "APIGroupDiscoveryList"
    version = answer.body["items"][0]["versions"][0]
    pods = next(each for each in version["resources"] if each["resource"] == "pods")
    assert {"binding", "eviction", "status"} <= {sub["subresource"] for sub in pods["subresources"]}


async def test_path_that_is_not_there_is_not_found(kube: KubeClient) -> None:
    assert (await kube.get("/api/v1/unknowns")).status == 404
    assert (await kube.get("/apis/nobody.example.com/v1/things")).status == 404


async def test_method_that_is_not_there_is_not_allowed(
    kube: KubeClient, namespace: Namespace
) -> None:
    await namespace.pod()
    answer = await kube.post(namespace.path("pods", "p1"), {})
    answer.refused(405, "MethodNotAllowed")


async def test_pods_as_a_table(kube: KubeClient, namespace: Namespace) -> None:
    await namespace.pod()
    await namespace.bound(node="n-x")
    answer = await kube.call("GET", namespace.path("pods"), accept=TABLE)
    assert answer.body["kind"] == "Table"
    columns = [column["name"] for column in answer.body["columnDefinitions"]]
    assert columns[:7] == ["Name", "Ready", "Status", "Restarts", "Age", "IP", "Node"]
    (row,) = answer.body["rows"]
    cells = dict(zip(columns, row["cells"], strict=True))
    assert (cells["Name"], cells["Status"], cells["Node"]) == (
        "p1",
        "Pending",
        namespace.node("n-x"),
    )
    assert row["object"]["kind"] == "PartialObjectMetadata"


async def test_nodes_are_there_and_ready(kube: KubeClient, kube_peer: KubePeer) -> None:
    async def ready() -> Body | None:
        node = (await kube.get(f"/api/v1/nodes/{kube_peer.nodes[0]}")).body
        return node if condition(node, "Ready")["status"] == "True" else None

    node = await eventually(ready, "the Node is ready again after another test")
    assert int(node["status"]["allocatable"]["cpu"]) > 0


async def test_kube_system_has_a_uid(kube: KubeClient) -> None:
    assert (await kube.get("/api/v1/namespaces/kube-system")).uid


async def test_group_that_is_not_served_is_no_path_of_the_api(
    kube: KubeClient, namespace: Namespace
) -> None:
    path = namespace.path("things", "x", api="/apis/example.org/v1")
    answer = await kube.get(path)
    assert (answer.status, answer.body) == (404, {"text": "404 page not found\n"})
    groups = (await kube.get("/apis")).body["groups"]
    versions = {it["groupVersion"] for group in groups for it in group["versions"]}
    assert "batch/v1" in versions
    assert "example.org/v1" not in versions


async def test_resource_that_a_group_does_not_have_is_not_found(
    kube: KubeClient, namespace: Namespace
) -> None:
    answer = await kube.get(namespace.path("things", "x", api="/apis/batch/v1"))
    answer.refused(404, "NotFound")
