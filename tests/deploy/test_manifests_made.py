"""The plain manifests are what the Helm chart makes, and a base for kustomize."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
import yaml

from tests.rigs import manifests
from tests.rigs.helm import Helm, kustomize_program, said

if TYPE_CHECKING:
    from tests.support.kube import Object

pytestmark = pytest.mark.live

_ROOT: Final = Path(__file__).parents[2]
_DEPLOY: Final = _ROOT / "deploy"
_INSTALL: Final = _ROOT / "docs/install.md"


def test_manifests_are_as_the_chart_makes_them(live_helm: Helm) -> None:
    for name, text in manifests.made(live_helm):
        assert (manifests.FOLDER / name).read_text() == text, "run: make manifests"


def test_base_has_the_objects_of_the_manifests() -> None:
    names = ("rbac.yaml", "deployment.yaml")
    written = [it for name in names for it in _bodies((manifests.FOLDER / name).read_text())]
    built = _bodies(said((kustomize_program(), "build", manifests.FOLDER)))
    assert sorted(built, key=_name) == sorted(written, key=_name)


def test_overlay_as_it_stands_brings_image_and_flags() -> None:
    built = _bodies(said((kustomize_program(), "build", _DEPLOY / "examples/kustomize")))
    assert ("Namespace", "slurm-pod-scheduler") in map(_name, built)
    (deployment,) = [it for it in built if it["kind"] == "Deployment"]
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "registry.example/slurm-pod-scheduler:0.1.0"
    assert container["args"][-1] == "--slurm-kill-wait=60s"
    (token,) = [it for it in deployment["spec"]["template"]["spec"]["volumes"] if "secret" in it]
    secret = token["secret"]["secretName"]
    assert f"create secret generic {secret} " in _INSTALL.read_text(encoding="utf-8")


def _name(body: Object) -> tuple[str, str]:
    return body["kind"], body["metadata"]["name"]


def _bodies(text: str) -> list[Object]:
    return list(yaml.safe_load_all(text))
