"""The scheduler as a pod: its image, run from the shipped Deployment on a real Node."""

from __future__ import annotations

import base64
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import yaml

from tests.support.cluster import Cluster
from tests.support.kube import Object
from tests.support.scheduler import SchedulerProcess
from tests.support.world import REAL_SECONDS

if TYPE_CHECKING:
    from tests.rigs.kube import KubeRig

MANIFEST: Final = Path(__file__).parents[2] / "deploy/manifests/deployment.yaml"
# The manifest names these, and rbac.yaml makes them.
NAMESPACE: Final = "slurm-pod-scheduler"
ACCOUNT: Final = "slurm-pod-scheduler"
GRACE_SECONDS: Final = 30

_SECRET: Final = "slurm-pod-scheduler-slurm-token"
_SECRETS: Final = f"/api/v1/namespaces/{NAMESPACE}/secrets"
_PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
# A finalizer that keeps the pod until its exit status has been read.
_HOLD: Final = ["rig.test/hold"]


class SchedulerPod(SchedulerProcess):
    """`image` as the pod `name` on `node`, a real Node of `rig`; starts and ends as a process does.

    The pod is that of deploy/manifests/deployment.yaml, so rbac.yaml must have been applied. It
    uses the network of the Node, because there is none between pods and the servers.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        rig: KubeRig,
        node: str,
        image: str,
        folder: Path,
        name: str = "scheduler",
    ) -> None:
        super().__init__(cluster, folder=folder)
        self.name = name
        self._rig = rig
        self._node = node
        self._image = image
        self._token = cluster.slurm_token("root")

    @property
    def pid(self) -> int:
        """The pid of its first process, in the pid namespace of this machine."""
        mine = f"--health-probe-bind-address=127.0.0.1:{self._probe_port}".encode()
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):  # another process that has just ended
                if mine in path.read_bytes().split(b"\0"):
                    return int(path.parent.name)
        raise LookupError(f"no process of pod {self.name}")

    def start(self) -> None:
        """Create the pod and wait until it is Ready."""
        token = base64.b64encode(self._token.encode()).decode()
        secret = {"metadata": {"name": _SECRET}, "data": {"auth-token": token}}
        assert self._rig.ask("POST", _SECRETS, secret).status in {201, 409}
        answer = self._rig.ask("POST", _PODS, self._body())
        assert answer.status == 201, answer
        self._wait("is not ready", lambda: self._condition("Ready") == "True")

    def log_tail(self, lines: int = 30) -> str:
        """The end of the container's log."""
        answer = self._rig.ask("GET", f"{_PODS}/{self.name}/log?tailLines={lines}")
        return answer.text

    def pod(self) -> Object | None:
        """The pod, None if it does not exist."""
        answer = self._rig.ask("GET", f"{_PODS}/{self.name}")
        return answer.body if answer.status == 200 else None

    def _end(self, number: signal.Signals) -> int:
        if self.pod() is None:
            return 0
        grace = 0 if number is signal.SIGKILL else GRACE_SECONDS
        self._rig.ask("DELETE", f"{_PODS}/{self.name}", {"gracePeriodSeconds": grace})
        if number is not signal.SIGKILL:
            self._wait("does not end", lambda: self._exit_code() is not None)
        status = self._exit_code()
        self._rig.ask("PATCH", f"{_PODS}/{self.name}", {"metadata": {"finalizers": None}})
        self._wait("stays", lambda: self.pod() is None)
        return -number if status is None else status

    def _wait(self, what: str, done: Callable[[], bool]) -> None:
        until = time.monotonic() + REAL_SECONDS
        while not done():
            if time.monotonic() > until:
                status = (self.pod() or {}).get("status")
                raise AssertionError(f"pod {self.name} {what}: {status}\n{self.log_tail()}")
            time.sleep(0.05)

    def _condition(self, kind: str) -> str | None:
        conditions = (self.pod() or {}).get("status", {}).get("conditions", ())
        return next((it["status"] for it in conditions if it["type"] == kind), None)

    def _exit_code(self) -> int | None:
        statuses = (self.pod() or {}).get("status", {}).get("containerStatuses", ())
        ended = [it["state"]["terminated"] for it in statuses if "terminated" in it["state"]]
        return int(ended[0]["exitCode"]) if ended else None

    def _body(self) -> Object:
        (deployment,) = yaml.safe_load_all(MANIFEST.read_text())
        template = deployment["spec"]["template"]
        (container,) = template["spec"]["containers"]
        spec = template["spec"] | {
            "nodeName": self._node,
            "hostNetwork": True,
            "containers": [container | self._changes(container)],
        }
        metadata = template["metadata"] | {"name": self.name, "finalizers": _HOLD}
        return {"metadata": metadata, "spec": spec}

    def _changes(self, container: Object) -> Object:
        """Fields that differ on the rig: the image, the addresses of the servers, the ports."""
        api = urlsplit(self._rig.url)
        # There is no kube-proxy, so the address of the Service does not work.
        env = {"KUBERNETES_SERVICE_HOST": api.hostname, "KUBERNETES_SERVICE_PORT": str(api.port)}
        ports = {"health": self._probe_port, "metrics": self._metrics_port}
        probes = {kind: it for kind, it in container.items() if kind.endswith("Probe")}
        return {
            "image": self._image,
            "imagePullPolicy": "Never",
            "args": [*container["args"], *self._flags],
            "env": [*container["env"], *({"name": key, "value": it} for key, it in env.items())],
            "ports": [{"name": name, "containerPort": port} for name, port in ports.items()],
            **{kind: self._probe(it) for kind, it in probes.items()},
        }

    def _probe(self, probe: Object) -> Object:
        return probe | {
            "httpGet": probe["httpGet"] | {"host": "127.0.0.1"},
            "periodSeconds": 1,
        }
