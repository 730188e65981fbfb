"""Pods of a gang that runs which come and cannot be served: they get none of its slots.

What is wrong with such a pod is known only after it has been read, and so is what it asks for: it
may ask for more than its slot has. The other pods of the gang go on without it.
"""

from __future__ import annotations

from scheduler.core.actions import Action, Reject, Tell
from scheduler.core.event_reasons import Reason
from scheduler.core.facts import PodFacts, UnitFacts


def refusals(facts: UnitFacts, pods: tuple[PodFacts, ...]) -> tuple[Action, ...]:
    """Tell these pods why they get no slot. Only the problems of one of them, the culprit, are
    known (`facts.request`); nothing is told if there are none.
    """
    if facts.gang is None or not isinstance(facts.request, tuple):
        return ()
    culprit = facts.gang.culprit
    message = (
        f"The pod cannot be served, and nor can pod {culprit} of its gang. Correct or delete that "
        "pod, as its condition says: then this pod's condition says what is wrong with it"
    )
    return tuple(
        Reject(pod, facts.request)
        if pod.name == culprit
        else Tell(pod, Reason.SCHEDULING_FAILED, message)
        for pod in pods
    )
