"""The plain manifests fit the scheduler; their sets of rights differ only in where they hold."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.config import flags
from scheduler.config.settings import Settings

MANIFESTS = Path(__file__).parents[2] / "deploy/manifests"
# Objects of the cluster, which no Role can give a right to.
CLUSTER_WIDE = {"nodes", "namespaces", "persistentvolumeclaims", "persistentvolumes"}


def rules(name: str) -> list[dict[str, Any]]:
    """Of all roles in the file."""
    bodies = yaml.safe_load_all((MANIFESTS / name).read_text())
    return [rule for body in bodies for rule in body.get("rules", ())]


def about_pods(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [rule for rule in found if CLUSTER_WIDE.isdisjoint(rule["resources"])]


def test_single_namespaces_take_the_same_rights_as_the_cluster():
    single, whole = rules("rbac-namespaced.yaml"), rules("rbac.yaml")
    wanted = about_pods(whole)
    assert [rule for rule in wanted if rule not in single] == []
    assert [rule for rule in about_pods(single) if rule not in wanted] == []


def test_rights_on_nodes_are_the_same_beside_roles_alone():
    (nodes,) = rules("rbac-nodes.yaml")
    assert nodes in rules("rbac.yaml")
    assert [it for it in rules("rbac-volumes.yaml") if it not in rules("rbac.yaml")] == []


def test_single_namespaces_take_no_right_on_the_cluster():
    bodies = list(yaml.safe_load_all((MANIFESTS / "rbac-namespaced.yaml").read_text()))
    assert {body["kind"] for body in bodies} == {
        "Namespace",
        "ServiceAccount",
        "Role",
        "RoleBinding",
    }


def pod_of(name: str) -> Any:
    body = yaml.safe_load((MANIFESTS / name).read_text())
    return body["spec"]["template"]["spec"]


def settings_of(name: str) -> Settings:
    command, *words = pod_of(name)["containers"][0]["args"]
    assert command == "run"
    parser = argparse.ArgumentParser()
    flags.add_arguments(parser)
    return flags.load_settings(parser.parse_args(words), {})


def test_arguments_are_settings():
    whole = settings_of("deployment.yaml")
    assert whole.watch_namespace == ()
    assert whole.node_access == whole.pod_access == whole.volume_access == "read"
    single = settings_of("deployment-namespaced.yaml")
    assert single.watch_namespace == ("team-a",)
    assert single.node_access == single.pod_access == single.volume_access == "none"


def test_arguments_say_nothing_but_the_defaults_of_the_settings():
    access = {"node_access", "pod_access", "volume_access"}
    named = {"slurm_api_base", "own_namespace", *access, "log_format"}
    given, plain = settings_of("deployment.yaml"), Settings.model_validate({})
    changed = {it for it in Settings.model_fields if getattr(given, it) != getattr(plain, it)}
    assert changed == {*named, "hooks_api_bind_address", "leader_elect"}


@pytest.mark.parametrize("name", ["deployment.yaml", "deployment-namespaced.yaml"])
def test_probes_ports_and_files_are_where_the_settings_look(name):
    settings, pod = settings_of(name), pod_of(name)
    (container,) = pod["containers"]
    ports = {it["name"]: it["containerPort"] for it in container["ports"]}
    assert settings.health_probe_bind_address is not None
    assert settings.metrics_bind_address is not None
    assert ports == {
        "health": settings.health_probe_bind_address.port,
        "metrics": settings.metrics_bind_address.port,
    }
    for probe, path in (
        ("startup", "/healthz"),
        ("liveness", "/healthz"),
        ("readiness", "/readyz"),
    ):
        asked = container[f"{probe}Probe"]["httpGet"]
        assert asked == {"path": path, "port": "health"}
    (mount,) = container["volumeMounts"]
    assert Path(mount["mountPath"]) == settings.slurm_auth_token_file.parent


@pytest.mark.parametrize("name", ["deployment.yaml", "deployment-namespaced.yaml"])
def test_process_has_time_to_end(name):
    assert pod_of(name)["terminationGracePeriodSeconds"] > settings_of(name).shutdown_grace


@pytest.mark.parametrize("name", ["deployment.yaml", "deployment-namespaced.yaml"])
def test_pod_is_unprivileged(name):
    pod = pod_of(name)
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
