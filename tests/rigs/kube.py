"""One real Kubernetes control plane on this machine: etcd, kube-apiserver, controller manager.

RBAC, admission, service accounts, garbage collection and the audit log are real. There is no
kube-scheduler: each test decides what binds pods.
"""

from __future__ import annotations

import http.client
import json
import shutil
import ssl
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from tests.rigs import kube_files
from tests.rigs.kube_build import KubeBinaries
from tests.rigs.log_file import LogFile
from tests.rigs.process import Daemon
from tests.rigs.simulator.nodes import LOST_SECONDS
from tests.support.ports import free_ports

_MANAGER: Final = "kube-controller-manager"
_COMPONENTS: Final = ("etcd", "kube-apiserver", _MANAGER)
# A working controller manager makes the first again, and nobody uses it. Without the second the API
# server refuses every pod of the namespace.
_ACCOUNTS: Final = tuple(
    f"/api/v1/namespaces/{it}/serviceaccounts/default" for it in ("kube-node-lease", "default")
)
_POD_GROUPS: Final = (
    "--feature-gates=GenericWorkload=true",
    "--runtime-config=scheduling.k8s.io/v1alpha2=true",
)
# Tests share the cores with several control planes. With garbage collected less often an idle one
# takes a fifth less of the processor, and 0.3 GiB more of memory. On one core, each request takes
# a tenth less of it (measured on two cores).
SPARING: Final[Mapping[str, str]] = {"GOGC": "400", "GOMAXPROCS": "1"}
# The API server gives up a request of its own after this time.
_ASK_SECONDS: Final = 60.0
_PROBE_SECONDS: Final = 10.0
_JSON: Final = "application/json"
_CONTENT: Final = {"PATCH": "application/merge-patch+json"}


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the API server, which may be a refusal; `warnings` are those sent with it."""

    status: int
    text: str
    warnings: tuple[str, ...] = ()

    @property
    def body(self) -> dict[str, Any]:
        """The object in the answer."""
        return dict(json.loads(self.text))


class KubeRig:
    """A control plane; a context manager that starts and ends it.

    Clients use `url`, `token` (of a cluster admin) and `ca`, or `kubeconfig`. `audit_log` holds a
    JSON line for each request; with `audited` the lines of writes about pods hold the whole bodies.
    `kubelets` names the Nodes that will have a real kubelet. With `pod_groups` the API has
    Kubernetes' own PodGroups, which are off by default. `go` holds Go's settings for its processes.
    """

    def __init__(
        self,
        binaries: KubeBinaries,
        *,
        kubelets: Sequence[str] = (),
        audited: bool = False,
        pod_groups: bool = False,
        go: Mapping[str, str] = SPARING,
    ) -> None:
        self.binaries = binaries
        self._go = go
        self._run = Path(tempfile.mkdtemp(prefix="kube-rig-"))
        self._etcd, self._etcd_peer, self._port, self._manager = free_ports(4)
        self.url = f"https://127.0.0.1:{self._port}"
        self.files = kube_files.write(
            self._run / "files", url=self.url, kubelets=kubelets, audited=audited
        )
        self.token = self.files.tokens[kube_files.ADMIN]
        self.ca = self.files.ca
        self._context = ssl.create_default_context(cafile=str(self.ca))
        self.kubeconfig = self.files.kubeconfig(kube_files.ADMIN)
        self.log_directory = self._run / "log"
        self.audit_log = LogFile(self.log_directory / "audit.log")
        self.log_directory.mkdir()
        self._daemons: dict[str, Daemon] = {}
        self._pod_groups = pod_groups

    def __enter__(self) -> Self:
        try:
            for component in _COMPONENTS:
                self.start(component)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def back_up(self, folder: Path) -> None:
        """Copy etcd's data, which costs the API server a moment."""
        self.stop("kube-apiserver")
        self.stop("etcd")
        shutil.copytree(self._run / "etcd", folder)
        self.start("etcd")
        self.start("kube-apiserver")

    def restore(self, folder: Path) -> None:
        """Replace the present state by an older one; resourceVersions go back with it."""
        for component in reversed(_COMPONENTS):
            self.stop(component)
        shutil.rmtree(self._run / "etcd")
        shutil.copytree(folder, self._run / "etcd")
        for component in _COMPONENTS:
            self.start(component)

    def stop(self, component: str, *, kill: bool = False) -> None:
        """End "etcd", "kube-apiserver" or "kube-controller-manager" by SIGTERM, or by SIGKILL."""
        self._daemons.pop(component).stop(kill=kill)

    def start(self, component: str) -> None:
        """Start a stopped component with its old port and data; returns when it answers."""
        self._start(component)
        if component == "kube-apiserver" and _MANAGER in self._daemons:
            # One that has missed its server looks again after up to a minute (client-go's pauses,
            # 36 s measured after 40 s without), and the next test would wait for a namespace.
            self.stop(_MANAGER, kill=True)
            self._start(_MANAGER)

    def _start(self, component: str) -> None:
        command = {
            "etcd": self._etcd_command,
            "kube-apiserver": self._apiserver_command,
            _MANAGER: self._manager_command,
        }[component]()
        if component == _MANAGER:
            self.ask("DELETE", _ACCOUNTS[0])
        log = self.log_directory / f"{component}.log"
        daemon = Daemon(command, log=log, environment=self._go)
        self._daemons[component] = daemon
        daemon.wait_until(lambda: self._answers(component), what=component)

    def pid(self, component: str) -> int:
        """The process id of a running component."""
        return self._daemons[component].pid

    def close(self) -> None:
        """End all processes and remove the files."""
        for component in reversed(_COMPONENTS):
            if component in self._daemons:
                # No data is kept, so no orderly shutdown is needed.
                self.stop(component, kill=True)
        shutil.rmtree(self._run, ignore_errors=True)

    def ask(self, method: str, path: str, body: object = None, *, token: str = "") -> Answer:
        """One request, as admin or with `token`. Raises OSError where there is no answer."""
        return _ask(self.url + path, self._context, method, body, token=token or self.token)

    def ready_nodes(self) -> set[str]:
        """Names of the Nodes that are Ready and without a taint."""
        nodes = self.ask("GET", "/api/v1/nodes").body["items"]
        return {it["metadata"]["name"] for it in nodes if _is_ready(it)}

    def _answers(self, component: str) -> bool:
        urls = {
            "etcd": (f"http://127.0.0.1:{self._etcd}/health",),
            "kube-apiserver": (f"{self.url}/readyz",),
            _MANAGER: tuple(self.url + it for it in _ACCOUNTS),
        }[component]
        try:
            return all(self._is_up(it) for it in urls)
        except OSError:
            return False

    def _is_up(self, url: str) -> bool:
        answer = _ask(url, self._context, "GET", None, token=self.token, seconds=_PROBE_SECONDS)
        return answer.status == 200

    def _etcd_command(self) -> tuple[str, ...]:
        client = f"http://127.0.0.1:{self._etcd}"
        peer = f"http://127.0.0.1:{self._etcd_peer}"
        return (
            str(self.binaries.etcd),
            "--name=rig",
            f"--data-dir={self._run / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=rig={peer}",
            # The data need not survive a crash of the machine.
            "--unsafe-no-fsync",
            "--log-level=warn",
        )

    def _apiserver_command(self) -> tuple[str, ...]:
        files = self.files
        return (
            str(self.binaries.kube_apiserver),
            f"--etcd-servers=http://127.0.0.1:{self._etcd}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._port}",
            # A machine without a route has only this address.
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            f"--tls-cert-file={files.server_certificate}",
            f"--tls-private-key-file={files.server_certificate}",
            f"--client-ca-file={files.ca}",
            f"--kubelet-client-certificate={files.client_certificate}",
            f"--kubelet-client-key={files.client_certificate}",
            # The names of Nodes cannot be resolved.
            "--kubelet-preferred-address-types=InternalIP",
            f"--token-auth-file={files.token_file}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={files.service_account_key}",
            f"--service-account-signing-key-file={files.service_account_key}",
            f"--audit-policy-file={files.audit_policy}",
            f"--audit-log-path={self.audit_log.path}",
            # In megabytes; so large that there is only one file, which a reader can follow.
            "--audit-log-maxsize=100000",
            # Without it a SIGTERM waits up to a minute for open watches.
            "--shutdown-watch-termination-grace-period=1s",
            # Twice the defaults: these limits are not to hold up hundreds of kubelets.
            "--max-requests-inflight=800",
            "--max-mutating-requests-inflight=400",
            *(_POD_GROUPS if self._pod_groups else ()),
        )

    def _manager_command(self) -> tuple[str, ...]:
        return (
            str(self.binaries.kube_controller_manager),
            f"--kubeconfig={self.files.kubeconfig(kube_files.CONTROLLER_MANAGER)}",
            "--use-service-account-credentials",
            f"--service-account-private-key-file={self.files.service_account_key}",
            f"--root-ca-file={self.files.ca}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._manager}",
            f"--cert-dir={self._run / 'manager'}",
            # The played kubelets renew their Leases seldom.
            f"--node-monitor-grace-period={LOST_SECONDS}s",
            # At the default of 20/s a Deployment of 1000 pods takes a minute to appear.
            "--kube-api-qps=200",
            "--kube-api-burst=400",
        )


def _ask(
    url: str,
    context: ssl.SSLContext,
    method: str,
    body: object,
    *,
    token: str,
    seconds: float = _ASK_SECONDS,
) -> Answer:
    request = urllib.request.Request(
        url,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": _CONTENT.get(method, _JSON)},
    )
    secure = context if url.startswith("https") else None
    try:
        with urllib.request.urlopen(request, timeout=seconds, context=secure) as answer:
            warnings = tuple(answer.headers.get_all("Warning", ()))
            return Answer(answer.status, answer.read().decode(), warnings)
    except urllib.error.HTTPError as refusal:
        with refusal:
            return Answer(refusal.code, refusal.read().decode())
    except http.client.HTTPException as garbled:
        raise ConnectionError(f"no whole answer from {url}") from garbled


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = {it["type"]: it["status"] for it in node["status"].get("conditions", ())}
    return conditions.get("Ready") == "True" and not node["spec"].get("taints")
