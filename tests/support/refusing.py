"""ValidatingAdmissionPolicies that deny writes of a scheduler in one namespace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

Body = dict[str, Any]
Ask = Callable[[str, str, Body | None], Awaitable[tuple[int, Body]]]
"""Method, path and body of a request; gives status and body of the answer."""

_API: Final = "admissionregistration.k8s.io/v1"
_POLICIES: Final = f"/apis/{_API}/validatingadmissionpolicies"
_BINDINGS: Final = f"/apis/{_API}/validatingadmissionpolicybindings"
_PROBE: Final = "admission-probe"
_SECONDS: Final = 30.0
_DENIED: Final = 422
_OPERATIONS: Final = {"pods/binding": "CREATE", "pods/status": "UPDATE"}


@asynccontextmanager
async def denying(ask: Ask, namespace: str, what: str, *, message: str) -> AsyncIterator[None]:
    """Within the block the API server denies writes to `what` ("pods/binding", "pods/status") in
    the namespace.
    """
    name = f"deny-{what.replace('/', '-')}-{namespace}"
    probe = f"/api/v1/namespaces/{namespace}/pods"
    await _made(ask, probe, _probe())
    await _made(ask, _POLICIES, _policy(name, what, message))
    await _made(ask, _BINDINGS, _binding(name, namespace))
    try:
        await _until(ask, f"{probe}/{_PROBE}", what, denied=True)
        yield
    finally:
        await ask("DELETE", f"{_BINDINGS}/{name}", None)
        await ask("DELETE", f"{_POLICIES}/{name}", None)
        await _until(ask, f"{probe}/{_PROBE}", what, denied=False)
        await ask("DELETE", f"{probe}/{_PROBE}", None)


async def _made(ask: Ask, path: str, body: Body) -> None:
    status, answer = await ask("POST", path, body)
    assert status == 201, answer


async def _until(ask: Ask, probe: str, what: str, *, denied: bool) -> None:
    """Wait: a real server needs some seconds to apply a policy, and to drop a deleted one."""
    async with asyncio.timeout(_SECONDS):
        while True:
            status, _ = await ask(*_TRIES[what](probe))
            if (status == _DENIED) is denied:
                return
            await asyncio.sleep(0.1)


def _bind(probe: str) -> tuple[str, str, Body]:
    target = {"apiVersion": "v1", "kind": "Node", "name": "no-node"}
    body = {"metadata": {"name": _PROBE}, "target": target}
    return "POST", f"{probe}/binding?dryRun=All", body


def _report(probe: str) -> tuple[str, str, Body]:
    return "PATCH", f"{probe}/status?dryRun=All", {"status": {"message": "probe"}}


_TRIES: Final = {"pods/binding": _bind, "pods/status": _report}


def _probe() -> Body:
    container = {"name": "main", "image": "example.invalid/none:1"}
    spec = {"schedulerName": "no-such-scheduler", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": _PROBE}, "spec": spec}


def _policy(name: str, what: str, message: str) -> Body:
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": [_OPERATIONS[what]],
        "resources": [what],
    }
    return {
        "apiVersion": _API,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "false", "message": message}],
        },
    }


def _binding(name: str, namespace: str) -> Body:
    labels = {"kubernetes.io/metadata.name": namespace}
    return {
        "apiVersion": _API,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {
            "policyName": name,
            "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": {"matchLabels": labels}},
        },
    }
