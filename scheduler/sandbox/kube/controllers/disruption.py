"""PodDisruptionBudgets: keeps their status in step with their pods."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.sandbox.kube import budgets
from scheduler.sandbox.kube.agents import Key
from scheduler.sandbox.kube.meta import with_condition
from scheduler.sandbox.kube.model import KubeModel
from scheduler.sandbox.kube.resources import BUDGETS, PODS, Body
from scheduler.sandbox.kube.store import Change


class DisruptionController:
    """Writes budgets' status."""

    def __init__(self, model: KubeModel) -> None:
        self._model = model

    def concerns(self, storage: str, change: Change) -> Iterable[Key]:
        """A budget that has changed, and those that a changed pod falls under."""
        if storage == BUDGETS.storage:
            if change.after is not None:
                yield change.key
        elif storage == PODS.storage:
            for stored in (change.before, change.after):
                if stored is not None:
                    for budget in budgets.covering(self._model, stored.body):
                        yield change.key[0], budget["metadata"]["name"]

    def reconcile(self, key: Key) -> float | None:
        """Count, and write the status if it is another one."""
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
