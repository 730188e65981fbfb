"""The examples are settings, policies and manifests that the product takes."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from annotations import ContainerResources, JobRequest, PodView, Rules, parse
from scheduler.commands.every import parser
from scheduler.config.flags import load_settings
from scheduler.core.naming import GANG_RANK, GANG_SIZE
from scheduler.policy.file import read_policy
from scheduler.sandbox.kube import KubeCluster, NodeShape
from tests.support.admission import rendered
from tests.support.kube import Kube

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "deploy/examples"
SETTINGS = sorted(EXAMPLES.glob("*/settings*.yaml"))
POLICIES = sorted(EXAMPLES.glob("**/policy*.yaml"))
MANIFESTS = sorted(
    path for path in EXAMPLES.glob("**/*.yaml") if re.search(r"^kind:", path.read_text(), re.M)
)
# The sandbox has no such kinds; these live tests apply or build them.
APPLIED_LIVE = {
    "dstack/binding.yaml": "tests/stories/test_coexistence.py",
    "kustomize/kustomization.yaml": "tests/deploy/test_manifests_made.py",
    "rbac-namespaces.yaml": "tests/stories/test_policy_rights.py",
    "token-refresh.yaml": "tests/deploy/test_token_refresh.py",
}
TOKEN = "a-token-for-tests"
# Keys of the Helm chart by the flag they become.
VALUES = {
    "scheduler-name": ("name",),
    "node-mapping": ("nodeMapping",),
    "cluster-id": ("clusterId",),
    "watch-namespace": ("scope", "namespaces"),
    "slurm-api-base": ("config", "slurm", "apiBase"),
    "slurm-kill-wait": ("config", "slurm", "killWait"),
    "placeholder-mode": ("config", "scheduler", "placeholderMode"),
    "termination-offset": ("config", "scheduler", "terminationOffset"),
    "gpu-types": ("config", "scheduler", "gpuTypes"),
    "gpu-type-keys": ("config", "scheduler", "gpuTypeKeys"),
}
# What the chart sets by itself where the value stands.
WITH_THE_CHART = {
    "policy-file",
    ("scope", "type"),
    ("scope", "nodeAccess"),
    ("scope", "podAccess"),
    ("scope", "volumeAccess"),
}


def name(path: Path) -> str:
    return str(path.relative_to(EXAMPLES))


def leaves(tree: dict[str, Any], *above: str) -> dict[tuple[str, ...], Any]:
    found: dict[tuple[str, ...], Any] = {}
    for key, it in tree.items():
        plain = not isinstance(it, dict) or key in {"gpuTypes"}
        found |= {(*above, key): it} if plain else leaves(it, *above, key)
    return found


@pytest.mark.parametrize("path", SETTINGS, ids=name)
def test_settings_are_taken(path):
    settings = load_settings(parser().parse_args(["run", "--config", str(path)]), {})
    assert settings.node_mapping


@pytest.mark.parametrize("path", SETTINGS, ids=name)
def test_values_of_the_chart_say_the_same(path):
    settings = yaml.safe_load(path.read_text())
    beside = path.with_name(path.name.replace("settings", "values"))
    values = leaves(yaml.safe_load(beside.read_text())["scheduler"])
    policy = values.pop(("policy", "existingConfigMap"), None)
    assert bool(policy) == ("policy-file" in settings)
    given = {VALUES[key]: it for key, it in settings.items() if key not in WITH_THE_CHART}
    assert {key: it for key, it in values.items() if key not in WITH_THE_CHART} == given


@pytest.mark.parametrize("path", SETTINGS, ids=name)
def test_values_are_some_that_the_chart_has(path):
    beside = path.with_name(path.name.replace("settings", "values"))
    chart = yaml.safe_load((ROOT / "deploy/helm/slurm-pod-scheduler/values.yaml").read_text())
    known = leaves(chart["scheduler"])
    assert set(leaves(yaml.safe_load(beside.read_text())["scheduler"])) <= set(known)


@pytest.mark.parametrize("path", POLICIES, ids=name)
def test_policy_is_taken(path):
    assert read_policy(path).rules


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*/admission.txt")), ids=name)
def test_settings_of_the_admission_policies_are_taken(path):
    settings = dict(line.split("=", 1) for line in path.read_text().splitlines())
    text = str(rendered(settings))
    assert all(f"'{key}': '{value}'" in text for key, value in settings.items())


def test_every_example_has_a_guide():
    folders = {it.parent.name for it in SETTINGS}
    guides = {it.stem for it in (ROOT / "docs/coexistence").glob("*.md")}
    assert folders == guides
    for folder in folders:
        guide = (ROOT / f"docs/coexistence/{folder}.md").read_text(encoding="utf-8")
        for it in (EXAMPLES / folder).iterdir():
            assert it.name in guide, f"{it} is not told of in its guide"


def test_quick_start_asks_for_more_than_its_sandbox_has():
    deployment = yaml.safe_load((EXAMPLES / "quick-start.yaml").read_text())
    page = (ROOT / "docs/quick-start.md").read_text(encoding="utf-8")
    found = re.search(r"sandbox --nodes (\d+) --gpus-per-node (\d+)", page)
    assert found is not None
    room = int(found[1]) * int(found[2])
    pod = deployment["spec"]["template"]["spec"]
    (container,) = (
        ContainerResources(name=it["name"], **it["resources"]) for it in pod["containers"]
    )
    request = parse(
        PodView(
            annotations={},
            containers=(container,),
            termination_grace_period_seconds=pod["terminationGracePeriodSeconds"],
        ),
        Rules(),
    )
    assert isinstance(request, JobRequest)
    assert request.gres == "gres/gpu:1"
    assert deployment["spec"]["replicas"] > room


@pytest.mark.parametrize(
    "path", [it for it in MANIFESTS if str(it.relative_to(EXAMPLES)) not in APPLIED_LIVE], ids=name
)
async def test_manifest_is_taken_by_the_sandbox(path):
    shapes = [NodeShape(name="n-0", cpus=64, memory_mib=262_144)]
    async with (
        KubeCluster(token=TOKEN, nodes=shapes) as cluster,
        Kube(cluster.server.url, token=TOKEN) as kube,
    ):
        for body in yaml.safe_load_all(path.read_text()):
            if body["kind"] == "Namespace":
                await kube.apply(body)
                continue
            namespace = body["metadata"].setdefault("namespace", "default")
            if await kube.find("namespaces", namespace) is None:
                await kube.create_namespace(namespace)
            await kube.apply(body)
            kind = f"{body['kind'].lower()}s"
            assert await kube.find(kind, body["metadata"]["name"], namespace=namespace)


@pytest.mark.parametrize("path", sorted((EXAMPLES / "gangs").iterdir()), ids=name)
def test_example_of_a_gang_reads_what_the_binding_writes(path):
    service, job = yaml.safe_load_all(path.read_text())
    pod = job["spec"]["template"]["spec"]
    assert pod["subdomain"] == service["metadata"]["name"] == job["metadata"]["name"]
    assert job["spec"]["parallelism"] == job["spec"]["completions"]
    (container,) = pod["containers"]
    fields = [
        it["valueFrom"]["fieldRef"]["fieldPath"] for it in container["env"] if "valueFrom" in it
    ]
    assert fields == [f"metadata.annotations['{it}']" for it in (GANG_RANK, GANG_SIZE)]
    # What the containers reach each other by, and how the shell reads the script.
    *shell, script = container["command"]
    assert f"{job['metadata']['name']}-0.{pod['subdomain']}" in str(container) + script.replace(
        "$rank", "0"
    )
    subprocess.run([*shell[:1], "-n", "-c", script], check=True)


@pytest.mark.parametrize(("example", "test"), APPLIED_LIVE.items(), ids=str)
def test_manifest_of_a_kind_that_the_sandbox_lacks_has_a_test_of_its_own(example, test):
    assert (EXAMPLES / example) in MANIFESTS
    about = example.removesuffix(".yaml").partition("/")[0]
    assert about in (ROOT / test).read_text(encoding="utf-8")


def test_overlay_needs_no_file_that_is_not_there():
    folder = EXAMPLES / "kustomize"
    overlay = yaml.safe_load((folder / "kustomization.yaml").read_text())
    generators = [*overlay.get("secretGenerator", []), *overlay.get("configMapGenerator", [])]
    named = [*overlay["resources"], *(it for made in generators for it in made.get("files", []))]
    assert [it for it in named if not (folder / it).exists()] == []
