"""The Kubernetes rig does what the live tier rests on: run, stop, collect, and survive restarts."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.rigs.fixtures import SIMULATED
from tests.rigs.kube import KubeRig
from tests.rigs.kube_build import KubeBinaries
from tests.rigs.node_real import RealNode
from tests.rigs.node_sim import SimulatedNodes
from tests.rigs.simulator.nodes import NodeShape

pytestmark = pytest.mark.live

_PODS = "/api/v1/namespaces/default/pods"
_DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
_JOBS = "/apis/batch/v1/namespaces/default/jobs"
_NODE = SIMULATED[0]

Object = dict[str, Any]


@pytest.fixture
def name() -> str:
    return f"smoke-{uuid4().hex[:8]}"


def test_deployment_runs_on_simulated_nodes(live_kube: KubeRig, name: str) -> None:
    template = {"metadata": {"labels": {"app": name}}, "spec": _pod_spec()}
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": name}}, "template": template}
    _create(live_kube, _DEPLOYMENTS, name, {"spec": spec})
    _until(lambda: len(_pods(live_kube, name)) == 3)
    for pod, node in zip(_pods(live_kube, name), SIMULATED, strict=False):
        _bind(live_kube, pod["metadata"]["name"], node)
    _until(lambda: _get(live_kube, _DEPLOYMENTS, name)["status"].get("availableReplicas") == 3)
    _delete(live_kube, _DEPLOYMENTS, name)
    _until(lambda: not _pods(live_kube, name))


def test_batch_job_completes_and_its_pods_are_collected(live_kube: KubeRig, name: str) -> None:
    annotations = {"sandbox/run-seconds": "0"}
    template = {"metadata": {"annotations": annotations}, "spec": _pod_spec(restartPolicy="Never")}
    _create(live_kube, _JOBS, name, {"spec": {"completions": 2, "template": template}})
    _until(lambda: _bind_new(live_kube, f"job-name={name}") is not None)
    _until(lambda: _bind_new(live_kube, f"job-name={name}") is not None)
    _until(lambda: _get(live_kube, _JOBS, name)["status"].get("succeeded") == 2)
    _delete(live_kube, _JOBS, name)
    _until(lambda: not _select(live_kube, f"job-name={name}"))


def test_simulated_pod_ends_by_itself_with_its_exit_code(live_kube: KubeRig, name: str) -> None:
    annotations = {"sandbox/run-seconds": "0", "sandbox/exit-code": "3"}
    _start(live_kube, name, _NODE, annotations=annotations, restartPolicy="Never")
    _until(lambda: _phase(live_kube, name) == "Failed")
    assert _exit_code(live_kube, name) == 3
    _delete(live_kube, _PODS, name)


def test_simulated_pod_ending_by_itself_is_restarted(live_kube: KubeRig, name: str) -> None:
    _start(live_kube, name, _NODE, annotations={"sandbox/run-seconds": "0"})
    _until(lambda: _containers(live_kube, name)[0]["restartCount"] > 0)
    _remove(live_kube, name)


def test_simulated_pod_obeys_a_deletion_at_once(live_kube: KubeRig, name: str) -> None:
    _start(live_kube, name, _NODE, held=True, terminationGracePeriodSeconds=60)
    _until(lambda: _phase(live_kube, name) == "Running")
    _delete(live_kube, _PODS, name)
    _until(lambda: _exit_code(live_kube, name) == 143)
    _release(live_kube, name)


def test_simulated_pod_is_killed_after_its_grace(live_kube: KubeRig, name: str) -> None:
    annotations = {"sandbox/stop-seconds": "600"}
    own = {"terminationGracePeriodSeconds": 500}  # longer than any wait here
    _start(live_kube, name, _NODE, held=True, annotations=annotations, **own)
    _until(lambda: _phase(live_kube, name) == "Running")
    took = _seconds_to_stop(live_kube, name, exit_code=137, grace_seconds=2)
    assert took >= 2
    _release(live_kube, name)


def test_unbound_pod_is_deleted_without_a_kubelet(live_kube: KubeRig, name: str) -> None:
    _create(live_kube, _PODS, name, {"spec": _pod_spec()})
    _remove(live_kube, name)


def test_real_container_ends_with_its_exit_code(
    live_kube: KubeRig, live_real_node: RealNode, name: str
) -> None:
    _start_real(live_kube, live_real_node, name, script="exit 7")
    _until(lambda: _phase(live_kube, name) == "Failed")
    assert _exit_code(live_kube, name) == 7
    _remove(live_kube, name)


def test_real_container_handles_sigterm(
    live_kube: KubeRig, live_real_node: RealNode, name: str
) -> None:
    script = "trap 'exit 5' TERM; echo ready; while true; do sleep 0.1; done"
    _start_real(live_kube, live_real_node, name, script=script, held=True)
    _until(lambda: _log(live_kube, name) == "ready\n")
    _seconds_to_stop(live_kube, name, exit_code=5, grace_seconds=100)
    _release(live_kube, name)


def test_real_container_that_ignores_sigterm_is_killed_after_its_grace(
    live_kube: KubeRig, live_real_node: RealNode, name: str
) -> None:
    script = "trap '' TERM; echo ready; while true; do sleep 0.1; done"
    own = {"terminationGracePeriodSeconds": 500}  # longer than any wait here
    _start_real(live_kube, live_real_node, name, script=script, held=True, **own)
    _until(lambda: _log(live_kube, name) == "ready\n")
    took = _seconds_to_stop(live_kube, name, exit_code=137, grace_seconds=3)
    assert took >= 3
    _release(live_kube, name)


def test_real_containers_are_not_starved_by_the_other_servers(live_real_node: RealNode) -> None:
    top = Path("/sys/fs/cgroup")
    found = [
        int((group / file).read_text()) / one
        for file, one in {"cpu.shares": 1024, "cpu.weight": 100}.items()
        for group in (top / live_real_node.cgroup, top / "cpu" / live_real_node.cgroup)
        if (group / file).exists()
    ]
    assert found == [8]  # times the CPU time of one process


@pytest.mark.parametrize("network", [False, True], ids=["own network", "host network"])
def test_real_container_has_a_network(
    live_kube: KubeRig, live_real_node: RealNode, name: str, network: bool
) -> None:
    script = "ip -o link show up | wc -l; sleep 600"
    _start_real(live_kube, live_real_node, name, script=script, hostNetwork=network)
    # The kubelet has a log to give before it has told of the container and its address.
    _until(lambda: bool(_log(live_kube, name).strip()) and _phase(live_kube, name) == "Running")
    assert int(_log(live_kube, name)) >= 2
    assert _get(live_kube, _PODS, name)["status"]["podIP"].startswith("198.18.") is not network
    _remove(live_kube, name)


@pytest.mark.parametrize("kill", [False, True], ids=["graceful", "kill -9"])
def test_restarted_api_server_keeps_its_state(live_kube: KubeRig, name: str, kill: bool) -> None:
    _start(live_kube, name, _NODE)
    _until(lambda: _phase(live_kube, name) == "Running")
    before = _get(live_kube, _PODS, name)
    live_kube.stop("kube-apiserver", kill=kill)
    with pytest.raises(OSError, match="refused"):
        live_kube.ask("GET", "/readyz")
    live_kube.start("kube-apiserver")
    assert _get(live_kube, _PODS, name) == before
    # The played kubelets have found it again.
    _remove(live_kube, name)


def test_controllers_act_at_once_after_an_outage_of_the_api_server(
    live_kube: KubeRig, name: str
) -> None:
    manager = live_kube.pid("kube-controller-manager")
    live_kube.stop("kube-apiserver")
    live_kube.start("kube-apiserver")
    assert live_kube.pid("kube-controller-manager") != manager
    assert live_kube.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}}).status == 201
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    _until(lambda: live_kube.ask("GET", account).status == 200)
    live_kube.ask("DELETE", f"/api/v1/namespaces/{name}")


def test_node_that_the_node_controller_gave_up_is_ready_again(live_kube: KubeRig) -> None:
    lost = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
    path = f"/api/v1/nodes/{_NODE}/status"
    answer = live_kube.ask("PATCH", path, {"status": {"conditions": [lost]}})
    assert answer.status == 200, answer
    conditions = {it["type"]: it["status"] for it in answer.body["status"]["conditions"]}
    assert conditions["Ready"] == "Unknown"
    _until(lambda: _NODE in live_kube.ready_nodes())


def test_service_account_has_no_rights_of_its_own(live_kube: KubeRig) -> None:
    account = "/api/v1/namespaces/default/serviceaccounts/default/token"
    answer = live_kube.ask("POST", account, {"spec": {}})
    token = answer.body["status"]["token"]
    assert live_kube.ask("GET", _PODS, token=token).status == 403
    assert live_kube.ask("GET", "/api", token=token).status == 200


def test_audit_log_names_who_did_what(live_kube: KubeRig, name: str) -> None:
    _create(live_kube, _PODS, name, {"spec": _pod_spec()})
    lines = map(json.loads, live_kube.audit_log.lines())
    mine = [it for it in lines if (it.get("objectRef") or {}).get("name") == name]
    assert [(it["verb"], it["user"]["username"]) for it in mine] == [("create", "admin")]
    _remove(live_kube, name)


def test_second_cluster_stands_beside_the_first_and_leaves_nothing(
    live_kube: KubeRig,
    live_real_node: RealNode,
    live_kube_binaries: KubeBinaries,
    name: str,
) -> None:
    shapes = [NodeShape(name="n1")]
    with (
        KubeRig(live_kube_binaries, kubelets=("r1",)) as rig,
        SimulatedNodes(rig, shapes),
        RealNode(rig, "r1") as node,
    ):
        pids = [rig.pid(it) for it in ("etcd", "kube-apiserver", "kube-controller-manager")]
        _start_real(rig, node, name, script="sleep 600")
        _until(lambda: _phase(rig, name) == "Running")
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    assert not rig.log_directory.exists()
    assert not node.log_directory.exists()
    assert not list(Path("/sys/fs/cgroup").glob(f"*/{node.cgroup}"))
    _until(lambda: live_real_node.name in live_kube.ready_nodes())


def _pod_spec(**more: Any) -> Object:
    container = {"name": "main", "image": "simulated"}
    return {"schedulerName": "slurm-scheduler", "containers": [container], **more}


def _start(
    rig: KubeRig,
    name: str,
    node: str,
    *,
    held: bool = False,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> None:
    finalizers = ["rig.test/hold"] if held else []
    metadata = {"name": name, "finalizers": finalizers, "annotations": annotations or {}}
    _create(rig, _PODS, name, {"metadata": metadata, "spec": _pod_spec(**spec)})
    _bind(rig, name, node)


def _start_real(
    rig: KubeRig, node: RealNode, name: str, *, script: str, held: bool = False, **spec: Any
) -> None:
    container = {
        "name": "main",
        "image": node.image,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", script],
    }
    more = {"containers": [container], "restartPolicy": "Never", **spec}
    _start(rig, name, node.name, held=held, **more)


def _create(rig: KubeRig, path: str, name: str, body: Object) -> None:
    answer = rig.ask("POST", path, {"metadata": {"name": name}, **body})
    assert answer.status == 201, answer


def _bind(rig: KubeRig, name: str, node: str) -> None:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    binding = {"metadata": {"name": name}, "target": target}
    answer = rig.ask("POST", f"{_PODS}/{name}/binding", binding)
    assert answer.status == 201, answer


def _bind_new(rig: KubeRig, selector: str) -> str | None:
    """Bind one pod that has no Node yet; its name."""
    for pod in _select(rig, selector):
        if "nodeName" not in pod["spec"]:
            name = str(pod["metadata"]["name"])
            _bind(rig, name, _NODE)
            return name
    return None


def _get(rig: KubeRig, path: str, name: str) -> Object:
    answer = rig.ask("GET", f"{path}/{name}")
    assert answer.status == 200, answer
    return answer.body


def _delete(rig: KubeRig, path: str, name: str, *, grace_seconds: int | None = None) -> None:
    options: Object = {"propagationPolicy": "Background"}
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    answer = rig.ask("DELETE", f"{path}/{name}", options)
    assert answer.status in (200, 202), answer


def _remove(rig: KubeRig, name: str) -> None:
    _delete(rig, _PODS, name, grace_seconds=1)
    _until_gone(rig, name)


def _release(rig: KubeRig, name: str) -> None:
    """Let go of a pod that its finalizer has kept visible."""
    answer = rig.ask("PATCH", f"{_PODS}/{name}", {"metadata": {"finalizers": None}})
    assert answer.status == 200, answer
    _until_gone(rig, name)


def _until_gone(rig: KubeRig, name: str) -> None:
    _until(lambda: rig.ask("GET", f"{_PODS}/{name}").status == 404)


def _seconds_to_stop(rig: KubeRig, name: str, *, exit_code: int, grace_seconds: int) -> float:
    began = time.monotonic()
    _delete(rig, _PODS, name, grace_seconds=grace_seconds)
    _until(lambda: _exit_code(rig, name) == exit_code)
    return time.monotonic() - began


def _pods(rig: KubeRig, app: str) -> list[Object]:
    return _select(rig, f"app={app}")


def _select(rig: KubeRig, selector: str) -> list[Object]:
    return list(rig.ask("GET", f"{_PODS}?labelSelector={selector}").body["items"])


def _phase(rig: KubeRig, name: str) -> str:
    return str(_get(rig, _PODS, name)["status"]["phase"])


def _containers(rig: KubeRig, name: str) -> list[Object]:
    statuses = _get(rig, _PODS, name)["status"].get("containerStatuses")
    return statuses or [{"restartCount": 0, "state": {}}]


def _exit_code(rig: KubeRig, name: str) -> int | None:
    ended = _containers(rig, name)[0]["state"].get("terminated")
    return ended["exitCode"] if ended else None


def _log(rig: KubeRig, name: str) -> str:
    """What the container has written, by way of its kubelet; empty while there is none."""
    answer = rig.ask("GET", f"{_PODS}/{name}/log")
    return answer.text if answer.status == 200 else ""


def _until(ready: Callable[[], bool], *, seconds: float = 120) -> None:
    until = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < until, f"not within {seconds} s"
        time.sleep(0.05)
