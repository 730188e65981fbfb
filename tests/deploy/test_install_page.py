"""The commands of docs/install.md do what the page says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from tests.rigs.helm import Helm
from tests.support.chart import Release, of_kind, policies_forgotten, rendered

if TYPE_CHECKING:
    from tests.support.kube import Kube

pytestmark = pytest.mark.live

_ROOT: Final = Path(__file__).parents[2]
_PAGE: Final = (_ROOT / "docs/install.md").read_text(encoding="utf-8")
_NAME: Final = "slurm-pod-scheduler"


def blocks(language: str) -> list[str]:
    """The page's fenced blocks of that language."""
    fences = re.findall(r"^ *```(\w*)\n(.*?)^ *```$", _PAGE, re.MULTILINE | re.DOTALL)
    return [text for it, text in fences if it == language]


def commands(program: str) -> list[list[str]]:
    """The page's command lines of that program, in order."""
    lines = "\n".join(blocks("")).replace("\\\n", " ").splitlines()
    return [shlex.split(it)[1:] for it in lines if it.strip().startswith(f"{program} ")]


@pytest.fixture
def values(tmp_path: Path) -> Path:
    """The page's file of values."""
    path = tmp_path / "values.yaml"
    path.write_text(blocks("yaml")[0])
    return path


async def test_helm_installs_upgrades_and_uninstalls_as_shown(
    live_helm: Helm, kube: Kube, home: str, values: Path
) -> None:
    installed = Release(live_helm, kube, _NAME, home)
    try:
        done = await _done(live_helm, kube, home, values)
        await policies_forgotten(kube, namespace=home)
    finally:
        await installed.uninstall()
    assert done == ["install", "test", "upgrade", "uninstall"]


async def _done(live_helm: Helm, kube: Kube, home: str, values: Path) -> list[str]:
    """The verbs of the page's commands, carried out in a namespace of the test's own."""
    told = {"deploy/helm/slurm-pod-scheduler": str(_ROOT / "deploy/helm/slurm-pod-scheduler")}
    done = []
    for verb, release, *words in commands("helm"):
        at = words.index("--namespace")
        assert (release, words[at + 1]) == (_NAME, _NAME)
        words[at + 1] = home
        if verb != "test":  # the stories play it, with Slurm
            live_helm(
                verb, release, *(told.get(it, it.replace(values.name, str(values))) for it in words)
            )
            there = await kube.find("deployments", _NAME, namespace=home) is not None
            assert there == (verb != "uninstall")
        done.append(verb)
    return done


def test_names_in_the_commands_of_kubectl_are_those_of_the_objects(
    live_helm: Helm, values: Path
) -> None:
    objects = rendered(live_helm, _NAME, "--namespace", _NAME, "--values", values)
    (deployment,) = of_kind(objects, "Deployment")
    (test,) = of_kind(objects, "Pod")
    slurm = yaml.safe_load(values.read_text())["scheduler"]["config"]["slurm"]
    shown = "\n".join(" ".join(words) for words in commands("kubectl"))
    assert (
        f"rollout status deployment/{deployment['metadata']['name']} --namespace {_NAME}" in shown
    )
    assert f"kubectl describe pod {test['metadata']['name']} --namespace {_NAME}" in _PAGE
    of_chart = slurm["token"]["existingSecret"]
    made = [words for words in commands("kubectl") if words[:3] == ["create", "secret", "generic"]]
    assert [words[3] for words in made] == [of_chart, of_chart, _secret_of_the_manifests()]
    for words in made:
        assert words[4:7] == ["--namespace", _NAME, "--from-file=auth-token=/dev/stdin"]


def _secret_of_the_manifests() -> str:
    path = _ROOT / "deploy/manifests/deployment.yaml"
    objects = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    (deployment,) = of_kind(objects, "Deployment")
    volumes = deployment["spec"]["template"]["spec"]["volumes"]
    (name,) = [it["secret"]["secretName"] for it in volumes if it["name"] == "slurm-token"]
    return str(name)


@pytest.mark.parametrize("block", blocks("yaml")[1:])
def test_other_values_of_the_page_are_taken(
    live_helm: Helm, values: Path, block: str, tmp_path: Path
) -> None:
    more = tmp_path / "more.yaml"
    more.write_text(block)
    assert rendered(live_helm, _NAME, "--values", values, "--values", more)


def test_table_of_scopes_says_which_rights_there_are(live_helm: Helm, values: Path) -> None:
    cluster = _roles(live_helm, values, "type=cluster")
    (lease,) = [it for it in cluster if it["kind"] == "Role"]
    assert {resource for rule in lease["rules"] for resource in rule["resources"]} == {"leases"}
    assert lease["metadata"]["namespace"] == _NAME
    own = _roles(live_helm, values, "type=namespace")
    assert {it["kind"] for it in own} == {"Role"}
    several = _roles(live_helm, values, "type=namespace", "namespaces={a,b}")
    assert {it["metadata"]["namespace"] for it in several} == {_NAME, "a", "b"}
    nodes = _roles(live_helm, values, "type=namespace", "nodeAccess=true")
    (wide,) = [it for it in nodes if it["kind"] == "ClusterRole"]
    assert wide["rules"] == [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}
    ]


def _roles(helm: Helm, values: Path, *scope: str) -> list[dict[str, Any]]:
    given = [part for it in scope for part in ("--set", f"scheduler.scope.{it}")]
    objects = rendered(helm, _NAME, "--namespace", _NAME, "--values", values, *given)
    return [it for it in objects if it["kind"].endswith("Role")]
