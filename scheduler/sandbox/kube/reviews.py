"""Reviews: requests for a decision, which are answered at once and never stored.

This cluster allows everything.
"""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.sandbox.kube.resources import Body, Resource

ADMIN: Body = {"username": "sandbox-admin", "groups": ["system:masters", "system:authenticated"]}


def answer(resource: Resource, body: Body, *, known: Mapping[str, Body]) -> Body:
    """The review with its status; `known` maps tokens to users."""
    spec = dict(body.get("spec") or {})
    status: Body
    match resource.kind:
        case "TokenReview":
            user = known.get(str(spec.get("token", "")))
            status = {"authenticated": True, "user": user} if user else {"authenticated": False}
        case "SelfSubjectReview":
            status = {"userInfo": ADMIN}
        case "SelfSubjectRulesReview":
            everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
            status = {
                "resourceRules": [everything],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
                "incomplete": False,
            }
        case _:
            status = {"allowed": True}
    return {
        "kind": resource.kind,
        "apiVersion": resource.api_version,
        "metadata": {},
        "spec": spec,
        "status": status,
    }
