"""What the Helm chart makes of values: accepted by a real API server, or refused with a reason."""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from scheduler.config import flags, strict_yaml
from scheduler.config.settings import Settings
from scheduler.nodes import map_file
from scheduler.policy import file as policy_file
from tests.deploy.monitoring import definitions
from tests.rigs.helm import Helm, ToolError
from tests.support.chart import CHART, VALUES, of_kind, rendered
from tests.support.kube import Kube, Object

if TYPE_CHECKING:
    from tests.rigs.kube import KubeRig

pytestmark = pytest.mark.live

EVERYTHING: Final = CHART / "ci/everything-values.yaml"
LEAST: Final = ("--set", "scheduler.config.slurm.apiBase=http://slurmrestd:6820")
_SECONDS: Final = 60.0


@pytest.fixture(params=VALUES, ids=lambda path: path.name.removesuffix("-values.yaml"))
def values(request: pytest.FixtureRequest) -> Path:
    """Each file of values in the chart's folder `ci`."""
    path: Path = request.param
    return path


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A copy of the chart with a dashboard and alerts of its own."""
    chart = tmp_path / "slurm-pod-scheduler"
    shutil.copytree(CHART, chart)
    for folder in ("dashboards", "rules"):
        shutil.rmtree(chart / folder)
        (chart / folder).mkdir()
    (chart / "dashboards/waiting.json").write_text(DASHBOARD)
    (chart / "rules/alerts.yaml").write_text(yaml.safe_dump(RULES))
    (chart / "rules/more.yaml").write_text(yaml.safe_dump({"groups": [{"name": "more"}]}))
    return chart


DASHBOARD: Final = '{"title": "Waiting {{ pod }}"}'
RULES: Final = {
    "groups": [
        {
            "name": "slurm",
            "rules": [
                {
                    "alert": "Silent",
                    "expr": "up == 0",
                    "for": "5m",
                    "annotations": {
                        "summary": "{{ $labels.instance }} is away",
                        "runbook_url": "docs/runbooks.md#silent",
                    },
                }
            ],
        }
    ]
}


@pytest.fixture(scope="module")
def monitored(live_kube: KubeRig) -> Iterator[None]:
    """The operators' definitions, which a cluster may have."""
    with definitions(live_kube):
        yield


def test_lint_finds_nothing(live_helm: Helm, values: Path) -> None:
    said = live_helm("lint", "--strict", CHART, "-f", values)
    assert "0 chart(s) failed" in said
    assert "WARNING" not in said


@pytest.mark.usefixtures("monitored")
def test_api_server_takes_each_object_to_the_letter(
    live_helm: Helm, live_kube: KubeRig, values: Path
) -> None:
    objects = rendered(live_helm, "try", "--namespace", "default", "-f", values)
    for body in objects:
        answer = _tried(live_kube, body)
        assert answer == "", f"{body['kind']} {body['metadata']['name']}: {answer}"


def test_dashboards_and_alerts_come_as_they_stand_in_the_files(
    live_helm: Helm, filled: Path
) -> None:
    switched = ("--set", "scheduler.dashboards.enabled=true,scheduler.prometheusRule.enabled=true")
    objects = rendered(live_helm, "try", *LEAST, *switched, chart=filled)
    (board,) = of_kind(objects, "ConfigMap")
    assert board["metadata"]["name"].endswith("-dashboard-waiting")
    assert board["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert board["data"]["waiting.json"].strip() == DASHBOARD
    (rule,) = of_kind(objects, "PrometheusRule")
    assert rule["spec"]["groups"] == [*RULES["groups"], {"name": "more"}]


def test_process_takes_command_line_and_files(
    live_helm: Helm, values: Path, tmp_path: Path
) -> None:
    objects = rendered(live_helm, "try", "-f", values)
    (deployment,) = of_kind(objects, "Deployment")
    words = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    files = {
        name: text for it in of_kind(objects, "ConfigMap") for name, text in it["data"].items()
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    settings = _settings(words[1:])
    if settings.policy_file:
        rules = policy_file.read_policy(tmp_path / settings.policy_file.name)
        assert rules is not None
        assert "2592000" in (tmp_path / "policy.yaml").read_text()
    if "nodes.yaml" in files:
        assert map_file.MapFile(tmp_path / "nodes.yaml").nodes == {
            "gpu-1": "node-a",
            "0042": "node-b",
        }


def test_values_of_sunk_mean_what_they_mean_there(live_helm: Helm) -> None:
    objects = rendered(live_helm, "slurm", "-n", "tenant", "-f", CHART / "ci/sunk-values.yaml")
    (deployment,) = of_kind(objects, "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    settings = _settings(pod["containers"][0]["args"][1:])
    assert settings.scheduler_name == "tenant-slurm-scheduler"
    assert settings.watch_namespace == ("default", "kube-public")
    assert settings.gpu_types == {"NVIDIA_L4": "l4", "NVIDIA_H100": "h100"}
    assert settings.poll_interval == 10
    assert settings.slurm_connections == 5
    assert pod["tolerations"] == [{"key": "sunk.coreweave.com/lock", "operator": "Exists"}]
    assert pod["containers"][0]["name"] == "scheduler"


def test_links_of_alerts_lead_to_the_runbooks_of_the_site(live_helm: Helm, filled: Path) -> None:
    page = "https://wiki.example/runbooks"
    told = f"scheduler.prometheusRule.enabled=true,scheduler.prometheusRule.runbookUrl={page}"
    (rule,) = of_kind(
        rendered(live_helm, "try", *LEAST, "--set", told, chart=filled), "PrometheusRule"
    )
    alert = rule["spec"]["groups"][0]["rules"][0]
    assert alert["annotations"]["runbook_url"] == f"{page}#silent"


@pytest.mark.parametrize(
    ("address", "ports"),
    [
        ("http://10.0.0.1", [80]),
        ("https://slurm.example/", [443]),
        ("http://slurm.example:6820", [6820]),
        ("unix:/run/slurm/socket", []),
    ],
)
def test_network_policy_lets_out_to_the_port_of_slurmrestd(
    live_helm: Helm, address: str, ports: list[int]
) -> None:
    switched = f"scheduler.networkPolicy.enabled=true,scheduler.config.slurm.apiBase={address}"
    (policy,) = of_kind(rendered(live_helm, "try", "--set", switched), "NetworkPolicy")
    _names, _kubernetes, *slurm = policy["spec"]["egress"]
    assert [it["ports"][0]["port"] for it in slurm] == ports


def test_network_policy_lets_nobody_to_the_health_port_unless_told(live_helm: Helm) -> None:
    """The Node of a pod always reaches it, so that probes need no rule."""
    switched = ("--set", "scheduler.networkPolicy.enabled=true")
    (policy,) = of_kind(rendered(live_helm, "try", *LEAST, *switched), "NetworkPolicy")
    assert [it["ports"] for it in policy["spec"]["ingress"]] == [[{"port": "metrics"}]]
    peers = "scheduler.networkPolicy.healthFrom[0].ipBlock.cidr=10.0.0.0/8"
    (policy,) = of_kind(
        rendered(live_helm, "try", *LEAST, *switched, "--set", peers), "NetworkPolicy"
    )
    (health,) = [it for it in policy["spec"]["ingress"] if it["ports"] == [{"port": "health"}]]
    assert health["from"] == [{"ipBlock": {"cidr": "10.0.0.0/8"}}]


async def test_pods_keep_the_restricted_standard(
    live_helm: Helm, live_kube: KubeRig, kube: Kube, home: str
) -> None:
    label = {"pod-security.kubernetes.io/enforce": "restricted"}
    await kube.patch("namespaces", home, {"metadata": {"labels": label}})
    objects = rendered(
        live_helm, "try", *LEAST, "-n", home, "--set", "scheduler.serviceAccount.create=false"
    )
    (deployment,) = of_kind(objects, "Deployment")
    template = deployment["spec"]["template"]
    own = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": template["metadata"] | {"name": "own", "namespace": home},
        "spec": template["spec"],
    }
    for pod in (own, *of_kind(objects, "Pod")):
        assert _tried(live_kube, pod) == ""


def test_nothing_is_rendered_where_the_scheduler_is_off(live_helm: Helm) -> None:
    assert rendered(live_helm, "try", "-f", EVERYTHING, "--set", "scheduler.enabled=false") == []


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"scop": {"type": "cluster"}},
            "at '/scheduler': additional properties 'scop' not allowed",
        ),
        (
            {"config": {"scheduler": {"pollIntervall": "1s"}}},
            "at '/scheduler/config/scheduler': additional properties 'pollIntervall' not allowed",
        ),
        ({"scope": {"type": "global"}}, "value must be one of 'cluster', 'namespace'"),
        ({"config": {"slurm": {"killWait": "soon"}}}, "'soon' does not match pattern"),
        ({"config": {"slurm": {"poolSize": 65}}}, "maximum: got 65, want 64"),
        ({"replicas": -1}, "at '/scheduler/replicas': minimum: got -1, want 0"),
        (
            {"replicas": 2, "leaderElection": {"enabled": False}},
            "scheduler.replicas: 2: expected scheduler.leaderElection.enabled=true",
        ),
        (
            {"podLabels": {"app.kubernetes.io/name": "x"}},
            "scheduler.podLabels: app.kubernetes.io/name: expected other labels",
        ),
        (
            {
                "podMonitor": {"enabled": True, "labels": {"helm.sh/chart": "x"}},
            },
            "scheduler.podMonitor.labels: helm.sh/chart: expected other labels",
        ),
        ({"policy": {"rules": [{"name": "x", "force": {}}]}}, "additional properties 'force'"),
        ({"image": {"digest": "sha256:12"}}, "does not match pattern"),
        (
            {"config": {"slurm": {"apiBase": ""}}},
            "scheduler.config.slurm.apiBase: '': expected where slurmrestd is",
        ),
        (
            {"scope": {"namespaces": "a,b"}},
            "scheduler.scope.namespaces: a,b: only with scheduler.scope.type=namespace",
        ),
        (
            {"config": {"scheduler": {"gracePolicy": "guarded"}}},
            "expected scheduler.hooks.enabled=true",
        ),
        (
            {
                "hooks": {
                    "enabled": True,
                    "url": "http://h:8000",
                    "tls": {"existingSecret": "tls", "caKey": "ca.crt"},
                }
            },
            "expected scheduler.hooks.url=https://HOST",
        ),
        (
            {
                "scope": {"type": "namespace"},
                "policy": {"rules": [{"name": "x", "namespaceSelector": {}}]},
            },
            "expected scheduler.scope.namespaceAccess=true",
        ),
        (
            {"config": {"slurm": {"token": {"value": "x", "existingSecret": "y"}}}},
            "scheduler.config.slurm.token: expected one of value, existingSecret and file",
        ),
        (
            {"metrics": {"enabled": False}, "podMonitor": {"enabled": True}},
            "expected scheduler.metrics.enabled=true",
        ),
    ],
    ids=str,
)
def test_values_that_will_not_do_are_named_with_what_would(
    live_helm: Helm, given: dict[str, Any], told: str
) -> None:
    with pytest.raises(ToolError) as refused:
        live_helm(
            "template",
            CHART,
            "-f",
            CHART / "ci/cluster-values.yaml",
            "-f",
            "-",
            stdin=json.dumps({"scheduler": given}),
        )
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"nameOverride": "Foo Bar"}, "at '/nameOverride': 'Foo Bar' does not match pattern"),
        (
            {"commonLabels": {"app.kubernetes.io/instance": "x"}},
            "commonLabels: app.kubernetes.io/instance: expected other labels",
        ),
    ],
    ids=str,
)
def test_names_and_labels_that_will_not_do_are_named(
    live_helm: Helm, given: dict[str, Any], told: str
) -> None:
    words = ("template", CHART, "-f", CHART / "ci/cluster-values.yaml", "-f", "-")
    with pytest.raises(ToolError) as refused:
        live_helm(*words, stdin=json.dumps(given))
    assert told in str(refused.value)


def test_labels_that_several_values_give_are_given_once(live_helm: Helm) -> None:
    common = {"commonLabels": {"team": "a", "tier": "b"}}
    own = {"scheduler": {"podLabels": {"team": "c"}}}
    words = ("template", CHART, "-f", CHART / "ci/cluster-values.yaml", "-f", "-")
    text = live_helm(*words, stdin=json.dumps(common | own))
    found = [strict_yaml.load(it.encode()) for it in text.split("\n---\n")]
    (deployment,) = of_kind([it for it in found if isinstance(it, dict)], "Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert (labels["team"], labels["tier"]) == ("c", "b")


def _settings(words: list[str]) -> Settings:
    parser = argparse.ArgumentParser()
    flags.add_arguments(parser)
    return flags.load_settings(parser.parse_args(words), {})


def _tried(rig: KubeRig, body: Object) -> str:
    """What the API server has against creating it; a definition takes a moment to be served."""
    until = time.monotonic() + _SECONDS
    while (path := _path(rig, body)) is None:
        assert time.monotonic() < until, f"no such kind: {body['kind']}"
        time.sleep(0.05)
    answer = rig.ask("POST", f"{path}?dryRun=All&fieldValidation=Strict", body)
    return "" if answer.status == 201 else answer.text


def _path(rig: KubeRig, body: Object) -> str | None:
    version = body["apiVersion"]
    base = f"/apis/{version}" if "/" in version else f"/api/{version}"
    answer = rig.ask("GET", base)
    kinds = answer.body["resources"] if answer.status == 200 else []
    found = next((it for it in kinds if it["kind"] == body["kind"] and "/" not in it["name"]), None)
    if found is None:
        return None
    within = f"/namespaces/{body['metadata']['namespace']}" if found["namespaced"] else ""
    return f"{base}{within}/{found['name']}"
