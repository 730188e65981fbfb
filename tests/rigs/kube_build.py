"""Builds the real Kubernetes servers from source once, and keeps them in the user's cache.

KUBERIG_BIN, or KUBEBUILDER_ASSETS as with envtest, may name a folder that already has some of them.
Only those that are not in that folder are built.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.rigs.debian import unpack
from tests.rigs.prerequisites import (
    PrerequisiteError,
    announced,
    cache_directory,
    locked,
    need_root,
    recipe_key,
    run,
)

_MODULE: Final = Path(__file__).parent / "kuberig"
_FOLDERS: Final = ("KUBERIG_BIN", "KUBEBUILDER_ASSETS")
# Kubernetes 1.36 lists from its own cache only with etcd 3.5.13 or newer, which trixie has.
_ETCD: Final = ("trixie", ("etcd-server",))
# The oldest suite, because runc is linked against the machine's own libc.
_CONTAINERS: Final = (
    "bookworm",
    ("busybox-static", "containerd", "containernetworking-plugins", "runc"),
)
_GO_NEEDED: Final = (1, 26)
_GO_HELP: Final = (
    "install Go 1.26 or newer from go.dev/dl into /usr/local/go, or put it on PATH; or name a "
    "folder with ready kube-apiserver, kube-controller-manager and kubelet in KUBERIG_BIN"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeBinaries:
    """Paths of the servers; `containers` is a directory with containerd, runc, busybox and CNI."""

    etcd: Path
    kube_apiserver: Path
    kube_controller_manager: Path
    kubelet: Path
    containers: Path


def ensure() -> KubeBinaries:
    """The servers, made now if they are not in the cache: 5 min on two cores. PrerequisiteError."""
    need_root()
    return KubeBinaries(
        etcd=_ready_made("etcd") or unpack(*_ETCD, binary="usr/bin/etcd") / "usr/bin/etcd",
        kube_apiserver=_kubernetes("kube-apiserver"),
        kube_controller_manager=_kubernetes("kube-controller-manager"),
        kubelet=_kubernetes("kubelet"),
        containers=unpack(*_CONTAINERS, binary="usr/sbin/runc"),
    )


def kube_scheduler() -> Path:
    """kube-scheduler, which no rig starts: only the tests of its filters need it. Built in 10 s."""
    return _kubernetes("kube-scheduler")


def _kubernetes(program: str) -> Path:
    return _ready_made(program) or _built(program, lambda target: _build(program, target))


def _ready_made(program: str) -> Path | None:
    folders = [os.environ[name] for name in _FOLDERS if os.environ.get(name)]
    found = (Path(folder) / program for folder in folders)
    return next((path for path in found if os.access(path, os.X_OK)), None)


def _built(program: str, build: Callable[[Path], None]) -> Path:
    recipe = (_MODULE / "go.mod").read_text()
    folder = cache_directory() / f"kubernetes-{_version()}-{recipe_key(recipe)}"
    folder.mkdir(exist_ok=True)
    binary = folder / program
    with locked(folder):
        if not binary.exists():
            partial = binary.with_suffix(".partial")
            with announced(f"building {program} {_version()}"):
                build(partial)
            partial.rename(binary)
    return binary


def _build(program: str, target: Path) -> None:
    # Without these the server calls itself v0.0.0-master and refuses to emulate any version.
    stamp = {"gitVersion": _version()}
    stamp["gitMajor"], stamp["gitMinor"] = _version().lstrip("v").split(".")[:2]
    flags = [f"-X k8s.io/component-base/version.{key}={value}" for key, value in stamp.items()]
    run(
        (
            *("nice", "-n", "5", go(), "build", "-buildvcs=false"),
            *("-ldflags", " ".join(("-s", "-w", *flags))),
            *("-o", str(target), f"k8s.io/kubernetes/cmd/{program}"),
        ),
        directory=_MODULE,
    )


def _version() -> str:
    """The Kubernetes release that the module asks for, as in "v1.36.3"."""
    text = (_MODULE / "go.mod").read_text()
    found = re.search(r"k8s\.io/kubernetes (v\S+)", text)
    assert found is not None, "kuberig/go.mod names no k8s.io/kubernetes"
    return found[1]


def go() -> str:
    """The Go compiler's command. Raises PrerequisiteError."""
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        raise PrerequisiteError(f"Go is missing: {_GO_HELP}")
    version = run((go, "env", "GOVERSION"), directory=Path("/"), environment={"GOWORK": "off"})
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers < _GO_NEEDED:
        raise PrerequisiteError(f"Go is {version.strip()}: {_GO_HELP}")
    return go
