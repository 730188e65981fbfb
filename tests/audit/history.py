"""What happened, in one form for models and real servers: lives of jobs and of pods.

Every moment is an interval, as wide as the uncertainty of the server that recorded it. A rule is
only broken if it is for all true moments within their intervals. So a coarse clock can hide a
breach, but never invent one.
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
        """Whether every moment of this interval is before every moment of the other."""
        return self.latest < other.earliest

    def maybe_before(self, other: When) -> bool:
        """Whether it may have been before the other, or at the same time."""
        return self.earliest <= other.latest

    def within(self, other: When) -> When:
        """The intersection of both intervals; this one if they do not overlap."""
        low, high = max(self.earliest, other.earliest), min(self.latest, other.latest)
        return When(low, high) if low <= high else self


NEVER: Final = When(inf, inf)
"""Not until the end of the record."""


def at(moment: float) -> When:
    """A moment that is known exactly."""
    return When(moment, moment)


class By(Enum):
    """Who did it, by the server's record: the scheduler, somebody else, or unknown."""

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
    """The time from one moment to another."""

    start: When
    end: When = NEVER

    def surely_covers(self, when: When) -> bool:
        """Whether it lasted all the time in which `when` may lie, and before."""
        return self.start.latest < when.earliest and self.end.earliest > when.latest

    def surely_overlap(self, other: Span) -> bool:
        """Whether the two certainly had a moment in common."""
        latest_start = max(self.start.latest, other.start.latest)
        return latest_start < min(self.end.earliest, other.end.earliest)


@dataclass(frozen=True, slots=True)
class Run:
    """A period in which a job held nodes, RUNNING or SUSPENDED; at `ready` it was no longer
    CONFIGURING.
    """

    span: Span
    nodes: frozenset[str]
    ready: When


class Sign(Enum):
    """A fact in Slurm's record, other than an end, that may cost a pod its node."""

    REQUEUED = "requeued"
    PREEMPTED = "chosen to make room"
    SUSPENDED = "suspended"
    FORGOTTEN_END = "ended, and was there again after a crash of slurmctld"


@dataclass(frozen=True, slots=True)
class Evidence:
    """A sign, and since when it has been visible."""

    when: When
    sign: Sign


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a placeholder, from its owner tag."""

    cluster: str
    scheduler: str


LOST: Final = "LOST"
"""The end of a job that Slurm has forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLife:
    """One job. Several jobs may have the same id, because slurmctld reuses ids after a crash.

    `owner` is None for a job without an owner tag. `ended` is NEVER for a job that may still run.
    `state` is its last state, LOST if Slurm forgot it before it ended. `kills` are those that took
    effect. `looks` are answered requests for its record. In the periods of `unseen` it had nodes
    that nobody saw. `uids` are all pods that it was ever for. `slots` is how many pods of a gang it
    is for at once, 0 for a single pod, and `per_node` how many of them a node takes. `packed` says
    so of each node, if Slurm has packed them.
    """

    job_id: int
    submitted: When
    owner: Owner | None = None
    namespace: str = ""
    uids: frozenset[str] = frozenset()
    slots: int = 0
    per_node: int = 1
    packed: Mapping[str, int] = field(default_factory=dict)
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
    """One pod. It existed from `made` on, as far as it was seen. `placed` is when it got its
    `node`, which is empty if it got none. Its containers may have run from then until `stopped`. At
    `over` the API server knew that nothing of it could run any more: it had ended, or was gone.
    `touches` are all accepted writes.
    """

    uid: str
    namespace: str
    name: str
    scheduler: str
    made: When = NEVER
    node: str = ""
    placed: When = NEVER
    stopped: When = NEVER
    over: When = NEVER
    binds: tuple[Bind, ...] = ()
    deletions: tuple[Touch, ...] = ()
    touches: tuple[Touch, ...] = ()

    @property
    def held(self) -> Span:
        """The period in which its containers may have run."""
        return Span(self.placed, self.stopped)


@dataclass(frozen=True, slots=True)
class Stray:
    """The start of a job of which nothing else is known, because slurmctld forgot it in a crash
    before anybody looked. Empty `nodes` may have been any nodes.
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
