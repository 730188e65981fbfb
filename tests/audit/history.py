"""What happened, in one form for models and real servers: lives of jobs and of pods.

Every moment is an interval, as wide as the server that recorded it leaves it open. A rule speaks
only of what is certain however the true moments lie in theirs, so a coarse clock can hide a breach
and never make one up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from math import inf
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True, order=True)
class When:
    """A moment that lies somewhere in this closed interval; seconds since the epoch."""

    earliest: float
    latest: float

    def __post_init__(self) -> None:
        if self.earliest > self.latest:
            raise ValueError(f"earliest: {self.earliest} is after the latest, {self.latest}")

    def surely_before(self, other: When) -> bool:
        """Whether no two moments of theirs are the other way round, or the same."""
        return self.latest < other.earliest

    def maybe_before(self, other: When) -> bool:
        """Whether it can have been before the other, or at once with it."""
        return self.earliest <= other.latest

    def within(self, other: When) -> When:
        """What both intervals leave open; this one where two clocks contradict each other."""
        low, high = max(self.earliest, other.earliest), min(self.latest, other.latest)
        return When(low, high) if low <= high else self


NEVER: Final = When(inf, inf)
"""Not until the end of the record."""


def at(moment: float) -> When:
    """A moment that is known."""
    return When(moment, moment)


class By(Enum):
    """Who did it, by the server's record: the scheduler, anybody else, or nobody can tell."""

    US = "the scheduler"
    OTHER = "somebody else"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Touch:
    """A write that was accepted."""

    when: When
    by: By


@dataclass(frozen=True, slots=True)
class Span:
    """From a moment to a moment."""

    start: When
    end: When = NEVER

    def surely_covers(self, when: When) -> bool:
        """Whether it lasted all the time in which `when` may lie, and before."""
        return self.start.latest < when.earliest and self.end.earliest > when.latest

    def surely_overlap(self, other: Span) -> bool:
        """Whether there was a moment that both had in them."""
        latest_start = max(self.start.latest, other.start.latest)
        return latest_start < min(self.end.earliest, other.end.earliest)


@dataclass(frozen=True, slots=True)
class Run:
    """One time that a job held nodes, RUNNING or SUSPENDED; `ready` is when it was no longer
    CONFIGURING.
    """

    span: Span
    nodes: frozenset[str]
    ready: When


class Sign(Enum):
    """What in Slurm's record, other than an end, may cost a pod its node."""

    REQUEUED = "requeued"
    PREEMPTED = "chosen to make room"
    SUSPENDED = "suspended"
    FORGOTTEN_END = "ended, and was there again after a crash of slurmctld"


@dataclass(frozen=True, slots=True)
class Evidence:
    """Such a sign, and since when it can be seen."""

    when: When
    sign: Sign


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose a placeholder is, by its tag."""

    cluster: str
    scheduler: str


LOST: Final = "LOST"
"""The end of a job that Slurm has forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLife:
    """One job, which is not one job id: a crash of slurmctld has ids given out again.

    `owner` None is a job without a tag of a scheduler's. `ended` NEVER is one that may still run;
    `state` is its last, LOST where Slurm has forgotten it before it had ended. `kills` took effect.
    `looks` are at its record, and answered.
    At the times of `unseen` it had nodes which nobody saw.
    """

    job_id: int
    submitted: When
    owner: Owner | None = None
    namespace: str = ""
    uids: frozenset[str] = frozenset()
    runs: tuple[Run, ...] = ()
    unseen: tuple[When, ...] = ()
    ended: When = NEVER
    state: str = "PENDING"
    evidence: tuple[Evidence, ...] = ()
    kills: tuple[Touch, ...] = ()
    updates: tuple[Touch, ...] = ()
    looks: tuple[Touch, ...] = ()


@dataclass(frozen=True, slots=True)
class Bind:
    """One request for a Binding that named this pod; `accepted` as the API server answered."""

    when: When
    by: By
    node: str
    accepted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLife:
    """One pod. `placed` is when it got its `node`, empty for none. Its containers may have run from
    then until `stopped`. `over` is when nothing of it could run any more, as the API server knew:
    it had ended, or was gone. `touches` are all accepted writes.
    """

    uid: str
    namespace: str
    name: str
    scheduler: str
    node: str = ""
    placed: When = NEVER
    stopped: When = NEVER
    over: When = NEVER
    binds: tuple[Bind, ...] = ()
    deletions: tuple[Touch, ...] = ()
    touches: tuple[Touch, ...] = ()

    @property
    def held(self) -> Span:
        """While its containers may have run."""
        return Span(self.placed, self.stopped)


@dataclass(frozen=True, slots=True)
class Stray:
    """A job that got its nodes then, of which nothing else is known: nobody had looked when a crash
    of slurmctld forgot it. No `nodes` may have been any.
    """

    started: When
    nodes: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """All of it from `opened` to `closed`. `owners` are the tags by which a job is ours,
    `schedulers` the names by which a pod is. `slurm_nodes` tells which Slurm node is behind a Node
    where the two have other names. `strays` may have been anybody's. `looks` says that looks at
    jobs are on record.
    """

    jobs: tuple[JobLife, ...]
    pods: tuple[PodLife, ...]
    owners: frozenset[Owner]
    schedulers: frozenset[str]
    closed: float
    opened: float = 0.0
    looks: bool = False
    strays: tuple[Stray, ...] = ()
    slurm_nodes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def ours(self) -> Iterator[JobLife]:
        """The placeholders."""
        return (job for job in self.jobs if job.owner in self.owners)

    def slurm_node(self, node: str) -> str:
        """The Slurm node behind a Node."""
        return self.slurm_nodes.get(node, node)
