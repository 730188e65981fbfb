"""What is to be said on the PodGroup of a gang, beside what its pods say. Pure.

The words depend on the facts of a pass and not on its actions, so a bind is reported only when the
pods are bound. How often: `group_said.py`.
"""

from __future__ import annotations

from typing import Final

from scheduler.core.actions import (
    Action,
    Again,
    Cancel,
    DropJob,
    Forget,
    ReadGang,
    Reject,
    Tell,
    TellGroup,
)
from scheduler.core.event_reasons import Reason
from scheduler.core.facts import GangFacts, PodStage, Tracked, UnitFacts
from scheduler.core.group_said import GroupSaid, GroupStanding, GroupWord

# No watch wakes a gang when its containers have started, because nothing else depends on that.
_LOOK_SECONDS: Final = 15.0
_WAITS: Final = frozenset({PodStage.WAITING, PodStage.GATED})


def with_group_word(
    facts: UnitFacts, gang: GangFacts, actions: tuple[Action, ...], now: float
) -> tuple[Action, ...]:
    """These actions, and the word for the gang's PodGroup. The word comes last, so that it delays
    nothing else. But it comes before a Forget, because afterwards the gang is not known any more.
    """
    said = gang.said
    if said is None or said.others:
        return actions
    if gang.unread and _runs_in_own_job(facts):
        return (*actions, ReadGang())  # a former process may have ended before it said so
    word = _word(facts, gang, actions, by_phase=said.by_phase)
    if word is None:
        return actions
    due = said.due(word)
    if due is None:
        return (*actions, *_until_it_runs(said, word))
    if Forget() in actions:
        return (TellGroup(word), *actions)
    if now < due:
        return (*actions, Again(due - now))
    return (*actions, TellGroup(word), *_until_it_runs(said, word))


def _runs_in_own_job(facts: UnitFacts) -> bool:
    record = facts.job.record if isinstance(facts.job, Tracked) else None
    return facts.any_runs and record is not None and facts.owns(record)


def _until_it_runs(said: GroupSaid, word: GroupWord) -> tuple[Action, ...]:
    placed = said.by_phase and word.standing is GroupStanding.PLACED
    return (Again(_LOOK_SECONDS),) if placed else ()


def _word(
    facts: UnitFacts, gang: GangFacts, actions: tuple[Action, ...], *, by_phase: bool
) -> GroupWord | None:
    """What there is to say; None while the gang is on its way from one standing to the next."""
    if gang.size is None or gang.unread or gang.absent_since is not None:
        return None
    job_id = facts.job.job_id if isinstance(facts.job, Tracked) else 0
    if facts.any_runs:
        return _of_running(facts, gang.size, job_id, by_phase=by_phase)
    if any(pod.stage in _WAITS for pod in facts.pods):
        return _of_waiting(actions, job_id)
    if any(isinstance(it, Cancel | DropJob | Forget) for it in actions):
        return _of_ended(facts, gang.size, job_id)
    return None


def _of_running(facts: UnitFacts, size: int, job_id: int, *, by_phase: bool) -> GroupWord | None:
    placed = [pod for pod in facts.pods if pod.succeeded or pod.stage is PodStage.BOUND]
    if len(placed) < size:
        return None
    if by_phase and sum(pod.succeeded or pod.started for pod in placed) >= size:
        return GroupWord(GroupStanding.RUNS, job_id)
    message = f"{size} pods have a Node"
    if job_id:
        message = f"{message}, which Slurm job {job_id} holds for them"
    return GroupWord(GroupStanding.PLACED, job_id, message=message)


def _of_waiting(actions: tuple[Action, ...], job_id: int) -> GroupWord | None:
    """The message of the first pod for which there is one."""
    for action in actions:
        if isinstance(action, Tell):
            cause = action.cause or action.reason
            return GroupWord(GroupStanding.WAITS, job_id, cause, action.message)
        if isinstance(action, Reject):
            problem = action.problems[0].text if action.problems else ""
            message = f"Pod {action.pod.name} cannot be served: {problem}"
            return GroupWord(GroupStanding.WAITS, job_id, Reason.SCHEDULING_FAILED, message)
    return None


def _of_ended(facts: UnitFacts, size: int, job_id: int) -> GroupWord | None:
    if sum(pod.succeeded for pod in facts.pods) >= size:
        return GroupWord(GroupStanding.SUCCEEDED, job_id)
    if any(pod.stage is PodStage.FINISHED and not pod.succeeded for pod in facts.pods):
        return GroupWord(GroupStanding.FAILED, job_id)
    return None
