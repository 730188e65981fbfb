"""Policies as tests write them."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

from scheduler.policy.file import understood
from scheduler.policy.rules import Policy, Subject
from scheduler.policy.verdict import Verdict, judge

PREFIX = "sunk.coreweave.com/"
PATH = Path("policy.yaml")


def policy(text: str) -> Policy:
    """The policy of that text."""
    return understood(PATH, dedent(text).encode())


def verdict(
    text: str,
    namespace: str = "physics",
    *,
    labels: dict[str, str] | None = None,
    priority_class: str = "",
    prefixes: tuple[str, ...] = (PREFIX,),
    **asked: str,
) -> Verdict:
    """What the policy makes of a pod; `asked` are annotations, `_` for `-`."""
    annotations = {PREFIX + key.replace("_", "-"): value for key, value in asked.items()}
    subject = Subject(namespace=namespace, labels=labels or {}, priority_class=priority_class)
    return judge(policy(text), subject, annotations, prefixes=prefixes)


def effective(found: Verdict) -> dict[str, str]:
    """Effective annotations, without their prefix."""
    return {key.removeprefix(PREFIX): value for key, value in found.annotations.items()}


def told(found: Verdict) -> list[str]:
    """The texts of all refusals."""
    return [it.text for it in found.problems]
