"""Pods of a PodGroup beyond those that start together (`minCount`, `minMember`).

That many pods of the group are its gang; `gang_ranks.py` says which. The others wait until the gang
runs. Then each of them gets a job of its own and is served alone to its end, whatever becomes of
the gang. Until then it may still take the place of a pod that leaves the gang.
"""

from __future__ import annotations

from scheduler.core.actions import Action, Again, DropJob, Forget, ServeBeside, Tell
from scheduler.core.event_reasons import Reason
from scheduler.core.facts import PodFacts, PodStage, Tracked, UnitFacts, Vanished
from scheduler.core.intervals import SOON_SECONDS
from slurmapi.model import BaseState


def with_spare(facts: UnitFacts, actions: tuple[Action, ...]) -> tuple[Action, ...]:
    """These actions for the gang, and what follows for the pods that it can do without."""
    kept = tuple(it for action in actions for it in _group_kept(facts, action))
    waiting = tuple(pod for pod in facts.spare if pod.stage is PodStage.WAITING)
    if not waiting:
        return kept
    if _gang_runs(facts):
        return (*kept, ServeBeside(waiting))
    return (*kept, *_told(facts, waiting))


def _group_kept(facts: UnitFacts, action: Action) -> tuple[Action, ...]:
    """Nothing is left of the gang, but the other pods of the group may be the next one."""
    if not isinstance(action, Forget):
        return (action,)
    if isinstance(facts.job, Tracked | Vanished):
        return (DropJob(facts.job.job_id, "the gang has ended"), Again(0.0))
    return (Again(SOON_SECONDS),)


def _gang_runs(facts: UnitFacts) -> bool:
    """Whether the gang has started: its own job holds nodes, and pods of it are bound."""
    record = facts.job.record if isinstance(facts.job, Tracked) else None
    if record is None or record.state.base is not BaseState.RUNNING or not facts.owns(record):
        return False
    return any(pod.stage is PodStage.BOUND for pod in facts.pods)


def _told(facts: UnitFacts, pods: tuple[PodFacts, ...]) -> tuple[Tell, ...]:
    gang = facts.gang
    if gang is None:
        return ()
    message = (
        f"Gang {gang.name} has its {gang.size} pods without this one, which gets a Slurm job of "
        "its own as soon as the gang runs"
    )
    return tuple(Tell(pod, Reason.WAITS_FOR_GANG, message) for pod in pods)
