"""What slurmctld's log adds to lives that are known by polls.

A poll comes seconds late where Slurm is busy, and what began and ended between two of them is in no
record. The log has it to the millisecond, but names jobs by ids alone, which come again, and has no
line for some ends (a crash of slurmctld above all). So a line says when something was that the
polls saw, or that there was something which they did not see.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from tests.audit.history import NEVER, Evidence, JobLife, Run, Sign, Span, When
from tests.audit.records import JobNoted

# A job whose pod goes at once may be suspended for less time than there is between two polls.
_SIGNS: Final = {"requeued": Sign.REQUEUED, "suspended": Sign.SUSPENDED}


def with_notes(life: JobLife, notes: Iterable[JobNoted]) -> JobLife:
    """The life of a job, told better; `notes` are of its id, and of its time."""
    mine = sorted(notes, key=lambda it: it.when.latest)
    ends = [it.when for it in mine if it.what in {"ended", "requeued"}]
    ready = [it.when for it in mine if it.what == "ready"]
    starts = [it for it in mine if it.what == "started"]
    runs = []
    for run in life.runs:
        began = next((it for it in reversed(starts) if _meet(it.when, run.span.start)), None)
        if began is not None:
            starts.remove(began)
        sharper = _sharper(run, began, ends, ready)
        if began is not None and began.nodes > run.nodes:
            runs.append(_with_all_nodes(sharper, began))
        runs += _larger(sharper, mine)
        runs.append(sharper)
    runs += [_unseen(life, it, ends) for it in starts]
    return replace(
        life,
        # Not every start has a line: sched/backfill of 26.05.5 writes none.
        unseen=tuple(it for it in ready if not any(_is_of(it, run.span) for run in runs)),
        runs=tuple(sorted(runs, key=lambda it: it.span.start)),
        ended=_narrowed(life.ended, ends),
        evidence=(*life.evidence, *_evidence(mine)),
    )


def _sharper(run: Run, began: JobNoted | None, ends: Sequence[When], ready: Sequence[When]) -> Run:
    start = run.span.start if began is None else run.span.start.within(began.when)
    end = _narrowed(run.span.end, [it for it in ends if start.maybe_before(it)])
    return replace(run, span=Span(start, end), ready=_narrowed(run.ready, ready))


def _with_all_nodes(run: Run, began: JobNoted) -> Run:
    """The run up to the unknown moment at which the job gave nodes back, before any poll."""
    start = run.span.start
    end = When(start.earliest, max(start.latest, run.span.end.latest))
    return replace(run, span=Span(start, end), nodes=began.nodes)


def _larger(run: Run, notes: Iterable[JobNoted]) -> Iterator[Run]:
    """The run with nodes that the job gave back before a poll saw it with them."""
    for it in notes:
        if it.what == "smaller" and _is_of(it.when, run.span):
            yield replace(run, span=Span(run.span.start, it.when), nodes=run.nodes | it.nodes)


def _unseen(life: JobLife, began: JobNoted, ends: Sequence[When]) -> Run:
    """A start that belongs to no run that was seen is one of another, up to the next end."""
    end = next((it for it in ends if began.when.maybe_before(it)), life.ended)
    ready = When(began.when.earliest, max(began.when.latest, end.latest))
    return Run(Span(began.when, end), began.nodes, ready)


def _is_of(ready: When, span: Span) -> bool:
    return span.start.maybe_before(ready) and ready.maybe_before(span.end)


def _narrowed(known: When, noted: Iterable[When]) -> When:
    """What is known, by the one line that can tell of it; where several can, none does."""
    fit = [it for it in noted if _meet(it, known)]
    return known.within(fit[0]) if known != NEVER and len(fit) == 1 else known


def _meet(one: When, other: When) -> bool:
    return one.maybe_before(other) and other.maybe_before(one)


def _evidence(notes: Iterable[JobNoted]) -> Iterator[Evidence]:
    return (Evidence(it.when, _SIGNS[it.what]) for it in notes if it.what in _SIGNS)
