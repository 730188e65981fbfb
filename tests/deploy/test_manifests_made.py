"""The plain manifests are what the Helm chart makes, and a base for kustomize."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
import yaml

from tests.rigs import manifests
from tests.rigs.helm import Helm, kustomize_program, said

if TYPE_CHECKING:
    from tests.support.kube import Object

pytestmark = pytest.mark.live

_DEPLOY: Final = Path(__file__).parents[2] / "deploy"


def test_manifests_are_as_the_chart_makes_them(live_helm: Helm) -> None:
    for name, text in manifests.made(live_helm):
        assert (manifests.FOLDER / name).read_text() == text, "run: make manifests"


def test_base_has_the_objects_of_the_manifests() -> None:
    names = ("rbac.yaml", "deployment.yaml")
    written = [it for name in names for it in _bodies((manifests.FOLDER / name).read_text())]
    built = _bodies(said((kustomize_program(), "build", manifests.FOLDER)))
    assert sorted(built, key=_name) == sorted(written, key=_name)


def test_overlay_brings_image_token_and_flags(tmp_path: Path) -> None:
    for folder in ("manifests", "examples/kustomize"):
        shutil.copytree(_DEPLOY / folder, tmp_path / folder)
    overlay = tmp_path / "examples/kustomize"
    (overlay / "auth-token").write_text("header.payload.signature")
    built = _bodies(said((kustomize_program(), "build", overlay)))
    (deployment,) = [it for it in built if it["kind"] == "Deployment"]
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "registry.example/slurm-pod-scheduler:0.1.0"
    assert container["args"][-1] == "--slurm-kill-wait=60s"
    (secret,) = [it for it in built if it["kind"] == "Secret"]
    (token,) = [it for it in deployment["spec"]["template"]["spec"]["volumes"] if "secret" in it]
    assert token["secret"]["secretName"] == secret["metadata"]["name"]


def _name(body: Object) -> tuple[str, str]:
    return body["kind"], body["metadata"]["name"]


def _bodies(text: str) -> list[Object]:
    return list(yaml.safe_load_all(text))
