"""The whole story of one pod, put together from what was read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from scheduler.core.event_reasons import MEANINGS, Reason
from scheduler.core.naming import JOB_NODES
from scheduler.core.pending_reasons import Why
from scheduler.kube.clip import clipped
from scheduler.view.asked import AskedFor, asked
from scheduler.view.history import Moment, history
from scheduler.view.peers import Company
from scheduler.view.prospect import Case, Prospect, meaning_of, prospect
from scheduler.view.row import IN_QUEUE, Names, Row, State, row_of
from scheduler.view.seen import Sighting
from scheduler.view.surroundings import NOTHING_SAID, Surroundings

_EXCLUDED: Final = "excluded nodes: "
_ABOUT_NODES: Final = frozenset({Reason.NODE_UNAVAILABLE, Reason.NO_NODE_FITS})
_TELLS_OF_EXCLUDED: Final = frozenset({Reason.PLACEHOLDER_SUBMITTED, Reason.SLURM_REJECTED})
_ENDS: Final = frozenset(it for it, of in MEANINGS.items() if of.condition == "DisruptionTarget")
_MOST_BYTES: Final = 256


@dataclass(frozen=True, slots=True)
class RuledOut:
    """Nodes that the pod cannot use, in the words that stand on the pod or in an Event."""

    at: datetime | None
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """All that is shown. `row` is None for a pod that is gone. `nodes` are the Slurm nodes of its
    job, as the pod names them. `end` is why a pod that is gone was ended, if an Event says so.
    `meaning` explains the reason of either; None if no table knows it. `company` is its gang.
    `surroundings` are what the scheduler's page says. `unread` says what else could not be read.
    """

    seen: Sighting
    row: Row | None
    asked: tuple[AskedFor, ...]
    owner: str
    nodes: str
    end: Moment | None
    meaning: Why | None
    ruled_out: tuple[RuledOut, ...]
    history: tuple[Moment, ...]
    prospect: Prospect
    elsewhere: tuple[str, ...]
    company: Company | None = None
    surroundings: Surroundings | None = None
    unread: tuple[str, ...] = ()


def story(seen: Sighting, names: Names, scheduler: str) -> Story:
    """The story of the pod. `scheduler` is the schedulerName of ours."""
    pod = seen.pod
    row = None if pod is None else row_of(pod, names)
    end = _last_ending(seen) if row is None else None
    reason = row.reason if row is not None else end.what if end is not None else ""
    return Story(
        seen=seen,
        row=row,
        asked=() if pod is None else asked(pod, names),
        owner=_owner(seen),
        nodes=""
        if pod is None
        else clipped(pod.metadata.annotations.get(JOB_NODES, ""), _MOST_BYTES),
        end=end,
        meaning=meaning_of(reason) if reason else None,
        ruled_out=tuple(_ruled_out(seen, row)),
        history=history(seen),
        prospect=prospect(Case(seen, row, names, scheduler)),
        elsewhere=tuple(_elsewhere(row)),
    )


def among(found: Story, surroundings: Surroundings) -> Story:
    """The story with what the scheduler's page says, which need not be looked for elsewhere."""
    return replace(
        found,
        surroundings=surroundings,
        elsewhere=tuple(_elsewhere(found.row, surroundings)),
        unread=(*found.unread, *surroundings.unread),
    )


def _last_ending(seen: Sighting) -> Moment | None:
    """The last Event that says why Slurm ended the pod."""
    found = [it for it in history(seen) if it.what in _ENDS]
    return found[-1] if found else None


def _owner(seen: Sighting) -> str:
    """The pod's controller and the one above it; "" if there is none, or if the pod is gone."""
    if seen.owner is None:
        return ""
    above = () if seen.controller is None else seen.controller.owner_references
    of = [f" of {it.kind} {it.name}" for it in above if it.controller]
    return f"{seen.owner.kind} {seen.owner.name}{''.join(of)}"


def _ruled_out(seen: Sighting, row: Row | None) -> Iterator[RuledOut]:
    """What is said about Nodes: by the last Event of each reason, and by the condition now."""
    last: dict[str, RuledOut] = {}
    for it in history(seen):
        if it.writer and it.what in _ABOUT_NODES:
            last[it.what] = RuledOut(it.last or it.at, it.message)
        elif it.writer and it.what in _TELLS_OF_EXCLUDED and _EXCLUDED in it.message:
            last[_EXCLUDED] = RuledOut(it.at, _EXCLUDED + it.message.partition(_EXCLUDED)[2])
    if row is not None and row.reason in _ABOUT_NODES:
        last[row.reason] = RuledOut(None, row.message)
    yield from last.values()


def _elsewhere(row: Row | None, page: Surroundings = NOTHING_SAID) -> Iterator[str]:
    """What neither the pod nor the page shows, and who knows it."""
    if row is None:
        yield "How the job ended, and who ended it: Slurm, by `sacct -o JobID,JobName,State,End`."
        return
    if row.state is State.PENDING and row.job is not None:
        if page.place is None:
            yield (
                "The job's place in the queue, and which jobs stand before it: the scheduler's "
                "page (--page-url), among its own jobs; or Slurm, by `squeue -t PD --sort=-p`."
            )
        else:
            yield "Which jobs of Slurm's own stand before it: Slurm, by `squeue -t PD --sort=-p`."
        if page.partition is None:
            yield (
                "What is free now, and the largest node: the scheduler's page (--page-url), or "
                "Slurm, by `sinfo -N -o '%N %t %C %e %G'`."
            )
        yield (
            "All nodes that the job must not get: Slurm, by "
            f"`scontrol show job {row.job}` (ExcNodeList)."
        )
    elif row.job is not None and row.state in IN_QUEUE:
        yield f"Which CPUs and devices Slurm counts for the job: `scontrol show job -d {row.job}`."
    yield (
        "Which rules of a policy apply: the scheduler. Only a rule that has changed or refused "
        "something is named on the pod (PolicyApplied, SchedulingFailed)."
    )
