"""A running pod has no job that holds its node: a new job is submitted, or the pod is evicted.

`running.py` decides that the job is lost; `doubt.py` says how many answers prove it. A pod that
still waits just loses the job's id and gets a new job: `waiting.py` (`Vanished`). A job that was
submitted and never recorded is found by `slurm/census.py`.
"""

from __future__ import annotations

from typing import Final

from annotations import JobRequest, Problem
from scheduler.core.actions import (
    Action,
    Again,
    Evict,
    Inspect,
    Locate,
    LookForTwins,
    Submit,
    Warn,
    Weigh,
)
from scheduler.core.edits import asks_the_same
from scheduler.core.event_reasons import Reason
from scheduler.core.evidence import Evidence
from scheduler.core.facts import RUNS, PodFacts, Tracked, UnitFacts
from scheduler.core.gang import most_on_one_node, seats_running, shapes_running
from scheduler.core.intervals import SLOW_LOOK_SECONDS, SOON_SECONDS
from scheduler.core.taken_resources import lacks
from scheduler.core.tenure import FIRST_TRIES, MOST_TRIES
from scheduler.core.twins import behind_twin
from slurmapi.model import Job

PINNED_SECONDS: Final = 30.0
"""For how long a job that is pinned to its pod's node may wait before we ask who holds that node.
Slurm looks through its queue at least that often (bf_interval).
"""
RESOURCES_SECONDS: Final = 120.0
"""The same if Slurm says that resources are missing but the node's record does not show which
(cores of a socket, or a whole node).
"""
WEIGHED_SECONDS: Final = 10.0
"""The greatest age of the node's record for this decision."""
_AGAIN_SECONDS: Final = 5.0
_REFUSED_NOW: Final = "The policy would refuse the pod now"


def regain(
    facts: UnitFacts,
    bound: tuple[PodFacts, ...],
    now: float,
    *,
    why: str,
    replaces: int | None = None,
    lost_by_slurm: bool = False,
) -> tuple[Action, ...]:
    """The pod is healthy but has no job: submit one for the very node that it runs on, and for what
    is left of its time. If several pods run, the job is for the nodes of all.
    """
    if facts.unjudged:
        return (Again(SLOW_LOOK_SECONDS),)
    if facts.tenure.is_over(facts.epoch):
        return _gives_up(facts, bound, Reason.TIME_LIMIT, f"{why}, and the pod's time is over")
    if not isinstance(facts.request, JobRequest) or not _was_accepted(facts, facts.request):
        return (_not_asked_for(facts, why), Again(SLOW_LOOK_SECONDS))
    if now < facts.submit_at:
        return (Again(facts.submit_at - now),)
    if facts.unlisted:
        return (Locate(), Again(0.0))
    nodes = _nodes_of(facts)
    if not nodes:
        return (Again(SLOW_LOOK_SECONDS),)  # a job on another node would be of no use to it
    if facts.tenure.tries >= MOST_TRIES:
        message = f"{why}, and {MOST_TRIES} new jobs for {', '.join(nodes)} did not help"
        return _gives_up(facts, bound, Reason.PLACEHOLDER_LOST, message)
    if facts.refused:
        refused = f"{_REFUSED_NOW} ({_texts(facts.refused)})"
        why = f"{why}. {refused}, and the new job asks for the same as before"
    shapes = shapes_running(facts)
    submit = Submit(
        shapes[0].size.applied(facts.request) if shapes else facts.request,
        tuple(seat for shape in shapes for seat in shape.seats) or seats_running(facts),
        per_node=1 if shapes else most_on_one_node(facts),
        shapes=shapes,
        nodes=nodes,
        # Priority is only for pods that Slurm itself has placed and lost. Neither an author's
        # annotation nor a job that ended normally earns it.
        first=facts.bound_by_us and lost_by_slurm and facts.tenure.tries < FIRST_TRIES,
        why=why,
        replaces=replaces,
        minutes=facts.tenure.minutes(facts.epoch),
        until=int(facts.tenure.until or 0),
        tries=facts.tenure.tries + 1,
        grace_seconds=facts.grace_seconds,
    )
    return (submit, Again(SLOW_LOOK_SECONDS))


def still_waits(
    facts: UnitFacts, bound: tuple[PodFacts, ...], job: Tracked, record: Job, now: float
) -> tuple[Action, ...]:
    """The pinned job that replaces a lost one waits in Slurm's queue. Slurm never refuses a pinned
    job, so if another job holds the node, both would compute there without end.

    If it waits for an earlier job of its own name, that one may be a former job of the pod that was
    requeued. It must be found before Slurm starts it on another node.
    """
    twins = (LookForTwins(),) if behind_twin(facts, record) else ()
    return (*twins, *_until_it_starts(facts, bound, job, record, now))


def _until_it_starts(
    facts: UnitFacts, bound: tuple[PodFacts, ...], job: Tracked, record: Job, now: float
) -> tuple[Action, ...]:
    tenure, request = facts.tenure, facts.asked_by(bound[0])
    waited = 0.0 if tenure.pinned_since is None else now - tenure.pinned_since
    if waited < PINNED_SECONDS:
        return (Again(PINNED_SECONDS - waited),)
    if tenure.node is None or now - tenure.node_at > WEIGHED_SECONDS:
        return (Weigh(bound[0].node), Again(_AGAIN_SECONDS))
    short = lacks(tenure.node, request) if isinstance(request, JobRequest) else ""
    if short and job.record_at <= tenure.node_at:
        return (
            Inspect(record.job_id),
            Again(SOON_SECONDS),
        )  # perhaps our own job has started there
    where = f"Slurm job {record.job_id} waits for {bound[0].node}, where the pod runs"
    if short:
        message = f"{where}, but other jobs have taken its resources: {short}"
        evicted = (
            Evict(pod, Reason.PLACEHOLDER_LOST, message, evidence=Evidence.TAKEN) for pod in bound
        )
        return (*evicted, Again(SOON_SECONDS))
    if record.state_reason == "Resources" and waited >= RESOURCES_SECONDS:
        message = f"{where}, and Slurm has said for {waited:.0f} s that resources are missing there"
        return _gives_up(facts, bound, Reason.PLACEHOLDER_LOST, message)
    return (Again(PINNED_SECONDS),)


def _nodes_of(facts: UnitFacts) -> tuple[str, ...]:
    """The nodes of all pods that may run, by rank; () if one is not known."""
    running = sorted((it for it in facts.pods if it.stage in RUNS), key=lambda it: it.rank)
    nodes = tuple(dict.fromkeys(it.node for it in running))
    return nodes if all(nodes) else ()


def _gives_up(
    facts: UnitFacts, bound: tuple[PodFacts, ...], reason: Reason, message: str
) -> tuple[Action, ...]:
    """Evict the pods. No record shows another job there, so this is weak evidence and the brake may
    delay it.
    """
    evicted = (
        Evict(pod, reason, message, evidence=Evidence.ABSENCE, needs=needs_of(facts, pod))
        for pod in bound
    )
    return (*evicted, Again(SOON_SECONDS))


def needs_of(facts: UnitFacts, pod: PodFacts) -> JobRequest | None:
    """What the pod uses on its node; None if that cannot be read."""
    asked = facts.asked_by(pod)
    return asked if isinstance(asked, JobRequest) else None


def _was_accepted(facts: UnitFacts, request: JobRequest) -> bool:
    """Whether the request was accepted before. A policy applies when a job is submitted, and a
    running pod keeps what was accepted then. But its annotations can be edited. So a request that
    the policy refuses now must equal that of the lost job, by its tag, which only administrators
    can write.
    """
    return not facts.refused or asks_the_same(facts.accepted, request)


def _not_asked_for(facts: UnitFacts, why: str) -> Action:
    problems = facts.refused if isinstance(facts.request, JobRequest) else facts.request
    message = (
        f"The pod runs without a Slurm job: {why}. No new job is submitted: {_texts(problems)}"
    )
    return Warn(Reason.PLACEHOLDER_LOST, message)


def _texts(problems: tuple[Problem, ...]) -> str:
    return "; ".join(problem.text for problem in problems)
