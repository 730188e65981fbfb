"""Small functions for what every object has: times, names, owners and conditions."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

Body = dict[str, Any]

# as in the real server, no vowels, so that no words appear by chance
SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX_LENGTH = 5
LONGEST_PREFIX = 58


def now(*, after_seconds: float = 0.0) -> str:
    """The wall time as metav1.Time: whole seconds, UTC."""
    moment = datetime.now(UTC)
    if after_seconds:
        moment += timedelta(seconds=after_seconds)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def monotonic() -> float:
    """Seconds by the clock of the event loop, which times all waits of the sandbox."""
    return asyncio.get_running_loop().time()


def micro_now() -> str:
    """The wall time as metav1.MicroTime."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(text: str) -> datetime:
    """A metav1.Time or MicroTime as an aware datetime; raises ValueError."""
    return datetime.fromisoformat(text)


def new_uid() -> str:
    """A fresh uid."""
    return str(uuid.uuid4())


def generated_name(prefix: str) -> str:
    """The prefix, cut if it is too long, and five random letters or digits."""
    suffix = "".join(random.choices(SUFFIX_LETTERS, k=SUFFIX_LENGTH))
    return prefix[:LONGEST_PREFIX] + suffix


def controller_of(body: Body) -> Body | None:
    """The owner reference that is marked as the controller; None if there is none."""
    for owner in body["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return dict(owner)
    return None


def owner_uids(body: Body) -> Iterator[str]:
    """The uids of all owners."""
    for owner in body["metadata"].get("ownerReferences") or ():
        yield owner["uid"]


def controller_reference(owner: Body) -> Body:
    """An owner reference that marks the owner as the controller."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def condition_of(body: Body, kind: str) -> Body | None:
    """The status condition of that type; None if there is none."""
    for condition in body.get("status", {}).get("conditions") or ():
        if condition.get("type") == kind:
            return dict(condition)
    return None


def with_condition(conditions: list[Body] | None, condition: Body) -> list[Body]:
    """The conditions, where this one replaces the one of its type or is appended. The
    lastTransitionTime is kept while the status stays the same.
    """
    kept = list(conditions or ())
    for index, old in enumerate(kept):
        if old["type"] == condition["type"]:
            since = old.get("lastTransitionTime") if old["status"] == condition["status"] else None
            kept[index] = {"lastTransitionTime": since or now(), **condition}
            return kept
    return [*kept, {"lastTransitionTime": now(), **condition}]


def is_ready(pod: Body) -> bool:
    """Whether the pod's Ready condition is True."""
    condition = condition_of(pod, "Ready")
    return condition is not None and condition["status"] == "True"


def is_finished(pod: Body) -> bool:
    """Whether the pod has ended, so that its containers will not run again."""
    return pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}


def is_leaving(body: Body) -> bool:
    """Whether the object is being deleted."""
    return "deletionTimestamp" in body["metadata"]
