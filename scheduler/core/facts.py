"""What is known of one unit, and of the Slurm job that stands for it, at one moment.

A unit is what gets ONE Slurm job: one pod, or the pods of one gang in rank order. All times
are seconds of one monotonic clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum, unique
from typing import Final

import msgspec

from annotations import JobRequest, LostSlot, Problem
from scheduler.core.event_reasons import Reason
from scheduler.core.group_said import GroupSaid
from scheduler.core.in_the_way import InWay
from scheduler.core.intervals import LINGER_LOOK_SECONDS
from scheduler.core.node_suitability import Place
from scheduler.core.owner_tag import Owner
from scheduler.core.refused_bind import RefusedBind
from scheduler.core.shapes import Expected, Size
from scheduler.core.tagged import TaggedJob
from scheduler.core.tenure import Tenure
from slurmapi.model import JobState


@unique
class PodStage(StrEnum):
    """How far a pod has come. Each pod is in exactly one stage."""

    GATED = "gated"
    """Unbound, and held back by its scheduling gates."""
    WAITING = "waiting"
    """Unbound, and waits for a Node."""
    WITHDRAWN = "withdrawn"
    """Unbound and being deleted: none of its containers can start."""
    BOUND = "bound"
    """On a Node: its containers may run."""
    DEPARTING = "departing"
    """Being deleted, but its containers may still run."""
    FINISHED = "finished"
    """Succeeded or Failed: its containers have stopped for good."""


RUNS: Final = frozenset({PodStage.BOUND, PodStage.DEPARTING})


class PodFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One pod. `node` is the Slurm node behind the Node that it is bound to, "" if not known.
    `placed_by_us` is false if somebody else bound it. `grace_seconds` is the pod's own grace
    period.
    """

    uid: str
    namespace: str
    name: str
    stage: PodStage
    node: str = ""
    said_node: str = ""
    """The Slurm node that its annotations name. The pod's author can write them too, so nothing is
    taken from anybody because of it.
    """
    rank: int = 0
    """Its place among the pods of its unit. A single pod has rank 0."""
    started: bool = False
    """Whether its containers were last reported to run."""
    succeeded: bool = False
    """Whether all its containers have ended without an error."""
    final: bool = False
    """Whether it has succeeded, and its controller makes no other in its place."""
    size: Size | None = None
    """For a pod of a gang: what it takes of a node; None if that cannot be read."""
    unserved: bool = False
    """For a pod of a gang: whether what it asks for cannot become, or join, a Slurm job."""
    placed_by_us: bool = True
    grace_seconds: int = 30
    ends_at: str = ""
    """When its job reaches its time limit, as its annotation says."""
    deletion_grace_seconds: int | None = None
    """The grace period of the deletion under way; None if there is none."""


class MissingPod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod of the unit that no list or watch shows. That does not prove that it is gone. Or a pod
    that runs in a slot of the unit's job, by the job's tag, and belongs to another unit since its
    labels or annotations were edited.
    """

    uid: str
    name: str
    rank: int = 0
    lingers_until: float = 0.0
    """Until when its containers may still run; 0 if none may, as far as is known, and infinite if
    the pod exists.
    """
    placed: bool = False
    """Whether it was ever seen on a Node."""


class GangFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The gang whose pods the unit has. `name` is for people, and `group` for the owner tag, such
    as "job/trainer". `ranked` says that the pods themselves say their ranks.
    """

    name: str
    group: str
    size: int | None
    """How many pods it has; None until the object that says so has been read."""
    minimum: int = 0
    """How many pods must exist before any starts: fewer than `size` if the later ones are created
    only when the earlier ones run. 0 while the size is not known.
    """
    ranked: bool = True
    over: bool = False
    """Whether no pod will come again: its object says so or is gone, or the group has pods of
    another revision of its template.
    """
    done: frozenset[int] = frozenset()
    """The ranks that have succeeded, as its object says. Their pods may be gone from the API."""
    disbanded: str = ""
    """Why it is no gang any more, as its object says; "" if it is one."""
    is_open: bool = False
    """Whether its group may have more pods than start together."""
    has_object: bool = False
    """Whether there is an object that may say how many pods there are."""
    read_at: float | None = None
    """When the object was last read."""
    per_node: int = 1
    """How many of its pods a node gets at most."""
    quiet_since: float | None = None
    """Since when none of its pods can run; None while one can."""
    linger_seconds: float = 60.0
    """How long its allocation is kept without a pod."""
    on_lost_slot: LostSlot = "wait"
    """What is done if a pod cannot come back to its slot while others run (`stuck.py`)."""
    lost_slot_by: str = "--gang-lost-slot"
    """What says so: the site's setting, or an annotation of the pods."""
    culprit: str = ""
    """The pod whose request is at fault, if the unit's request is a list of problems."""
    absent_since: float | None = None
    """Since when it is known that its object does not exist yet; None if that is not so."""
    grew_at: float | None = None
    """When a pod joined it last."""
    templates: tuple[Expected, ...] = ()
    """If its pods come in steps: the sizes of its templates, in the order of the ranks."""
    untold_until: float = 0.0
    """Until then nothing is said about pods that are missing: they may just be on their way."""
    said: GroupSaid | None = None
    """What was said on its PodGroup; None if it has none."""

    @property
    def unread(self) -> bool:
        """Whether its object must be read before a job is submitted or a pod is bound: it says how
        many pods there are, and of some sources which rank each has.
        """
        return self.has_object and self.read_at is None


class Remark(msgspec.Struct, frozen=True):
    """A remark about a pod's request, shown to its owner once."""

    reason: Reason
    message: str


class NoJob(msgspec.Struct, frozen=True):
    """Slurm has no job for this unit, as far as we know, and no answer is outstanding."""

    others_job: int | None = None
    """The job that its pod names, if that belongs to somebody else."""


class InDoubt(msgspec.Struct, frozen=True):
    """There may be a job that was never recorded: from a submit with unknown outcome, or by a
    former process. Nothing is submitted until Slurm's jobs have been searched.
    """


class Tracked(msgspec.Struct, frozen=True, kw_only=True):
    """A job whose id we know.

    `state` is from the last pulse, None before the first. `record` is from the last full look, at
    `record_at`; None if there was no look since Slurm last failed to answer. `cancelled_at` is when
    Slurm last accepted our cancel.
    """

    job_id: int
    claimed: bool = False
    """Whether only the pod's annotation says that the job belongs to the unit."""
    state: JobState | None = None
    record: TaggedJob | None = None
    record_at: float = 0.0
    cancelled_at: float | None = None
    made_as: str = ""
    """The job's name, if Slurm's answer to our own submit gave us its id; otherwise ""."""
    known_as: tuple[str, int] | None = None
    """The name and the submit time of the unit's job, as Slurm shows them; None if no look has
    shown yet that this job is the unit's.
    """
    restarts: int = 0
    """The highest number of restarts that this process has ever seen in the job's tag."""
    allocated_at: float = 0.0
    """When a pulse first showed that it runs; 0 if it does not run, or none has shown it yet."""
    running_since: float = 0.0
    """When a full look first saw it run, or when its nodes were ready after that; 0 if it does not
    run, or no look has shown that it does.
    """
    has_held: bool = False
    """Whether its present run was seen on the Node of one of the unit's pods."""
    settled: bool = True
    """Whether the end of this job counts for the unit: this process saw the job alive, or has
    searched all jobs. Otherwise a former process may have submitted another job without recording
    it.
    """

    @property
    def requeued(self) -> bool:
        """Whether the record shows that the job was requeued since its pods were bound, by Slurm's
        count at both times.
        """
        record = self.record
        if record is None:
            return False
        noted = 0 if record.tag is None else record.tag.restarts
        return record.restart_count > max(noted, self.restarts)


class Vanished(msgspec.Struct, frozen=True):
    """Slurm no longer lists the job. `confirmed` says that two looks got error 2017, or found
    another job with this id, while the controller answered. `claimed` says that only the pod's
    annotation ever named the job.
    """

    job_id: int
    confirmed: bool
    claimed: bool = False


JobFacts = NoJob | InDoubt | Tracked | Vanished


class UnitFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that `decide` may use. `nodes` has the Node behind each allocated Slurm node; for
    a node that is missing there, Slurm must be asked first.
    """

    key: str
    """The unit's key; a single pod's key is its uid."""
    owner: Owner
    pods: tuple[PodFacts, ...]
    missing: tuple[MissingPod, ...]
    spare: tuple[PodFacts, ...] = ()
    """Pods that wait and are not among `pods`: its gang has enough without them."""
    request: JobRequest | tuple[Problem, ...]
    job: JobFacts
    nodes: Mapping[str, Place]
    gang: GangFacts | None = None
    """The gang that the unit is; None for a single pod."""
    excluded_for: Mapping[str, Mapping[str, str]] = msgspec.field(default_factory=dict)
    """As `excluded`, by kind of its pods (`core.shapes`). Only for a gang of several shapes."""
    refused: tuple[Problem, ...] = ()
    """For a running pod: why the site's policy would refuse its request now."""
    accepted: Mapping[str, str] = msgspec.field(default_factory=dict)
    """The digests of its last known job's request (`core.edits`), from that job's tag. Only filled
    in if `refused` is not empty.
    """
    uses: Mapping[str, JobRequest] = msgspec.field(default_factory=dict)
    """If the request is a list of problems: what each pod on a Node uses there, by uid, as far as
    its spec alone says that.
    """
    submit_at: float = 0.0
    """No job may be submitted before this time (pause after a refusal or an early end)."""
    held_until: float = 0.0
    """The first job is not submitted before this time; `held_why` says why."""
    held_why: str = ""
    uncompared_since: float | None = None
    """Since when it waits to be compared with Nodes and pods; None if it need not wait."""
    update_at: float = 0.0
    """The job is not updated before this time (pause after Slurm refused this very request)."""
    give_back_at: float = 0.0
    """No nodes of its job are given back before this time (pause after a refusal)."""
    readmit_at: float = 0.0
    """The exclusions of `readmit_refused` are not sent to Slurm again before this time."""
    readmit_refused: str = ""
    """The digest of the excluded nodes that Slurm last refused to set; "" if none."""
    untaken: str = ""
    """Which parts of this very request Slurm did not accept, and why."""
    unfit_since: float | None = None
    """Since when the allocated Node has not suited the pod."""
    unlisted: str = ""
    """Why Slurm's nodes are not known yet; "" if they are. Until then a pod's node may still be
    found, no node is ruled out, and GPU types are unknown, so the request may soon be read
    differently.
    """
    in_way: InWay | None = None
    """Another pod on the allocated Nodes whose job does not hold them, or may not hold them."""
    refused_bind: RefusedBind | None = None
    """The API server's refusal to bind the pod, if there was one."""
    excluded: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Slurm nodes that its job must not get, with reasons."""
    nowhere: str = ""
    """Why no Kubernetes Node can take the pod; "" if some can."""
    bound_by_us: bool = False
    """Whether a job of ours has proven that Slurm gave the pod its node (`core.binding_proof`)."""
    unrecorded: bool = False
    """Whether the pod does not name the job, so that the next process would not know it."""
    tell_at: float | None = None
    """When the job that this process has just submitted is shown on a pod that waits. None if there
    is no such job, if the pod names it already, or if it is shown at once.
    """
    unjudged: bool = False
    """Whether it is not known yet which rules of the site apply to the pod."""
    remarks: tuple[Remark, ...] = ()
    """Remarks about the request; they have no effect on what is done."""
    outcome: str = ""
    """How the pod ended, as far as it was seen; "" if it has not."""
    epoch: float = 0.0
    """The same moment in Unix seconds, by Slurm's own clock, which its times go by. By the clock of
    this machine if Slurm's is not known.
    """
    evict_suspended: bool = True
    """Whether a pod must go if Slurm suspends its job (a policy of the site)."""
    tenure: Tenure = msgspec.field(default_factory=Tenure)
    longest_grace: int | None = None
    """If a pod is being deleted: the longest grace period that ends before Slurm stops waiting for
    a job (KillWait), or for which the handover guard waits. None if the guard waits for any, or
    KillWait is not known.
    """

    @property
    def grace_seconds(self) -> int:
        """How many seconds all of its pods have to stop."""
        return max(pod.grace_seconds for pod in self.pods)

    @property
    def lingers_until(self) -> float:
        """Until when containers of pods that are missing may still run."""
        return max([it.lingers_until for it in self.missing], default=0.0)

    def linger_look(self, now: float) -> float:
        """After how many seconds to look again while containers of missing pods may still run."""
        return min(self.lingers_until - now, LINGER_LOOK_SECONDS)

    @property
    def unseen(self) -> tuple[str, ...]:
        """The uids of the pods that nobody sees, and that must be read before their job ends."""
        return tuple([it.uid for it in self.missing])

    @property
    def any_runs(self) -> bool:
        """Whether containers of any pod may run."""
        return any(pod.stage in RUNS for pod in self.pods)

    def sizes(self, pods: Iterable[PodFacts]) -> dict[int, Size]:
        """The sizes of these pods by rank."""
        return {pod.rank: pod.size for pod in pods if pod.size is not None}

    def asked_by(self, pod: PodFacts) -> JobRequest | tuple[Problem, ...]:
        """What this very pod asks for."""
        if pod.size is None or not isinstance(self.request, JobRequest):
            return self.request
        return pod.size.applied(self.request)

    def owns(self, record: TaggedJob) -> bool:
        """Whether the job is the placeholder of this very unit (I8)."""
        return record.is_of(self.key, owner=self.owner)

    def seated(self, pods: tuple[PodFacts, ...], record: TaggedJob) -> tuple[PodFacts, ...]:
        """Those of these pods that the job has a place for: nobody else ends with it (I6)."""
        uids = record.seated(owner=self.owner)
        return tuple(pod for pod in pods if pod.uid in uids)
