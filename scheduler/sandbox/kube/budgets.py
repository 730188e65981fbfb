"""PodDisruptionBudgets: which pods a budget covers, and how many may be disrupted now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any

from scheduler.sandbox.kube import selectors
from scheduler.sandbox.kube.meta import is_finished, is_leaving, is_ready
from scheduler.sandbox.kube.model import KubeModel
from scheduler.sandbox.kube.resources import BUDGETS, PODS, Body


@dataclass(frozen=True, slots=True)
class BudgetState:
    """Numbers of pods: covered by the budget, healthy now, and required to be healthy."""

    expected: int
    healthy: int
    desired: int

    @property
    def allowed(self) -> int:
        """The number of pods that may be disrupted."""
        return max(0, self.healthy - self.desired) if self.expected else 0


def covering(model: KubeModel, pod: Body) -> Iterator[Body]:
    """The budgets that cover the pod."""
    for budget in model.bodies(BUDGETS, pod["metadata"]["namespace"]):
        if selectors.matches(selectors.from_object(budget["spec"].get("selector")), pod):
            yield budget


def state(model: KubeModel, budget: Body) -> BudgetState:
    """The present state of the budget."""
    wanted = selectors.from_object(budget["spec"].get("selector"))
    namespace = budget["metadata"]["namespace"]
    pods = [
        pod
        for pod in model.bodies(PODS, namespace)
        if selectors.matches(wanted, pod) and not is_finished(pod)
    ]
    healthy = sum(is_ready(pod) and not is_leaving(pod) for pod in pods)
    return BudgetState(len(pods), healthy, _desired(budget["spec"], len(pods)))


def _desired(spec: Body, expected: int) -> int:
    if (unavailable := spec.get("maxUnavailable")) is not None:
        return max(0, expected - share(unavailable, expected, round_up=True))
    return share(spec.get("minAvailable", 1), expected, round_up=True)


def share(amount: Any, total: int, *, round_up: bool) -> int:
    """The number that an IntOrString means: itself, or a percentage of `total`, rounded."""
    if isinstance(amount, int):
        return amount
    part = float(str(amount).rstrip("%")) / 100 * total
    return ceil(part) if round_up else int(part)
