"""ValidatingAdmissionPolicies whose expression is `false`: they deny everything they match.

The model refuses policies with other expressions, because it has no CEL to evaluate them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from scheduler.sandbox.kube import selectors
from scheduler.sandbox.kube.errors import ApiError, invalid
from scheduler.sandbox.kube.model import KubeModel
from scheduler.sandbox.kube.paths import Target
from scheduler.sandbox.kube.resources import (
    NAMESPACES,
    POLICIES,
    POLICY_BINDINGS,
    Body,
    Resource,
)

_NEVER: Final = "false"
_OPERATIONS: Final = {"POST": "CREATE", "PUT": "UPDATE", "PATCH": "UPDATE"}


def check_policy(resource: Resource, body: Body) -> None:
    """Raises ApiError 422 for a policy with an expression that the model cannot evaluate."""
    if resource is not POLICIES:
        return
    for rule in (body.get("spec") or {}).get("validations") or ():
        if rule.get("expression") != _NEVER:
            text = f"Invalid value: {rule.get('expression')!r}: the sandbox knows only {_NEVER!r}"
            name = str(body["metadata"].get("name", ""))
            field = "spec.validations.expression"
            raise invalid(resource.kind, name, [(field, text)], group=resource.group)


def admit(model: KubeModel, target: Target, method: str) -> None:
    """Raises ApiError 422 if a policy denies this method on the target subresource."""
    operation = _OPERATIONS.get(method)
    for binding, policy in _in_force(model, target.namespace):
        if operation is None or not _matches(policy, target, operation):
            continue
        rule = policy["spec"]["validations"][0]
        what = target.resource.plural
        names = (policy["metadata"]["name"], binding["metadata"]["name"])
        raise ApiError(
            422,
            "Invalid",
            f'{what} "{target.name}" is forbidden: ValidatingAdmissionPolicy {names[0]!r} with '
            f"binding {names[1]!r} denied request: {rule.get('message', _NEVER)}",
            details={"name": target.name, "kind": what},
        )


def _in_force(model: KubeModel, namespace: str) -> Iterator[tuple[Body, Body]]:
    for binding in model.bodies(POLICY_BINDINGS):
        spec = binding["spec"]
        policy = model.find(POLICIES, "", spec["policyName"])
        selector = (spec.get("matchResources") or {}).get("namespaceSelector")
        if policy is not None and _selects(model, selector, namespace):
            yield binding, policy


def _selects(model: KubeModel, selector: Body | None, namespace: str) -> bool:
    found = model.find(NAMESPACES, "", namespace)
    if not selector or found is None:
        return selector is None or not selector
    return selectors.matches(selectors.from_object(selector), found)


def _matches(policy: Body, target: Target, operation: str) -> bool:
    rules = (policy["spec"].get("matchConstraints") or {}).get("resourceRules") or ()
    wanted = f"{target.resource.plural}/{target.subresource}"
    return any(
        wanted in rule.get("resources", ()) and operation in rule.get("operations", ())
        for rule in rules
    )
