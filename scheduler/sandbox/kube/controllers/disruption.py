"""Keeps the status of PodDisruptionBudgets in step with their pods."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.sandbox.kube import budgets
from scheduler.sandbox.kube.agents import Key
from scheduler.sandbox.kube.meta import with_condition
from scheduler.sandbox.kube.model import KubeModel
from scheduler.sandbox.kube.resources import BUDGETS, PODS, Body
from scheduler.sandbox.kube.store import Change


class DisruptionController:
    """Writes the status of budgets."""

    def __init__(self, model: KubeModel) -> None:
        self._model = model

    def concerns(self, storage: str, change: Change) -> Iterable[Key]:
        """Yield the key of a changed budget, or of each budget that covers a changed pod."""
        if storage == BUDGETS.storage:
            if change.after is not None:
                yield change.key
        elif storage == PODS.storage:
            for stored in (change.before, change.after):
                if stored is not None:
                    for budget in budgets.covering(self._model, stored.body):
                        yield change.key[0], budget["metadata"]["name"]

    def reconcile(self, key: Key) -> float | None:
        """Count the pods, and write the budget's status if it has changed."""
        budget = self._model.find(BUDGETS, key[0], key[1])
        if budget is not None:
            state = budgets.state(self._model, budget)
            self._model.modify(BUDGETS, budget, lambda body: _counted(body, state))
        return None


def _counted(body: Body, state: budgets.BudgetState) -> Body:
    allowed = state.allowed
    condition = {
        "type": "DisruptionAllowed",
        "status": "True" if allowed else "False",
        "reason": "SufficientPods" if allowed else "InsufficientPods",
        "message": "",
        "observedGeneration": body["metadata"]["generation"],
    }
    status = {
        "observedGeneration": body["metadata"]["generation"],
        "disruptionsAllowed": allowed,
        "currentHealthy": state.healthy,
        "desiredHealthy": state.desired,
        "expectedPods": state.expected,
        "conditions": with_condition(body["status"].get("conditions"), condition),
    }
    return {**body, "status": status}
