"""Builds Go programs of other projects once, and keeps them in the user's cache."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.rigs.kube_build import go
from tests.rigs.prerequisites import announced, cache_directory, locked, recipe_key, run


def installed(package: str, version: str, *, stamps: Mapping[str, str] | None = None) -> Path:
    """The program of a Go package, as in `go install PACKAGE@VERSION`, from the cache or made now.

    `stamps` are variables of the program that its project's own build sets. PrerequisiteError.
    """
    name = package.rsplit("/", 1)[-1]
    if name.startswith("v"):  # kustomize/v5
        name = package.rsplit("/", 2)[-2]
    flags = " ".join(("-s -w", *(f"-X {key}={it}" for key, it in (stamps or {}).items())))
    folder = cache_directory() / f"{name}-{version}-{recipe_key(package, flags)}"
    with locked(folder):
        if not (folder / name).exists():
            with announced(f"building {name} {version}"):
                run(
                    ("nice", "-n", "5", go(), "install", "-ldflags", flags, f"{package}@{version}"),
                    directory=Path("/"),
                    environment={"GOBIN": str(folder), "GOWORK": "off"},
                )
    return folder / name
