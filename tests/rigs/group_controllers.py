"""The real controllers of groups of pods (LeaderWorkerSet, JobSet), beside the rig's API server.

Their webhooks are called by URL. They ask about pods only if the pods have the label of such a
group, because they answer nothing about any other, and the tests beside them go on without them.
"""

from __future__ import annotations

import base64
import json
import ssl
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from shutil import rmtree
from typing import Any, Final, Self

import trustme
import yaml

from tests.rigs.group_build import BuiltController
from tests.rigs.kube import KubeRig
from tests.rigs.process import Daemon
from tests.support.ports import free_ports

_LABELS: Final = {
    "lws": "leaderworkerset.sigs.k8s.io/name",
    "jobset": "jobset.sigs.k8s.io/jobset-name",
}
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_WEBHOOKS: Final = {
    "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
}
_ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
_ASK_SECONDS: Final = 10.0
_OK: Final = 200
_MISSING: Final = 404

Manifest = dict[str, Any]


class GroupControllers:
    """A context manager that starts them on the cluster of a rig, and ends them."""

    def __init__(self, kube: KubeRig, *built: BuiltController) -> None:
        self._kube = kube
        self._built = built
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for built in self._built:
                stack.enter_context(_GroupController(self._kube, built))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


class _GroupController:
    """One of them."""

    def __init__(self, kube: KubeRig, built: BuiltController) -> None:
        self._kube = kube
        self._built = built
        self._name = built.source.name
        self._run = Path(tempfile.mkdtemp(prefix=f"{self._name}-rig-"))
        self._webhook, self._health, self._metrics = free_ports(3)
        authority = trustme.CA()
        self._authority = authority.cert_pem.bytes()
        self._context = ssl.create_default_context(cadata=self._authority.decode())
        _write_certificate(self._run, authority)
        self._daemon: Daemon | None = None

    def __enter__(self) -> Self:
        try:
            self._define()
            self._daemon = Daemon(self._command(), log=self._run / "log")
            self._daemon.wait_until(self._answers, what=self._name)
            for body in self._hooks():
                self._create(_admission_path(body), body)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove its webhooks, so that nobody waits for them, end it and remove its files."""
        for body in self._hooks():
            self._kube.ask("DELETE", f"{_admission_path(body)}/{body['metadata']['name']}")
        if self._daemon is not None:
            self._daemon.stop(kill=True)
        rmtree(self._run, ignore_errors=True)

    def _define(self) -> None:
        self._create("/api/v1/namespaces", {"metadata": {"name": f"{self._name}-system"}})
        for path in self._built.definitions:
            self._create(_DEFINITIONS, yaml.safe_load(path.read_text()))

    def _create(self, path: str, body: Manifest) -> None:
        answer = self._kube.ask("POST", path, body)
        # It is there if another test has had the controller.
        assert answer.status in {201, 409}, answer.text

    def _answers(self) -> bool:
        """Whether it is ready, its kinds are served, and each of its webhooks is too."""
        if not all(self._kube.ask("GET", path).status == _OK for path in self._kinds()):
            return False
        with urllib.request.urlopen(
            f"http://127.0.0.1:{self._health}/readyz", timeout=_ASK_SECONDS
        ):
            pass
        hooks = (hook for body in self._hooks() for hook in body["webhooks"])
        return all(self._is_served(hook["clientConfig"]["url"]) for hook in hooks)

    def _kinds(self) -> Iterator[str]:
        for path in self._built.definitions:
            spec = yaml.safe_load(path.read_text())["spec"]
            version = spec["versions"][0]["name"]
            yield f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"

    def _is_served(self, url: str) -> bool:
        as_json = {"Content-Type": "application/json"}
        request = urllib.request.Request(url, method="POST", data=b"{}", headers=as_json)
        try:
            with urllib.request.urlopen(request, timeout=_ASK_SECONDS, context=self._context):
                return True
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code != _MISSING

    def _hooks(self) -> Iterator[Manifest]:
        """Its webhooks with addresses on this machine."""
        for body in yaml.safe_load_all(self._built.webhooks.read_text()):
            if body is None:
                continue
            body["metadata"]["name"] = f"{self._name}-{body['metadata']['name']}"
            for hook in body["webhooks"]:
                self._address(hook)
            yield body

    def _address(self, hook: Manifest) -> None:
        path = hook["clientConfig"]["service"]["path"]
        hook["clientConfig"] = {
            "url": f"https://127.0.0.1:{self._webhook}{path}",
            "caBundle": base64.b64encode(self._authority).decode(),
        }
        if hook["rules"][0]["resources"] == ["pods"]:
            label = {"key": _LABELS[self._name], "operator": "Exists"}
            hook["objectSelector"] = {"matchExpressions": [label]}

    def _command(self) -> tuple[str, ...]:
        config = self._run / "config.yaml"
        config.write_text(json.dumps(self._configuration()))
        return (
            str(self._built.program),
            f"--config={config}",
            f"--kubeconfig={self._kube.kubeconfig}",
        )

    def _configuration(self) -> Manifest:
        return {
            "apiVersion": f"config.{self._name}.x-k8s.io/v1alpha1",
            "kind": "Configuration",
            # Else it makes a Secret with a certificate for a Service, and there is neither.
            "internalCertManagement": {"enable": False},
            "leaderElection": {"leaderElect": False},
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self._health}"},
            "metrics": {"bindAddress": f"127.0.0.1:{self._metrics}"},
            "webhook": {
                "host": "127.0.0.1",
                "port": self._webhook,
                "certDir": str(self._run / "certificates"),
            },
        }


def _write_certificate(run: Path, authority: trustme.CA) -> None:
    folder = run / "certificates"
    folder.mkdir()
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(str(folder / "tls.key"))
    (folder / "tls.crt").write_bytes(b"".join(it.bytes() for it in issued.cert_chain_pems))


def _admission_path(body: Manifest) -> str:
    return f"{_ADMISSION}/{_WEBHOOKS[body['kind']]}"
