"""Builds the controllers of groups from source once, and keeps them."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.rigs.kube_build import go
from tests.rigs.prerequisites import announced, cache_directory, locked, recipe_key, run

_GO_MOD: Final = "module rig\n\ngo 1.26\n\nrequire {module} {version}\n"
# The build tag keeps the file out of the build; it only makes the module a direct requirement.
_TOOLS_GO: Final = '//go:build tools\n\npackage rig\n\nimport _ "{package}"\n'


@dataclass(frozen=True, slots=True)
class GroupSource:
    """A module of Go, its program, and where its manifests lie in it."""

    name: str
    module: str
    version: str
    package: str
    webhooks: str
    definitions: str


LWS: Final = GroupSource(
    "lws",
    "sigs.k8s.io/lws",
    "v0.8.0",
    "sigs.k8s.io/lws/cmd",
    "webhook/manifests.yaml",
    "crd/bases",
)
JOBSET: Final = GroupSource(
    "jobset",
    "sigs.k8s.io/jobset",
    "v0.11.0",
    "sigs.k8s.io/jobset",
    "components/webhook/manifests.yaml",
    "components/crd/bases",
)
SOURCES: Final = (LWS, JOBSET)


@dataclass(frozen=True, slots=True)
class BuiltController:
    """The program, and the folder with its manifests."""

    source: GroupSource
    folder: Path

    @property
    def program(self) -> Path:
        """The controller."""
        return self.folder / self.source.name

    @property
    def webhooks(self) -> Path:
        """The manifest of its webhooks."""
        return self.folder / "config" / self.source.webhooks

    @property
    def definitions(self) -> tuple[Path, ...]:
        """The manifests of its kinds."""
        return tuple(sorted((self.folder / "config" / self.source.definitions).glob("*.yaml")))


def ensure(source: GroupSource) -> BuiltController:
    """The controller, from the cache or made now: 3 min on two cores. PrerequisiteError.

    `go install MODULE@VERSION` would ask the proxy for all versions. A module that requires this
    one, with its checksums, asks for this version alone.
    """
    files = {
        "go.mod": _GO_MOD.format(module=source.module, version=source.version),
        "tools.go": _TOOLS_GO.format(package=source.package),
    }
    key = recipe_key(*files.values(), source.webhooks, source.definitions)
    folder = cache_directory() / f"{source.name}-{source.version}-{key}"
    built = BuiltController(source, folder)
    with locked(folder):
        if not built.program.exists():
            shutil.rmtree(folder, ignore_errors=True)
            with announced(f"building {source.name} {source.version}"):
                _build(source, folder, files)
    return built


def _build(source: GroupSource, folder: Path, files: dict[str, str]) -> None:
    workshop = folder / "module"
    workshop.mkdir(parents=True)
    for name, text in files.items():
        (workshop / name).write_text(text)
    fetched = _go(workshop, "mod", "download", "-json", f"{source.module}@{source.version}")
    module = Path(json.loads(fetched)["Dir"])
    # Files of the module cache are read-only.
    (workshop / "go.sum").write_text((module / "go.sum").read_text())
    shutil.copytree(module / "config", folder / "config", copy_function=shutil.copyfile)
    partial = folder / f"{source.name}.partial"
    _go(
        workshop,
        "build",
        "-buildvcs=false",
        "-ldflags",
        "-s -w",
        "-o",
        str(partial),
        source.package,
    )
    partial.rename(folder / source.name)


def _go(directory: Path, *arguments: str) -> str:
    environment = {"GOFLAGS": "-mod=mod", "GOWORK": "off", "HOME": os.environ["HOME"]}
    command = ("nice", "-n", "5", go(), *arguments)
    return run(command, directory=directory, environment=environment)
