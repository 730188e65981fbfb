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
from scheduler.core.tenure import FIRST_TRIES, MOST_TRIES, SHORT
from scheduler.core.twins import behind_twin
from slurmapi.model import Job, SlurmNode

PINNED_SECONDS: Final = 30.0
"""For how long a job that is pinned to its pod's node may wait before we ask who holds that node.
Slurm looks through its queue at least that often (bf_interval). A pod for which no job can be
submitted is given as long.
"""
RESOURCES_SECONDS: Final = 120.0
"""For how long Slurm must have said without a break that resources are missing, if the node's
record does not show which (cores of a socket, or a whole node).
"""
WEIGHED_SECONDS: Final = 10.0
"""The greatest age of the records of the node and of the job for these decisions."""
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
    completing: bool = False,
) -> tuple[Action, ...]:
    """The pod is healthy but has no job: submit one for the very node that it runs on, and for what
    is left of its time. If several pods run, the job is for the nodes of all.

    While the former job is `completing`, Slurm still holds the node for it: no other job can start
    there. A new one would only wait behind it, and what it holds would look like another's.
    """
    if facts.unjudged:
        return (Again(SLOW_LOOK_SECONDS),)
    if facts.tenure.is_over(facts.epoch):
        return _gives_up(facts, bound, Reason.TIME_LIMIT, f"{why}, and the pod's time is over")
    if completing:
        return (Again(SLOW_LOOK_SECONDS),)  # the pulse shows when that ends
    if not isinstance(facts.request, JobRequest) or not _was_accepted(facts, facts.request):
        return (_not_asked_for(facts, why), *_without_a_job(facts, bound, now, why=why))
    # A pause follows a submit that has failed or did not help, so the next one may fail too.
    watch = _without_a_job(facts, bound, now, why=why) if facts.submit_at else ()
    if any(isinstance(it, Evict) for it in watch):
        return watch
    if now < facts.submit_at:
        return (*watch, Again(facts.submit_at - now))
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
        until=int(facts.tenure.end or 0),
        tries=facts.tenure.tries + 1,
        grace_seconds=facts.grace_seconds,
    )
    return (submit, *watch, Again(SLOW_LOOK_SECONDS))


def still_waits(
    facts: UnitFacts, bound: tuple[PodFacts, ...], record: Job, now: float
) -> tuple[Action, ...]:
    """The pinned job that replaces a lost one waits in Slurm's queue. Slurm does not refuse it
    because of another job on that node, so that job and the pod would compute there without end.

    If it waits for an earlier job of its own name, that one may be a former job of the pod that was
    requeued. It must be found before Slurm starts it on another node.
    """
    twins = (LookForTwins(),) if behind_twin(facts, record) else ()
    return (*twins, *_until_it_starts(facts, bound, record, now))


def _until_it_starts(
    facts: UnitFacts, bound: tuple[PodFacts, ...], record: Job, now: float
) -> tuple[Action, ...]:
    since = facts.tenure.pinned_since
    waited = 0.0 if since is None else now - since
    if waited < PINNED_SECONDS:
        return (Again(PINNED_SECONDS - waited),)
    where = f"Slurm job {record.job_id} waits for {bound[0].node}, where the pod runs"
    if answer := _if_taken(facts, bound, now, where=where):
        return answer
    if record.state_reason != SHORT or facts.tenure.short_since is None or facts.tenure.vacant:
        return (Again(PINNED_SECONDS),)
    short = now - facts.tenure.short_since
    if short < RESOURCES_SECONDS:
        return (Again(min(PINNED_SECONDS, RESOURCES_SECONDS - short)),)
    if isinstance(facts.job, Tracked) and now - facts.job.record_at > WEIGHED_SECONDS:
        return (Inspect(facts.job.job_id), Again(SOON_SECONDS))  # perhaps it says otherwise by now
    message = f"{where}, and Slurm has said for {short:.0f} s that resources are missing there"
    return _gives_up(facts, bound, Reason.PLACEHOLDER_LOST, message)


def _without_a_job(
    facts: UnitFacts, bound: tuple[PodFacts, ...], now: float, *, why: str
) -> tuple[Action, ...]:
    """No job waits for the nodes of these pods: none can be submitted, or Slurm has refused it. The
    pods stay as long as no other job has taken what they use.
    """
    since = facts.tenure.weighed_since
    if since is not None and now - since < PINNED_SECONDS:
        return (Again(PINNED_SECONDS - (now - since)),)
    where = f"{why}. Slurm has no new job for {bound[0].node}, where the pod runs"
    return _if_taken(facts, bound, now, where=where) or (Again(PINNED_SECONDS),)


def _if_taken(
    facts: UnitFacts, bound: tuple[PodFacts, ...], now: float, *, where: str
) -> tuple[Action, ...]:
    """Evict the pods if other jobs already compute on what one of them uses; () if none does. First
    look at what decides that, if the last look is too old. `where` begins the message.
    """
    held = _held_in_part(facts)
    nodes = tuple(dict.fromkeys(it.node for it in bound if it.node and it.node not in held))
    if not nodes:
        return ()
    node, at = facts.tenure.node, facts.tenure.node_at
    if node is None:
        return (Weigh(nodes[0]), Again(_AGAIN_SECONDS))
    needs = (needs_of(facts, pod) for pod in bound if pod.node == node.name and node.name in nodes)
    short = next((text for it in needs if it is not None and (text := lacks(node, it))), "")
    if not short and now - at < PINNED_SECONDS:
        return ()  # however often other news brings the pods here
    if now - at > WEIGHED_SECONDS:
        weigh = Weigh(node.name if short else _next_of(nodes, node))
        return (weigh, Again(_AGAIN_SECONDS))
    if isinstance(facts.job, Tracked) and facts.job.record_at <= at:
        # Perhaps our own job has started there.
        return (Inspect(facts.job.job_id), Again(SOON_SECONDS))
    message = f"{where}, but other jobs have taken its resources: {short}"
    evicted = (
        Evict(pod, Reason.PLACEHOLDER_LOST, message, evidence=Evidence.TAKEN) for pod in bound
    )
    return (*evicted, Again(SOON_SECONDS))


def _held_in_part(facts: UnitFacts) -> frozenset[str]:
    """The nodes that the other components of the unit's own job hold, if only one has ended."""
    record = facts.job.record if isinstance(facts.job, Tracked) else None
    if record is None or not record.state.partial:
        return frozenset()
    return frozenset(node for it in record.parts if not it.state.ended for node in it.nodes)


def _next_of(nodes: tuple[str, ...], last: SlurmNode) -> str:
    """The node to be read after `last`: those of a gang take turns."""
    at = nodes.index(last.name) + 1 if last.name in nodes else 0
    return nodes[at % len(nodes)]


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
    return asked if isinstance(asked, JobRequest) else facts.uses.get(pod.uid)


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
