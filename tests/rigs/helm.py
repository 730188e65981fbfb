"""The real helm, kustomize, kubeconform and krew."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.rigs.gotools import installed

_HELM: Final = ("helm.sh/helm/v3/cmd/helm", "v3.22.0")
_KUSTOMIZE: Final = ("sigs.k8s.io/kustomize/kustomize/v5", "v5.8.1")
_KUBECONFORM: Final = ("github.com/yannh/kubeconform/cmd/kubeconform", "v0.7.0")
_KREW: Final = ("sigs.k8s.io/krew/cmd/krew", "v0.4.4")
# Without these helm reports version 3, and assumes Kubernetes 1.20 when it asks no cluster.
_STAMPS: Final = {
    "helm.sh/helm/v3/internal/version.version": _HELM[1],
    "helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor": "1",
    "helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor": "36",
    "helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor": "1",
    "helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor": "36",
}
# `helm test` waits for a real container, up to two minutes.
_SECONDS: Final = 180


class ToolError(RuntimeError):
    """The program failed; the text is its command line and its output."""


def helm_program() -> Path:
    """helm, made now if it is not in the cache: 2 to 4 min on two cores. PrerequisiteError."""
    return installed(*_HELM, stamps=_STAMPS)


def kustomize_program() -> Path:
    """kustomize, made now if it is not in the cache: half a minute. PrerequisiteError."""
    return installed(*_KUSTOMIZE)


def kubeconform_program() -> Path:
    """kubeconform, made now if it is not in the cache: some seconds. PrerequisiteError."""
    return installed(*_KUBECONFORM)


def krew_program() -> Path:
    """krew, made now if it is not in the cache: 40 s. PrerequisiteError."""
    return installed(*_KREW)


@dataclass(frozen=True, slots=True)
class Helm:
    """helm for the cluster of `kubeconfig`; `home` holds its own files, apart from the user's."""

    program: Path
    home: Path
    kubeconfig: Path = Path(os.devnull)

    def __call__(self, *arguments: str | Path, stdin: str = "") -> str:
        """What `helm ARGUMENTS` prints. Raises ToolError."""
        places = {"HOME": str(self.home), "KUBECONFIG": str(self.kubeconfig)}
        return said((self.program, *arguments), stdin=stdin, environment=places)


def said(
    command: tuple[str | Path, ...], *, stdin: str = "", environment: dict[str, str] | None = None
) -> str:
    """What the command prints. Raises ToolError."""
    done = subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
        env={"PATH": os.environ["PATH"], **(environment or {})},
    )
    if done.returncode:
        words = " ".join(map(str, command))
        raise ToolError(f"{words}:\n{done.stderr}{done.stdout}")
    return done.stdout
