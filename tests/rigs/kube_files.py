"""What the Kubernetes servers read at their start: certificates, keys, tokens, policies."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

ADMIN: Final = "admin"
CONTROLLER_MANAGER: Final = "system:kube-controller-manager"
SIMULATOR: Final = "kubelet-simulator"
_MASTERS: Final = "system:masters"
_NODES: Final = "system:nodes"

_WHO_ASKED_WHAT: Final = {"level": "Metadata"}
_PODS_AS_WRITTEN: Final = {
    "level": "RequestResponse",
    "verbs": ["create", "update", "patch", "delete", "deletecollection"],
    "resources": [
        {"group": "", "resources": ["pods", "pods/status", "pods/binding", "pods/eviction"]}
    ],
    "omitManagedFields": True,
}


@dataclass(frozen=True, slots=True)
class KubeFiles:
    """The files of one rig in `directory`; `tokens` by user."""

    directory: Path
    tokens: dict[str, str]

    @property
    def ca(self) -> Path:
        """The certificate authority of the API server and of its clients."""
        return self.directory / "ca.pem"

    @property
    def server_certificate(self) -> Path:
        """Certificate of the API server, with its key."""
        return self.directory / "apiserver.pem"

    @property
    def client_certificate(self) -> Path:
        """By which the API server shows itself to kubelets."""
        return self.directory / "kubelet-client.pem"

    @property
    def service_account_key(self) -> Path:
        """The key that signs the tokens of service accounts."""
        return self.directory / "service-accounts.pem"

    @property
    def token_file(self) -> Path:
        """The users of the API server."""
        return self.directory / "tokens.csv"

    @property
    def audit_policy(self) -> Path:
        """Which requests the API server writes down."""
        return self.directory / "audit-policy.json"

    def kubeconfig(self, user: str) -> Path:
        """The kubeconfig of a user."""
        return self.directory / f"{user.replace(':', '-')}.kubeconfig"


def write(
    directory: Path, *, url: str, kubelets: Sequence[str], audited: bool = False
) -> KubeFiles:
    """Write all of it for an API server at `url` and the real `kubelets`, by Node name; with
    `audited` its log has what is written about pods, and the pods that it leaves.
    """
    users = [ADMIN, CONTROLLER_MANAGER, SIMULATOR, *(kubelet_user(name) for name in kubelets)]
    files = KubeFiles(directory, {user: secrets.token_urlsafe(24) for user in users})
    directory.mkdir()
    _write_certificates(files)
    files.service_account_key.write_bytes(_new_key())
    files.token_file.write_text("".join(_token_line(*item) for item in files.tokens.items()))
    files.audit_policy.write_text(json.dumps(_audit_policy(audited=audited)))
    for user, token in files.tokens.items():
        files.kubeconfig(user).write_text(json.dumps(kubeconfig(files.ca, url, token)))
        files.kubeconfig(user).chmod(0o600)
    return files


def kubelet_user(node: str) -> str:
    """The user as which a real kubelet comes; RBAC and the Node authorizer know such names."""
    return f"system:node:{node}"


def _audit_policy(*, audited: bool) -> dict[str, object]:
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [_PODS_AS_WRITTEN, _WHO_ASKED_WHAT] if audited else [_WHO_ASKED_WHAT],
    }


def _token_line(user: str, token: str) -> str:
    groups = {ADMIN: _MASTERS, SIMULATOR: _MASTERS, CONTROLLER_MANAGER: ""}.get(user, _NODES)
    return f'{token},{user},{user},"{groups}"\n'


def _write_certificates(files: KubeFiles) -> None:
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(files.ca))
    names = ("127.0.0.1", "localhost", "kubernetes.default.svc")
    server = ca.issue_cert(*names)
    # Go refuses a certificate whose list of names is empty (measured on kubelet 1.36.3).
    client = ca.issue_cert(
        "kube-apiserver", common_name="kube-apiserver", organization_name=_MASTERS
    )
    server.private_key_and_cert_chain_pem.write_to_path(str(files.server_certificate))
    client.private_key_and_cert_chain_pem.write_to_path(str(files.client_certificate))


def _new_key() -> bytes:
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def kubeconfig(ca: Path | None, url: str, token: str) -> dict[str, object]:
    """What a kubeconfig holds, for a user with a token."""
    authority = {} if ca is None else {"certificate-authority": str(ca)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "rig", "cluster": {"server": url, **authority}}],
        "users": [{"name": "rig", "user": {"token": token}}],
        "contexts": [{"name": "rig", "context": {"cluster": "rig", "user": "rig"}}],
        "current-context": "rig",
    }
