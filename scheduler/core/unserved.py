"""Pods that cannot be served: what they show, and what the others of their gang show.

If such a pod comes to a gang that runs, it gets none of its slots. What is wrong with it is known
only after it has been read, and so is what it asks for: it may ask for more than its slot has. The
other pods of the gang go on without it.
"""

from __future__ import annotations

from collections.abc import Callable

from annotations import Problem
from scheduler.core.actions import Action, Reject, Tell
from scheduler.core.event_reasons import Reason
from scheduler.core.facts import GangFacts, PodFacts, UnitFacts


def rejections(
    facts: UnitFacts,
    problems: tuple[Problem, ...],
    pods: tuple[PodFacts, ...],
    *,
    reason: Reason,
    others: Callable[[GangFacts], str],
) -> tuple[Action, ...]:
    """Tell the culprit of the gang its problems, and the others what `others` makes of the gang. If
    no pod is the culprit, all show the problems.
    """
    gang = facts.gang
    if gang is None or not gang.culprit:
        return tuple(Reject(pod, problems) for pod in pods)
    message = others(gang)
    return tuple(
        Reject(pod, problems) if pod.name == gang.culprit else Tell(pod, reason, message)
        for pod in pods
    )


def refusals(facts: UnitFacts, pods: tuple[PodFacts, ...]) -> tuple[Action, ...]:
    """Tell these pods why they get no slot. Only the problems of one of them, the culprit, are
    known (`facts.request`); nothing is written if there are none.
    """
    if not isinstance(facts.request, tuple):
        return ()
    return rejections(
        facts, facts.request, pods, reason=Reason.SCHEDULING_FAILED, others=_nor_can_this
    )


def _nor_can_this(gang: GangFacts) -> str:
    return (
        f"The pod cannot be served, and nor can pod {gang.culprit} of its gang. Correct or delete "
        "that pod, as its condition says: then this pod's condition says what is wrong with it"
    )
