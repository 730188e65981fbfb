"""What is known of one unit, and of the Slurm job that stands for it, at one moment.

A unit is what gets ONE Slurm job: one pod, or later the pods of one gang, in rank order.
All times are seconds of one monotonic clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum, unique
from typing import Final

from annotations import JobRequest, Problem
from scheduler.core.in_the_way import InWay
from scheduler.core.naming import Owner
from scheduler.core.node_suitability import Place
from scheduler.core.reasons import Reason
from scheduler.core.refused_bind import RefusedBind
from scheduler.core.tagged import TaggedJob
from scheduler.core.tenure import Tenure
from slurmapi.model import JobState


@unique
class PodStage(StrEnum):
    """How far a pod has come; exactly one holds."""

    GATED = "gated"
    """Unbound, and its scheduling gates say not yet."""
    WAITING = "waiting"
    """Unbound, and wants a Node."""
    WITHDRAWN = "withdrawn"
    """Unbound, and no longer wanted: no container of it can start."""
    BOUND = "bound"
    """On a Node: its containers may run."""
    DEPARTING = "departing"
    """Being deleted, but its containers may still run."""
    FINISHED = "finished"
    """Succeeded or Failed: its containers have stopped for good."""


RUNS: Final = frozenset({PodStage.BOUND, PodStage.DEPARTING})


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """One pod. `node` is the Slurm node behind the Kubernetes Node it is bound to, empty where that
    is not known; `placed_by_us` is false where somebody else gave it its Node. `grace_seconds` is
    its own.
    """

    uid: str
    namespace: str
    name: str
    stage: PodStage
    node: str = ""
    placed_by_us: bool = True
    grace_seconds: int = 30
    ends_at: str = ""
    """Until when its job may run, as its annotation says."""
    deletion_grace_seconds: int | None = None
    """The grace of the deletion that is under way, None where there is none."""


@dataclass(frozen=True, slots=True)
class Remark:
    """Something about what a pod asks for that its owner is told once."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class NoJob:
    """Slurm has nothing for this unit, as far as we know, and we know all we asked for."""

    others_job: int | None = None
    """A job that its pod names and that is another's."""


@dataclass(frozen=True, slots=True)
class InDoubt:
    """There may be a job that was never recorded: a submit of unknown outcome, or of a former
    process. Nothing is submitted until Slurm's jobs have been looked through.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracked:
    """A job we know the id of.

    `state` is the last pulse, None before the first. `record` is the last full look, made at
    `record_at`, None where there is none since Slurm last failed to answer. `cancelled_at` is when
    Slurm last took our cancel of it.
    """

    job_id: int
    claimed: bool = False
    """Whether nothing but the pod's annotation says that the job is the unit's."""
    state: JobState | None = None
    record: TaggedJob | None = None
    record_at: float = 0.0
    cancelled_at: float | None = None
    made_as: str = ""
    """The name of the job where Slurm's answer to our own submit has named its id; else empty."""
    submit_time: int | None = None
    """When Slurm says that this very job was submitted; None where no look has shown it yet."""
    running_since: float = 0.0
    """When a full look first saw it run; 0 where none has since it last did not."""
    settled: bool = True
    """Whether its end is the unit's own: this process saw the job live, or has looked through
    Slurm's jobs. A former process may have asked for another one, and not come to record it."""


@dataclass(frozen=True, slots=True)
class Vanished:
    """Slurm no longer lists the job. `confirmed`: it also said error 2017 twice, or that the id
    is another's job now, while the controller answered. `claimed`: nothing but the pod's annotation
    ever named it.
    """

    job_id: int
    confirmed: bool
    claimed: bool = False


JobFacts = NoJob | InDoubt | Tracked | Vanished


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitFacts:
    """All that `decide` may look at. `nodes` says what is behind the allocation, by Slurm node; of
    one that it lacks Slurm must be asked first.
    """

    key: str
    owner: Owner
    pods: tuple[PodFacts, ...]
    request: JobRequest | tuple[Problem, ...]
    job: JobFacts
    nodes: Mapping[str, Place]
    refused: tuple[Problem, ...] = ()
    """Why the site's policy would refuse the request now, of a pod that runs."""
    accepted: Mapping[str, str] = field(default_factory=dict)
    """The digests of what its last known job was asked for (`core.edits`), by that job's tag; only
    where `refused` raises the question.
    """
    submit_at: float = 0.0
    """Not before this time may a job be submitted (backoff after a refusal or an early end)."""
    held_until: float = 0.0
    """Not before this time is its first job asked for, as `held_why` says."""
    held_why: str = ""
    uncompared_since: float | None = None
    """Since when it waits to be compared with Nodes and pods; None where it is, or need not be."""
    update_at: float = 0.0
    """Not before this time is the job updated (backoff after Slurm refused this very request)."""
    readmit_at: float = 0.0
    """Not before this time is Slurm asked again to take the exclusions of `readmit_refused`."""
    readmit_refused: str = ""
    """The digest of the excluded nodes that Slurm did not let the job have last; empty for none."""
    untaken: str = ""
    """What Slurm did not take of this very request, and why."""
    unfit_since: float | None = None
    """Since when the allocated Node has not been fit."""
    unlisted: str = ""
    """Why Slurm has not told its nodes yet, empty where it has. Until then the node of a pod may
    still be found, none is ruled out, and which GPUs there are is not known: what the request asks
    for may be something else soon."""
    in_way: InWay | None = None
    """Another pod on the allocated Nodes that no job holds them for, or may not."""
    refused_bind: RefusedBind | None = None
    """What the API server says, where it does not let the pod be bound."""
    excluded: Mapping[str, str] = field(default_factory=dict)
    """Slurm nodes that its job must not get, and why."""
    nowhere: str = ""
    """Why no Kubernetes Node can take the pod, where that is so."""
    bound_by_us: bool = False
    """Whether a job of ours has shown that the pod got its node from Slurm (`core.proof`)."""
    unrecorded: bool = False
    """Whether the pod does not name the job, so that a next process would not know it."""
    unjudged: bool = False
    """Whether it is not known yet which rules of the site speak of the pod."""
    remarks: tuple[Remark, ...] = ()
    """What is to be said of the request; it changes nothing about what is done."""
    outcome: str = ""
    """How the pod ended, as far as it was seen; empty where none has."""
    epoch: float = 0.0
    """The same moment in seconds of the epoch, which Slurm's own times are in."""
    evict_suspended: bool = True
    """Whether a pod goes when Slurm suspends its job (a policy of the site)."""
    tenure: Tenure = field(default_factory=Tenure)
    lingers_until: float = 0.0
    """Until then containers of a pod that is gone may still run."""
    longest_grace: int | None = None
    """The longest grace that ends before Slurm stops waiting for a job (KillWait); None where the
    handover guard waits for any grace, or KillWait is not known."""

    @property
    def grace_seconds(self) -> int:
        """What all of its pods have to stop."""
        return max(pod.grace_seconds for pod in self.pods)

    @property
    def any_runs(self) -> bool:
        """Whether containers of some pod may run."""
        return any(pod.stage in RUNS for pod in self.pods)

    def owns(self, record: TaggedJob) -> bool:
        """Whether the job is the placeholder of this very unit (I8)."""
        return record.stands_for(self.key, owner=self.owner)
