"""What a waiting pod shows while another pod of its unit runs, or may run.

Their job is kept for the pod that runs, whatever becomes of the one that waits (I5). So the pod
that waits can be bound only once that job holds a node for it.
"""

from __future__ import annotations

from typing import Final, assert_never

from scheduler.core.actions import (
    Action,
    Again,
    Bind,
    Cancel,
    Inspect,
    Locate,
    Record,
    Reject,
    Reseat,
    Submit,
    Tell,
    Weigh,
)
from scheduler.core.event_reasons import Reason
from scheduler.core.facts import InDoubt, NoJob, PodStage, Tracked, UnitFacts, Vanished
from scheduler.core.incomplete import a_few

_WHAT_FOR: Final = "and another of its pods runs: this pod is bound once it holds a node for it"
_NEXT_PASS_KNOWS_MORE: Final = Inspect | Locate | Record | Reseat | Submit | Weigh


def words_beside(facts: UnitFacts, actions: tuple[Action, ...]) -> tuple[Tell, ...]:
    """Messages for the waiting pods that these actions do not mention (I9)."""
    if any(isinstance(it, _NEXT_PASS_KNOWS_MORE) for it in actions):
        return ()
    if facts.refused_bind is not None or facts.uncompared_since is not None:
        return ()  # the condition shows the refusal already; the comparison takes a moment
    served = {it.pod.uid for it in actions if isinstance(it, Tell | Bind | Reject)}
    silent = [pod for pod in facts.pods if pod.stage is PodStage.WAITING and pod.uid not in served]
    message = f"{_known(facts)}, {_WHAT_FOR}"
    return tuple(Tell(pod, Reason.SLURM_PENDING, message) for pod in silent)


def kept_for_missing(
    facts: UnitFacts, actions: tuple[Action, ...], now: float
) -> tuple[Action, ...]:
    """These actions for pods that wait, but the job is not cancelled while a pod that has vanished
    may still run in it (I5).
    """
    if not facts.missing or now >= facts.lingers_until:
        return actions
    if not any(isinstance(it, Cancel) for it in actions):
        return actions
    left = a_few([it.name for it in facts.missing if now < it.lingers_until])
    message = f"{_known(facts)}, and is kept because containers of {left} may still run"
    rejects = tuple(it for it in actions if isinstance(it, Reject))
    words: tuple[Action, ...] = rejects or tuple(
        Tell(pod, Reason.SLURM_PENDING, message)
        for pod in facts.pods
        if pod.stage is PodStage.WAITING
    )
    return (*words, Again(facts.linger_look(now)))


def _known(facts: UnitFacts) -> str:
    """What is known of the job, as the beginning of a sentence."""
    match facts.job:
        case NoJob():
            return "No Slurm job is known for the pod"
        case InDoubt():
            return "The pod's Slurm job is being searched for"
        case Vanished(job_id=job_id):
            return f"Slurm no longer knows job {job_id}"
        case Tracked(job_id=job_id, state=state):
            return f"Slurm job {job_id} is {state}"
        case _:
            assert_never(facts.job)
