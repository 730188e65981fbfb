"""Lives of jobs, from their records over time and from what was asked of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, Literal

import msgspec

from tests.audit.history import (
    LOST,
    NEVER,
    By,
    Evidence,
    JobLife,
    Owner,
    Run,
    Sign,
    Span,
    Stray,
    Touch,
    When,
)
from tests.audit.noted import with_notes
from tests.audit.records import JobAsked, JobMissing, JobNoted, JobSeen, Records

_HOLDS: Final = frozenset({"RUNNING", "SUSPENDED"})
_LIVE: Final = _HOLDS | {"PENDING"}
_KILLED: Final = _LIVE | {"CANCELLED", LOST}


class _Part(msgspec.Struct, frozen=True):
    per_node: int = 1


class _Tag(msgspec.Struct, frozen=True):
    """The fields of an owner tag that count here; read without the scheduler's own code."""

    v: Literal[1, 2]
    cluster: str
    scheduler: str
    namespace: str
    uids: tuple[str, ...]
    ranks: tuple[int, ...] = ()
    per_node: int = 1
    parts: tuple[_Part, ...] = ()

    @property
    def most_on_a_node(self) -> int:
        """How many pods a node takes at most, where Slurm has not packed them."""
        return max([self.per_node, *(it.per_node for it in self.parts)])

    @property
    def packed(self) -> bool:
        """Whether Slurm chooses how many pods a node takes."""
        return not all([self.per_node, *(it.per_node for it in self.parts)])


_decode = msgspec.json.Decoder(_Tag).decode


def job_lives(records: Records) -> Iterator[JobLife]:
    """One life for each job that was seen, even if several had the same id."""
    by_id: dict[int, list[JobSeen | JobMissing]] = defaultdict(list)
    for it in sorted(records.jobs, key=lambda it: it.when.latest):
        by_id[it.job_id].append(it)
    asked: dict[int, list[JobAsked]] = defaultdict(list)
    for request in records.jobs_asked:
        asked[request.job_id].append(request)
    notes: dict[int, list[JobNoted]] = defaultdict(list)
    for note in records.jobs_noted:
        notes[note.job_id].append(note)
    for job_id, seen in by_id.items():
        yield from _touched(list(_noted(list(_told_apart(seen)), notes[job_id])), asked[job_id])


def strays(records: Records, lives: Iterable[JobLife]) -> Iterator[Stray]:
    """Logged starts that fit no life, or more than one. Not every start is logged."""
    by_id: dict[int, list[JobLife]] = defaultdict(list)
    for life in lives:
        by_id[life.job_id].append(life)
    for it in records.jobs_noted:
        began = it.what in {"started", "ready"}
        if began and len(_there(by_id[it.job_id], it.when)) != 1:
            yield Stray(it.when, it.nodes)


def _told_apart(seen: Iterable[JobSeen | JobMissing]) -> Iterator[JobLife]:
    """The jobs that had the same id, one after the other."""
    life: _Life | None = None
    for it in seen:
        if life is not None and (isinstance(it, JobMissing) or it.key != life.last.key):
            yield life.lost(it.when)
            life = None
        if isinstance(it, JobSeen):
            if life is None:
                life = _Life(it)
                life.note_former_runs(it)
            life.see(it)
    if life is not None:
        yield life.finished()


@dataclass(slots=True)
class _Life:
    """A job up to now; `since`, `nodes` and `ready` describe its present run."""

    last: JobSeen
    runs: list[Run] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)
    ended: When = NEVER
    since: When | None = None
    nodes: frozenset[str] = frozenset()
    ready: When | None = None
    began: bool = False
    uids: set[str] = field(default_factory=set)
    tasks: dict[str, int] = field(default_factory=dict)

    def note_former_runs(self, it: JobSeen) -> None:
        """Note runs that ended with a requeue before anybody looked."""
        if it.restarts:
            when = When(it.submitted.earliest, max(it.submitted.earliest, it.when.latest))
            self.evidence.append(Evidence(when, Sign.REQUEUED))

    def see(self, it: JobSeen) -> None:
        before = self.last
        self.last = it
        named = _tag(it.admin_comment)
        # A pod of a gang that comes again takes the place of the former one in the tag.
        self.uids.update(() if named is None else filter(None, named.uids))
        self.tasks.update(it.tasks)
        if self.ended != NEVER and it.state in _LIVE:
            self.evidence.append(Evidence(self.ended, Sign.FORGOTTEN_END))
            self.ended, self.began = NEVER, False
        requeued = it.restarts > before.restarts
        if requeued:
            self.evidence.append(Evidence(it.when, Sign.REQUEUED))
        if self.since is not None and (requeued or it.state not in _HOLDS):
            self._close(it.when if requeued or it.end is None else it.when.within(it.end))
        if it.state in _HOLDS:
            self._hold(it)
        self._note_signs(it)
        if it.state not in _LIVE and self.ended == NEVER:
            self._end(it, before)

    def lost(self, when: When) -> JobLife:
        """Note that the job is forgotten: its id belongs to another job, or to none."""
        if self.ended == NEVER:
            self.ended, self.last = when, replace(self.last, state=LOST)
        return self.finished()

    def finished(self) -> JobLife:
        if self.since is not None:
            self._close(self.ended)
        tag = _tag(self.last.admin_comment)
        return JobLife(
            job_id=self.last.job_id,
            submitted=self.last.submitted,
            owner=None if tag is None else Owner(tag.cluster, tag.scheduler),
            namespace="" if tag is None else tag.namespace,
            uids=frozenset() if tag is None else frozenset(self.uids),
            slots=0 if tag is None or tag.v == 1 else len(tag.uids),
            per_node=1 if tag is None else tag.most_on_a_node,
            packed=self.tasks if tag is not None and tag.packed else {},
            runs=tuple(self.runs),
            ended=self.ended,
            state=self.last.state,
            evidence=tuple(self.evidence),
        )

    def _hold(self, it: JobSeen) -> None:
        if self.since is None:
            start = it.when if it.start is None else it.when.within(it.start)
            self.since, self.nodes, self.ready, self.began = start, it.nodes, None, True
            if "CONFIGURING" not in it.flags:
                self.ready = When(start.earliest, it.when.latest)
        elif self.ready is None and "CONFIGURING" not in it.flags:
            self.ready = it.when
        if it.nodes < self.nodes and it.nodes:
            # It has lost or given back nodes, and goes on with the others as another run.
            ready = self.ready
            self._close(it.when)
            self.since, self.nodes, self.ready = it.when, it.nodes, ready and it.when

    def _close(self, end: When) -> None:
        assert self.since is not None
        # It may have become ready between two looks, at a moment that nobody saw.
        ready = self.ready or When(self.since.earliest, max(self.since.earliest, end.latest))
        self.runs.append(Run(Span(self.since, end), self.nodes, ready))
        self.since = None

    def _end(self, it: JobSeen, before: JobSeen) -> None:
        self.ended = it.when if it.end is None else it.when.within(it.end)
        unseen = it.nodes and it.start is not None and before.state not in _HOLDS
        if unseen and not self.began and it.start is not None:
            start = When(it.submitted.earliest, self.ended.latest).within(it.start)
            self.runs.append(Run(Span(start, self.ended), it.nodes, start))

    def _note_signs(self, it: JobSeen) -> None:
        signs = {evidence.sign for evidence in self.evidence}
        if it.preempted is not None and Sign.PREEMPTED not in signs:
            self.evidence.append(Evidence(it.preempted, Sign.PREEMPTED))
        if it.state == "SUSPENDED" and Sign.SUSPENDED not in signs:
            self.evidence.append(Evidence(it.when, Sign.SUSPENDED))


def _tag(comment: str) -> _Tag | None:
    try:
        tag = _decode(comment)
    except msgspec.MsgspecError:
        return None
    # The tag of a gang has a rank for each slot, and that of a single pod has none.
    return tag if len(tag.ranks) == (0 if tag.v == 1 else len(tag.uids)) else None


def _noted(lives: list[JobLife], notes: list[JobNoted]) -> Iterator[JobLife]:
    """Lives with the log lines of their time, without lines that may be about another job."""
    mine: dict[int, list[JobNoted]] = defaultdict(list)
    for it in notes:
        then = _there(lives, it.when)
        if len(then) == 1:
            mine[then[0]].append(it)
    for index, life in enumerate(lives):
        yield with_notes(replace(life, uids=_all_uids(life, mine[index])), mine[index])


def _all_uids(life: JobLife, notes: Iterable[JobNoted]) -> frozenset[str]:
    """The pods in all tags of the job. The polls see a change of state, not one of the tag, so a
    pod of a gang that was soon replaced by another may be in none of their records.
    """
    tags = [_tag(it.tag) for it in notes if it.what == "tagged"]
    mine = [it for it in tags if it is not None and Owner(it.cluster, it.scheduler) == life.owner]
    return life.uids.union(*(filter(None, it.uids) for it in mine))


def _touched(lives: list[JobLife], asked: list[JobAsked]) -> Iterator[JobLife]:
    """Lives with the requests about them. If a request may have been about another job with that
    id, its author counts as unknown. Slurm itself kills too, for limits and preemption, but that
    leaves a different state behind.
    """
    kills: dict[int, list[Touch]] = defaultdict(list)
    updates: dict[int, list[Touch]] = defaultdict(list)
    looks: dict[int, list[Touch]] = defaultdict(list)
    for it in asked:
        then = _there(lives, it.when)
        by = it.by if len(then) == 1 else By.UNKNOWN
        for index in then:
            if it.verb == "look":
                looks[index].append(Touch(it.when, by))
            elif it.verb == "update":
                updates[index].append(Touch(it.when, by))
            elif lives[index].state in _KILLED:
                kills[index].append(Touch(it.when, by))
    for index, life in enumerate(lives):
        yield replace(
            life,
            kills=tuple(kills[index]),
            updates=tuple(updates[index]),
            looks=tuple(looks[index]),
        )


def _there(lives: list[JobLife], when: When) -> list[int]:
    """Those jobs that had the id and may have existed at that moment."""
    return [
        index
        for index, life in enumerate(lives)
        if life.submitted.maybe_before(when) and when.maybe_before(life.ended)
    ]
