"""What a recorder returns: single observations of the state of two servers and of requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from tests.audit.history import By, When


@dataclass(frozen=True, slots=True)
class PodSeen:
    """A pod as it was after a write; `gone` marks the last state of a removed pod."""

    when: When
    pod: dict[str, Any]
    gone: bool


@dataclass(frozen=True, slots=True)
class PodAsked:
    """A write about a pod: "bind", "delete" (which includes evictions) or "write"; `uid` is empty
    if the request names none.
    """

    when: When
    by: By
    verb: str
    namespace: str
    name: str
    uid: str
    accepted: bool
    node: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSeen:
    """A job that was changed at `when`, or found so. `key` differs between jobs with the same id.
    `start`, `end` and `preempted` come from the record itself, if it has them. `tasks` is how many
    tasks each node has, by its CPUs, where the record tells them.
    """

    when: When
    job_id: int
    key: str
    state: str
    flags: frozenset[str]
    nodes: frozenset[str]
    admin_comment: str
    restarts: int
    submitted: When
    start: When | None = None
    end: When | None = None
    preempted: When | None = None
    tasks: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobMissing:
    """Slurm no longer knows a job with that id."""

    when: When
    job_id: int


@dataclass(frozen=True, slots=True)
class JobAsked:
    """A "kill" that took effect, an "update", or a "look" that was answered."""

    when: When
    by: By
    verb: str
    job_id: int


@dataclass(frozen=True, slots=True)
class JobNoted:
    """A line that says that a job was "started" on `nodes`, "ready", "ended", "requeued" or
    "suspended", or that it went on without `nodes` ("smaller"), or that its admin_comment was
    replaced by `tag` ("tagged").
    """

    when: When
    job_id: int
    what: Literal["started", "ready", "ended", "requeued", "suspended", "smaller", "tagged"]
    nodes: frozenset[str] = frozenset()
    tag: str = ""


@dataclass(slots=True)
class Records:
    """All observations in their order. `opened` and `closed` are when recording began and ended.

    `reported` says that kubelets tell of the end of containers later than it was, with a time.
    `looks` says that looks at jobs are on record.
    """

    opened: float
    closed: float = 0.0
    reported: bool = False
    looks: bool = False
    pods: list[PodSeen] = field(default_factory=list)
    pods_asked: list[PodAsked] = field(default_factory=list)
    jobs: list[JobSeen | JobMissing] = field(default_factory=list)
    jobs_asked: list[JobAsked] = field(default_factory=list)
    jobs_noted: list[JobNoted] = field(default_factory=list)


class Recorder(Protocol):
    """Records both servers of a cluster from `open` to `close`."""

    def open(self) -> None:
        """Begin."""

    def close(self) -> Records:
        """End, and give what there is; may wait for the servers' own records."""
