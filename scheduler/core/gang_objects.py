"""What is read of the objects that stand for groups of pods, in the API's own shapes
(`scheduler.kube.group_wire` decodes into them). `gang_shape.py` says what it means.
"""

from __future__ import annotations

from typing import Any

import msgspec


class _Shape(msgspec.Struct, frozen=True, rename="camel"):
    """The base of all types here: immutable, and camelCase in JSON."""


class ManagedFields(_Shape, frozen=True):
    """Which fields a client has written last, as paths such as "f:phase"."""

    status: dict[str, Any] = msgspec.field(default_factory=dict, name="f:status")


class Manager(_Shape, frozen=True):
    """A client that has written fields of the object."""

    manager: str = ""
    fields_v1: ManagedFields = ManagedFields()


class GroupMeta(_Shape, frozen=True):
    """Which object it is in which version, what is noted on it, and whether it is being deleted."""

    name: str = ""
    uid: str = ""
    deletion_timestamp: str | None = None
    annotations: dict[str, str] = {}
    resource_version: str = ""
    generation: int = 0
    managed_fields: tuple[Manager, ...] = ()


class GroupCondition(_Shape, frozen=True):
    """One condition of such an object."""

    type: str = ""
    status: str = ""
    message: str = ""
    last_transition_time: str | None = None


class JobSpec(_Shape, frozen=True):
    """How many pods a batch Job has at a time, and how many of them must succeed."""

    parallelism: int | None = None
    completions: int | None = None
    suspend: bool | None = None
    template: msgspec.Raw = msgspec.Raw()
    """The template of its pods, as JSON."""


class GroupStatus(_Shape, frozen=True):
    """How far a JobSet or a PodGroup of Kubernetes' own has come."""

    conditions: tuple[GroupCondition, ...] = ()


class JobStatus(_Shape, frozen=True):
    """How far a batch Job has come. `completed_indexes` is such as "0,3-5"."""

    conditions: tuple[GroupCondition, ...] = ()
    completed_indexes: str = ""


class BatchJob(_Shape, frozen=True):
    """A batch Job."""

    metadata: GroupMeta
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class JobTemplate(_Shape, frozen=True):
    """The template of the Jobs of a JobSet. Its metadata have no name."""

    metadata: GroupMeta = GroupMeta()
    spec: JobSpec = JobSpec()


class DependsOn(_Shape, frozen=True):
    """What must come before: `status` is Ready or Complete."""

    name: str = ""
    status: str = ""


class ReplicatedJob(_Shape, frozen=True):
    """Alike Jobs of a JobSet."""

    name: str = ""
    replicas: int | None = None
    template: JobTemplate = JobTemplate()
    depends_on: tuple[DependsOn, ...] = ()


class StartupPolicy(_Shape, frozen=True):
    """In which order a JobSet makes its Jobs: AnyOrder or InOrder."""

    startup_policy_order: str = ""


class JobSetSpec(_Shape, frozen=True):
    """The Jobs of a JobSet."""

    replicated_jobs: tuple[ReplicatedJob, ...] = ()
    startup_policy: StartupPolicy | None = None
    suspend: bool | None = None


class JobSet(_Shape, frozen=True):
    """A JobSet."""

    metadata: GroupMeta
    spec: JobSetSpec = JobSetSpec()
    status: GroupStatus = GroupStatus()


class LeaderWorkerTemplate(_Shape, frozen=True):
    """How many pods each group of a LeaderWorkerSet has, with its leader, and their templates as
    JSON. Without a template of its own the leader is like the workers.
    """

    size: int | None = None
    leader_template: msgspec.Raw = msgspec.Raw()
    worker_template: msgspec.Raw = msgspec.Raw()


class LeaderWorkerSetSpec(_Shape, frozen=True):
    """The groups of a LeaderWorkerSet. `startup_policy` is LeaderCreated or LeaderReady."""

    leader_worker_template: LeaderWorkerTemplate = LeaderWorkerTemplate()
    startup_policy: str = ""


class LeaderWorkerSet(_Shape, frozen=True):
    """A LeaderWorkerSet."""

    metadata: GroupMeta
    spec: LeaderWorkerSetSpec = LeaderWorkerSetSpec()


class GangPolicy(_Shape, frozen=True):
    """How many pods must be placed together."""

    min_count: int = 0


class SchedulingPolicy(_Shape, frozen=True):
    """How the pods of a PodGroup are placed; without `gang` each for itself (`basic`)."""

    gang: GangPolicy | None = None


class PodGroupSpec(_Shape, frozen=True):
    """The rules of a PodGroup of Kubernetes' own."""

    scheduling_policy: SchedulingPolicy = SchedulingPolicy()


class PodGroup(_Shape, frozen=True):
    """A PodGroup of Kubernetes' own (scheduling.k8s.io)."""

    metadata: GroupMeta
    spec: PodGroupSpec = PodGroupSpec()
    status: GroupStatus = GroupStatus()


class PluginsPodGroupSpec(_Shape, frozen=True):
    """The rules of a PodGroup of scheduler-plugins."""

    min_member: int | None = None


class PluginsPodGroupStatus(_Shape, frozen=True):
    """How far its pods have come."""

    phase: str = ""


class PluginsPodGroup(_Shape, frozen=True):
    """A PodGroup of scheduler-plugins (scheduling.x-k8s.io)."""

    metadata: GroupMeta
    spec: PluginsPodGroupSpec = PluginsPodGroupSpec()
    status: PluginsPodGroupStatus = PluginsPodGroupStatus()


class Unserved(_Shape, frozen=True):
    """In place of an object: the API server has no objects of this kind at all."""

    api_version: str
    plural: str


FoundObject = BatchJob | JobSet | LeaderWorkerSet | PodGroup | PluginsPodGroup
GroupObject = FoundObject | Unserved
