"""Every request that the clients can make has a row in the table of calls; one new is missed."""

from __future__ import annotations

import ast
import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Final

import pytest

from scheduler import kube as kube_package
from scheduler.service import neighbour_watch, node_watch, reflections, volume_watch
from slurmapi import client
from tests.faults.calls import CALLS, Server, call_of
from tests.faults.matrix import FAULTS, UNUSED, rounds

# What the clients call their operations, where the table says otherwise, and what stands for none.
_CALLED: Final = {
    "negotiate": "ping",
    "count_nodes": "nodes",
    "probe": "list_nodes",
    "list_slurmd_pods": "list_pods",
    "watch_slurmd_pods": "watch_pods",
}
_NO_CALLS: Final = frozenset({"slurmapi chunk"})


def _words(module: object, name: str) -> Iterator[str]:
    """The values of all keyword arguments of that name in a module's calls."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):  # type: ignore[arg-type]
        if isinstance(node, ast.Call):
            for keyword in node.keywords:
                if keyword.arg == name and isinstance(keyword.value, ast.Constant):
                    yield str(keyword.value.value)


def _operations() -> set[str]:
    """The names of all operations of both clients, from their source."""
    slurm = set(_words(client, "name")) | {
        str(node.args[0].value)
        for node in ast.walk(ast.parse(inspect.getsource(client)))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "_get"
        and isinstance(node.args[0], ast.Constant)
    }
    kube = {name for module in _modules(kube_package) for name in _words(module, "operation")}
    reflected = {
        name
        for module in (reflections, neighbour_watch, node_watch, volume_watch)
        for name in _reflected(module)
    }
    for name in reflected:
        kube |= {f"list_{name}", f"watch_{name}"}
    return (slurm | kube) - _NO_CALLS


def _modules(package: ModuleType) -> Iterator[ModuleType]:
    for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        yield import_module(found.name)


def _reflected(module: object) -> Iterator[str]:
    for node in ast.walk(ast.parse(inspect.getsource(module))):  # type: ignore[arg-type]
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Resource":
            for keyword in node.keywords:
                if keyword.arg == "name" and isinstance(keyword.value, ast.Constant):
                    yield str(keyword.value.value)


def test_every_operation_of_the_clients_has_a_row() -> None:
    rows = {call.name for call in CALLS}
    assert {_CALLED.get(name, name) for name in _operations()} <= rows


def test_every_row_is_an_operation_of_the_clients() -> None:
    assert {call.name for call in CALLS} - set(UNUSED) <= _operations()


@pytest.mark.parametrize(
    ("server", "method", "target", "name"),
    [
        (Server.SLURM, "GET", "/slurm/v0.0.45/ping/", "ping"),
        (Server.SLURM, "GET", "/slurm/v0.0.41/jobs/state/?job_id=1&job_id=2", "job_states"),
        (Server.SLURM, "GET", "/slurm/v0.0.45/job/7", "job"),
        (Server.SLURM, "POST", "/slurm/v0.0.45/job/7", "update_job"),
        (Server.SLURM, "POST", "/slurm/v0.0.45/job/submit", "submit"),
        (Server.SLURM, "DELETE", "/slurm/v0.0.45/jobs/", "cancel"),
        (Server.KUBE, "GET", "/api/v1/pods?limit=500", "list_pods"),
        (Server.KUBE, "GET", "/api/v1/namespaces/a/pods?watch=true", "watch_pods"),
        (Server.KUBE, "GET", "/api/v1/pods?fieldSelector=spec.nodeName%21%3D", "list_neighbours"),
        (Server.KUBE, "GET", "/api/v1/namespaces/a/persistentvolumeclaims", "list_claims"),
        (Server.KUBE, "GET", "/api/v1/namespaces/a/pods/b", "get_pod"),
        (Server.KUBE, "GET", "/apis/batch/v1/namespaces/a/jobs/b", "get_group"),
        (
            Server.KUBE,
            "GET",
            "/apis/scheduling.k8s.io/v1alpha2/namespaces/a/podgroups/b",
            "get_group",
        ),
        (
            Server.KUBE,
            "PATCH",
            "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/a/podgroups/b/status?fieldManager=c",
            "patch_group_status",
        ),
        (Server.KUBE, "POST", "/api/v1/namespaces/a/pods/b/binding", "bind"),
    ],
)
def test_requests_are_told_apart(server: Server, method: str, target: str, name: str) -> None:
    found = call_of(server, method, target)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize(
    ("server", "method", "target"),
    [
        (Server.SLURM, "GET", "/slurm/v0.0.45/jobs/"),
        (Server.SLURM, "GET", "/slurm/v0.0.45/diag/"),
        (Server.KUBE, "DELETE", "/api/v1/nodes/a"),
        (Server.KUBE, "POST", "/slurm/v0.0.45/job/submit"),
    ],
)
def test_other_requests_are_strangers(server: Server, method: str, target: str) -> None:
    assert call_of(server, method, target) is None


def test_each_fault_is_played_on_each_call_it_fits() -> None:
    cells = {(row.name, call.name) for row in FAULTS for group in rounds(row) for call in group}
    used = [call for call in CALLS if call.name not in UNUSED]
    assert cells == {(row.name, call.name) for row in FAULTS for call in used if row.fits(call)}
    assert len({row.name for row in FAULTS}) == len(FAULTS)
    assert all(any(row.fits(call) for row in FAULTS) for call in used)
