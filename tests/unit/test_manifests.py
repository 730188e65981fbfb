"""The sets of rights differ in where they hold, and in nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

MANIFESTS = Path(__file__).parents[2] / "deploy/manifests"
# Objects of the cluster, which no Role can give a right to.
CLUSTER_WIDE = {"nodes", "namespaces"}


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


def test_single_namespaces_take_no_right_on_the_cluster():
    bodies = list(yaml.safe_load_all((MANIFESTS / "rbac-namespaced.yaml").read_text()))
    assert {body["kind"] for body in bodies} == {
        "Namespace",
        "ServiceAccount",
        "Role",
        "RoleBinding",
    }
