"""Whether a pod's requests fit into what other pods leave of a Node, and if not, what is
missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from scheduler.core.node_requests import CPU, PODS_RESOURCE, Amounts
from scheduler.core.node_suitability import NodeFacts

_BINARY: Final = (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))


def short_of(
    requests: Amounts,
    *,
    there: Mapping[str, int],
    used: Mapping[str, int],
    pods: int,
    more: int = 1,
) -> str | None:
    """The first resource that the Node lacks for this many `more` pods with these requests; None if
    everything fits. `there` is its allocatable; `used` and `pods` are sums over the pods on it.
    """
    if pods + more > there.get(PODS_RESOURCE, 0):
        return PODS_RESOURCE
    for name, amount in requests:
        if amount * more > there.get(name, 0) - used.get(name, 0):
            return name
    return None


@dataclass(frozen=True, slots=True)
class TooSmall:
    """A Node that can never have enough of a resource for the pod. As a text it is the rest of a
    sentence that begins with the Node's name.
    """

    resource: str
    asked: int
    has: int

    def __str__(self) -> str:
        return shortage(self.resource, asked=self.asked, has=self.has)

    def of_many(self, count: int) -> str:
        """The same about `count` Nodes, of which this one is the largest."""
        return f"{count} {'is' if count == 1 else 'are'} too small: the largest {self}"


def too_small(requests: Amounts, node: NodeFacts) -> TooSmall | None:
    """The first resource of which the Node can never have enough. None if there is none, or if the
    Node's kubelet has not reported its resources yet.
    """
    if not node.allocatable:
        return None
    for name, amount in requests:
        has = node.allocatable.get(name, 0)
        if amount > has:
            return TooSmall(name, amount, has)
    return None


def shortage(
    name: str,
    *,
    asked: int,
    has: int,
    used: int = 0,
    foreign: int = 0,
    leaving: int = 0,
    pods: int = 1,
) -> str:
    """What is missing for this many `pods`, each of which has `asked`, as the rest of a sentence
    that begins with the Node's name. Of the amount in use, `foreign` is requested by other
    schedulers' pods, and `leaving` by pods that are being deleted.
    """
    total, what = _amount_text(name, has), _label(name)
    who = "the pod requests" if pods == 1 else f"{pods} pods of the gang request"
    wanted = f"{who} {_amount_text(name, asked * pods)}"
    if not used:
        return f"has {total} {what}, {wanted}"
    whose = [
        f"{_amount_text(name, amount)} {_are(name, amount)} requested by {by}"
        for amount, by in (
            (foreign, "pods of other schedulers"),
            (leaving, "pods that are being deleted"),
        )
        if amount
    ]
    free = _amount_text(name, max(has - used, 0))
    text = f"has {free} of {total} {what} free, {wanted}"
    return "; ".join([text, *whose])


def _label(name: str) -> str:
    return {CPU: "CPUs", "memory": "memory"}.get(name, name)


def _are(name: str, amount: int) -> str:
    is_counted = name in {CPU, PODS_RESOURCE}
    return "are" if is_counted and amount != (1000 if name == CPU else 1) else "is"


def _amount_text(name: str, amount: int) -> str:
    if name == CPU:
        return f"{amount / 1000:g}"
    if name == "memory" or name.startswith(("ephemeral-storage", "hugepages-")):
        return next((f"{amount // of}{unit}" for unit, of in _BINARY if amount % of == 0), "") or (
            f"{amount / 2**30:.2f}Gi" if amount >= 2**30 else f"{amount / 2**20:.1f}Mi"
        )
    return str(amount)
