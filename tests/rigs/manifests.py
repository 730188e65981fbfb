"""`python -m tests.rigs.manifests [FOLDER]`: the plain manifests, made from the Helm chart."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.rigs.helm import Helm, helm_program

_ROOT: Final = Path(__file__).parents[2]
_CHART: Final = _ROOT / "deploy/helm/slurm-pod-scheduler"
FOLDER: Final = _ROOT / "deploy/manifests"
_NAME: Final = "slurm-pod-scheduler"

_RIGHTS: Final = ("serviceaccount", "rbac")
_SERVED: Final = (
    "scheduler.scope.type=namespace",
    "scheduler.scope.namespaces=team-a",
)
# Templates and values of each file.
_FILES: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "rbac.yaml": (_RIGHTS, ()),
    "deployment.yaml": (("deployment",), ()),
    "rbac-namespaced.yaml": (_RIGHTS, _SERVED),
    "deployment-namespaced.yaml": (("deployment",), _SERVED),
    "rbac-pods.yaml": (
        ("rbac-pods",),
        (*_SERVED, "scheduler.scope.nodeAccess=true", "scheduler.scope.podAccess=true"),
    ),
    "rbac-volumes.yaml": (
        ("rbac-volumes",),
        (*_SERVED, "scheduler.scope.nodeAccess=true", "scheduler.scope.volumeAccess=true"),
    ),
    "rbac-nodes.yaml": (("rbac-nodes",), (*_SERVED, "scheduler.scope.nodeAccess=true")),
}
_SLURM: Final = "scheduler.config.slurm.apiBase=http://slurmrestd.slurm:6820"
_HEAD: Final = "# Made from the Helm chart by `make manifests`.\n"
_NAMESPACE: Final = f"""\
apiVersion: v1
kind: Namespace
metadata:
  name: {_NAME}
---
"""
# What only helm looks at.
_OF_HELM: Final = re.compile(
    r"^(# Source: .*|\s+app\.kubernetes\.io/managed-by: Helm|\s+helm\.sh/chart: .*)\n", re.MULTILINE
)


def made(helm: Helm) -> Iterator[tuple[str, str]]:
    """Name and text of each file."""
    for name, (templates, values) in _FILES.items():
        parts = (part for it in templates for part in ("--show-only", f"templates/{it}.yaml"))
        settings = (part for it in (_SLURM, *values) for part in ("--set", it))
        text = helm("template", _NAME, _CHART, "--namespace", _NAME, *parts, *settings)
        plain = _OF_HELM.sub("", text).removeprefix("---\n")
        begin = _NAMESPACE if templates == _RIGHTS else ""
        yield name, f"{_HEAD}{begin}{plain}"


def main(arguments: list[str]) -> None:
    """Write the files."""
    folder = Path(arguments[0]) if arguments else FOLDER
    with tempfile.TemporaryDirectory() as home:
        for name, text in made(Helm(helm_program(), home=Path(home))):
            (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
