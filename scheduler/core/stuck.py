"""A pod of a gang cannot be bound to its slot, while others of the gang run.

What follows is a setting (`gang-lost-slot`), or an annotation of the pods that cannot be bound.
With `wait` the pod waits and says why. With `release` all pods of the gang end, and one job is
submitted anew when their controllers have created them again. Nothing is released before the cause
has lasted for a minute, unless the cause can never go away. A pod waits in any case while another
one may still run in its slot.
"""

from __future__ import annotations

from typing import Final

from annotations import PREFIX, JobRequest, LostSlot
from scheduler.core.actions import Action, Again, Evict, Tell
from scheduler.core.event_reasons import Reason
from scheduler.core.evidence import Evidence
from scheduler.core.facts import PodFacts, PodStage, UnitFacts
from scheduler.core.incomplete import a_few
from scheduler.core.intervals import (
    LINGER_LOOK_SECONDS,
    SLOW_LOOK_SECONDS,
    SOON_SECONDS,
    UNFIT_SECONDS,
)
from scheduler.core.refused_bind import RefusedBind
from scheduler.core.seating import Seating
from scheduler.core.tagged import TaggedJob
from scheduler.core.unfit_node import is_waited_for, until_it_suits

_MOST_NAMED: Final = 3
_KEY: Final = f"{PREFIX}gang-lost-slot"
_SETTING: Final = "--gang-lost-slot"
LOOK_SECONDS: Final = 5.0
"""How often a cause that has lasted for a minute is checked again. After the cause has gone, the
pod may be bound this much later.
"""


def without_slot(
    facts: UnitFacts, pods: tuple[PodFacts, ...], record: TaggedJob, seated: Seating
) -> tuple[Action, ...]:
    """For pods for which the job has no node any more: it never gets another one."""
    left = tuple(it for it in pods if it.uid not in seated.taken)
    stuck = tuple(it for it in left if it.rank in seated.gone)
    why = (
        f"Slurm job {record.job_id} has no node for {_named(stuck)} any more, and a running job "
        "gets no other"
    )
    if stuck:
        return _stuck(facts, stuck, Reason.GANG_SLOT_LOST, why, SLOW_LOOK_SECONDS)
    return _unlike(facts, left, record, seated)


def while_others_run(
    facts: UnitFacts, pods: tuple[PodFacts, ...], record: TaggedJob, seated: Seating, now: float
) -> tuple[Action, ...]:
    """For pods in whose slots others may still run that have vanished, or that belong to another
    unit now: they wait until those have stopped.
    """
    waits = tuple(it for it in pods if it.uid in seated.haunted)
    if not waits:
        return ()
    ranks = {it.rank for it in waits}
    left = [it for it in facts.missing if it.rank in ranks and now < it.lingers_until]
    message = (
        f"Slurm job {record.job_id} is allocated, but containers of "
        f"{a_few([it.name for it in left])} may still run in this pod's place"
    )
    again = min(min(it.lingers_until for it in left) - now, LINGER_LOOK_SECONDS)
    return (*(Tell(it, Reason.SLURM_PENDING, message) for it in waits), Again(again))


def _unlike(
    facts: UnitFacts, left: tuple[PodFacts, ...], record: TaggedJob, seated: Seating
) -> tuple[Action, ...]:
    """For pods that came again with other resources than their slots have."""
    stuck = tuple(it for it in left if it.uid in seated.unlike)
    if not stuck:
        return ()
    asks = "; ".join(f"rank {it.rank} ({it.name}) asks for {it.size}" for it in stuck[:_MOST_NAMED])
    why = (
        f"In Slurm job {record.job_id}, {asks}, and its slot has other resources, which a running "
        "job cannot change"
    )
    reason, evidence = Reason.GANG_SLOT_LOST, Evidence.AUTHOR
    return _stuck(facts, stuck, reason, why, SLOW_LOOK_SECONDS, evidence=evidence)


def on_unfit_node(
    facts: UnitFacts,
    pods: tuple[PodFacts, ...],
    record: TaggedJob,
    complaints: dict[str, str],
    now: float,
) -> tuple[Action, ...]:
    """For pods whose Node does not suit them, with a complaint about each node."""
    what = "; ".join(complaints.values())
    if is_waited_for(facts, now):
        return until_it_suits(pods, record.job_id, what)
    why = f"Slurm job {record.job_id} is allocated, but {what}"
    return _stuck(facts, pods, Reason.NODE_UNAVAILABLE, why, LOOK_SECONDS)


def not_to_be_bound(
    facts: UnitFacts, pods: tuple[PodFacts, ...], refused: RefusedBind, pause: float, now: float
) -> tuple[Action, ...]:
    """For pods that the API server refuses to bind. They are tried again after `pause`."""
    why = f"The API server refuses to bind the pod: {refused.why}. The scheduler tries again"
    if now - refused.since < UNFIT_SECONDS:
        return (*(Tell(pod, Reason.BIND_REFUSED, why) for pod in pods), Again(pause))
    return _stuck(facts, pods, Reason.BIND_REFUSED, why, pause)


def releases(actions: tuple[Action, ...]) -> bool:
    """Whether all pods of the gang are to end."""
    return any(isinstance(it, Evict) for it in actions)


def _stuck(
    facts: UnitFacts,
    pods: tuple[PodFacts, ...],
    reason: Reason,
    why: str,
    again: float,
    *,
    evidence: Evidence = Evidence.RECORD,
) -> tuple[Action, ...]:
    gang = facts.gang
    rule, because = _rule(facts)
    if gang is None or rule == "wait":
        message = (
            f"{why}. The pod waits, because other pods of its gang run ({because}). To have one "
            "job submitted anew for all of them, delete the pods of the gang, or annotate those "
            f"that wait with {_KEY}=release, or set {_SETTING}=release"
        )
        return (*(Tell(pod, reason, message) for pod in pods), Again(again))
    message = (
        f"{why}. All pods of gang {gang.name} end ({because}), and one job is "
        "submitted anew for those that come in their place"
    )
    bound = (it for it in facts.pods if it.stage is PodStage.BOUND and it.placed_by_us)
    return (
        *(Tell(pod, reason, message) for pod in pods),
        *(Evict(pod, Reason.GANG_RELEASED, message, evidence=evidence) for pod in bound),
        Again(SOON_SECONDS),
    )


def _rule(facts: UnitFacts) -> tuple[LostSlot, str]:
    """What is done, and what says so. The request is that of the pods that wait."""
    gang = facts.gang
    if not isinstance(facts.request, JobRequest):
        what = "".join(it.text for it in facts.request[:1])
        return "wait", f"no pod is released, because the waiting pods cannot be served: {what}"
    if gang is None:
        return "wait", f"{_SETTING} is wait"
    return gang.on_lost_slot, f"{gang.lost_slot_by} is {gang.on_lost_slot}"


def _named(pods: tuple[PodFacts, ...]) -> str:
    more = len(pods) - _MOST_NAMED
    return ", ".join(f"rank {it.rank} ({it.name})" for it in pods[:_MOST_NAMED]) + (
        f" and {more} more" if more > 0 else ""
    )
