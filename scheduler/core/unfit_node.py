"""The Node of an allocation does not suit its pod, as when it is cordoned: how long the scheduler
waits, and what the pod shows.

Whether a Node suits, and whether that may pass: `node_suitability.py`. The minute itself is
UNFIT_SECONDS in `intervals.py`. When it is over, the job is given back by `waiting.py` (`_unfit`);
if other pods of the gang run, `stuck.py` decides.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.core.actions import Action, Again, Tell
from scheduler.core.event_reasons import Reason
from scheduler.core.facts import PodFacts, UnitFacts
from scheduler.core.intervals import SOON_SECONDS, UNFIT_SECONDS
from scheduler.core.node_suitability import Place


def is_waited_for(facts: UnitFacts, now: float) -> bool:
    """Whether to keep waiting until the Node suits. The time begins when the first message about it
    is written (`execute/tell.py`).
    """
    return facts.unfit_since is None or now - facts.unfit_since < UNFIT_SECONDS


def until_it_suits(pods: Iterable[PodFacts], job_id: int, what: str) -> tuple[Action, ...]:
    """Tell the pods what is wrong, and look again soon."""
    message = f"{what}: the pod is bound once that changes"
    return (*unavailable(pods, job_id, message), Again(SOON_SECONDS))


def unavailable(pods: Iterable[PodFacts], job_id: int, rest: str) -> tuple[Action, ...]:
    """Tell the pods why their allocation is of no use to them."""
    message = f"Slurm job {job_id} is allocated, but {rest}"
    return tuple(Tell(pod, Reason.NODE_UNAVAILABLE, message) for pod in pods)


def complaint(node: str, place: Place) -> str:
    """The Node, its Slurm node if the names differ, and the complaint. Without a Node, the Slurm
    node.
    """
    if not place.target:
        return f"Slurm node {node} {place.unfit}"
    behind = "" if place.target == node else f" (Slurm node {node})"
    return f"Kubernetes Node {place.target}{behind} {place.unfit}"
