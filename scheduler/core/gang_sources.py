"""Who says that pods belong together: the sources of gangs, and what is read of a pod for each.

Nothing here is trusted. A pod's author can write labels and annotations, and so they are compared
with the pod's controller where the source has one (`core.membership`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum, unique
from typing import Final

MOST_GANG_PODS: Final = 1024
"""How many pods of one gang may exist at once. A pass of a gang goes through all of them."""


@unique
class Source(StrEnum):
    """Who forms a gang. The values are those of the setting `gangs`."""

    ANNOTATIONS = "annotations"
    """The annotations `gang` and `gang-size`, on any pods."""
    LWS = "lws"
    """A group of a LeaderWorkerSet."""
    JOBSET = "jobset"
    """A JobSet."""
    POD_GROUP = "pod-group"
    """A PodGroup of Kubernetes' own (scheduling.k8s.io)."""
    SCHEDULER_PLUGINS = "scheduler-plugins"
    """A PodGroup of scheduler-plugins (scheduling.x-k8s.io): Trainer, MPI operator, KubeRay."""
    KUEUE = "kueue"
    """A group of plain pods of Kueue's."""
    JOB = "job"
    """A batch Job."""


# A source that gives more information about the order comes first: a JobSet gives its pods places,
# and the PodGroup of the same pods does not. A batch Job comes last, because other objects create
# batch Jobs for a part of their pods.
ALL_SOURCES: Final = tuple(Source)

OBJECTS: Final[Mapping[Source, tuple[str, str]]] = {
    Source.LWS: ("leaderworkerset.x-k8s.io/v1", "leaderworkersets"),
    Source.JOBSET: ("jobset.x-k8s.io/v1alpha2", "jobsets"),
    Source.POD_GROUP: ("scheduling.k8s.io/v1alpha2", "podgroups"),
    Source.SCHEDULER_PLUGINS: ("scheduling.x-k8s.io/v1alpha1", "podgroups"),
    Source.JOB: ("batch/v1", "jobs"),
}
"""API version and plural of the objects that are read for a source."""

OPEN_SOURCES: Final = frozenset({Source.POD_GROUP, Source.SCHEDULER_PLUGINS})
"""Their groups may have more pods than start together. The others get jobs of their own."""

TOLD_BY_PHASE: Final = {Source.POD_GROUP: False, Source.SCHEDULER_PLUGINS: True}
"""The sources on whose objects the scheduler writes how the gang stands. True if it writes a phase,
and False if it writes a condition.
"""

ASKED_GANG: Final = "gang"
ASKED_GANG_SIZE: Final = "gang-size"
ASKED_GANG_RANK: Final = "gang-rank"
ALONE: Final = "none"
"""The value of the annotation `gang` of a pod that belongs to no gang, whatever its labels say."""

JOB_NAME: Final = "batch.kubernetes.io/job-name"
JOB_UID: Final = "batch.kubernetes.io/controller-uid"
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"

LWS_NAME: Final = "leaderworkerset.sigs.k8s.io/name"
LWS_GROUP_INDEX: Final = "leaderworkerset.sigs.k8s.io/group-index"
LWS_GROUP_KEY: Final = "leaderworkerset.sigs.k8s.io/group-key"
LWS_WORKER_INDEX: Final = "leaderworkerset.sigs.k8s.io/worker-index"
LWS_REVISION: Final = "leaderworkerset.sigs.k8s.io/template-revision-hash"
LWS_SIZE: Final = "leaderworkerset.sigs.k8s.io/size"
LWS_EXCLUSIVE: Final = "leaderworkerset.sigs.k8s.io/exclusive-topology"
"""On a LeaderWorkerSet: no other group shares the leader's topology domain. The workers are only
created when the leader has a Node (LeaderWorkerSet v0.8.0, pod_controller.go).
"""

JOBSET_NAME: Final = "jobset.sigs.k8s.io/jobset-name"
JOBSET_UID: Final = "jobset.sigs.k8s.io/jobset-uid"
JOBSET_PART: Final = "jobset.sigs.k8s.io/replicatedjob-name"
JOBSET_JOB_INDEX: Final = "jobset.sigs.k8s.io/job-index"
JOBSET_GLOBAL_INDEX: Final = "jobset.sigs.k8s.io/job-global-index"
JOBSET_EXCLUSIVE: Final = "alpha.jobset.sigs.k8s.io/exclusive-topology"
"""On a JobSet, on the Jobs of one part, and on each such Job: no other Job shares the topology
domain of its first pod. A webhook refuses the other pods of the Job until that one has a Node
(JobSet v0.11.0, pod_admission_webhook.go).
"""
JOBSET_BY_LABELS: Final = "alpha.jobset.sigs.k8s.io/node-selector"
"""Beside JOBSET_EXCLUSIVE: labels of the Nodes say where the pods go, so they all come at once."""

PLUGINS_GROUP: Final = "scheduling.x-k8s.io/pod-group"
KUBEFLOW_INDEX: Final = "training.kubeflow.org/replica-index"
"""The label by which the MPI operator counts the pods of an MPIJob. If the launcher is a worker
too, it has 0, and the workers' labels are one more than the numbers in their names (mpi-operator
v0.8.2, mpi_job_controller.go).
"""

KUEUE_GROUP: Final = "kueue.x-k8s.io/pod-group-name"
KUEUE_SIZE: Final = "kueue.x-k8s.io/pod-group-total-count"
KUEUE_INDEX: Final = "kueue.x-k8s.io/pod-group-pod-index"
KUEUE_INDEX_LABEL: Final = "kueue.x-k8s.io/pod-group-pod-index-label"
"""The annotation that names another label in place of KUEUE_INDEX."""

OTHERS_ANNOTATIONS: Final = (COMPLETION_INDEX, LWS_SIZE, KUEUE_SIZE, KUEUE_INDEX_LABEL)
"""The annotations that are read here and that have none of the site's prefixes."""


@dataclass(frozen=True, slots=True)
class Maker:
    """The object that manages a pod (`controller: true` of its owner references)."""

    kind: str
    api_version: str
    name: str
    uid: str

    @property
    def text(self) -> str:
        """What it is called in messages."""
        return f"{self.kind} {self.name!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """The parts of a pod that say whether it belongs to a gang. `annotations` are those after the
    site's policy; the scheduler's own have one of the `prefixes`.
    """

    namespace: str
    name: str
    prefixes: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    controller: Maker | None = None
    scheduling_group: str = ""
    """`spec.schedulingGroup.podGroupName`."""

    def own(self, name: str) -> tuple[str, str | None]:
        """The key and the value of an annotation of ours; None in place of a value if the pod has
        none. (That two prefixes have one value is checked where the job's request is read.)
        """
        keys = [f"{prefix}{name}" for prefix in self.prefixes]
        found = next((key for key in keys if key in self.annotations), keys[0])
        return found, self.annotations.get(found)


@dataclass(frozen=True, slots=True)
class GroupRef:
    """An object that tells more about a gang. `uid` is "" if its pods do not name it."""

    api_version: str
    plural: str
    namespace: str
    name: str
    uid: str = ""

    @classmethod
    def of(cls, source: Source, pod: GroupView, name: str, *, uid: str = "") -> GroupRef:
        """The object of that name in the pod's namespace."""
        return cls(*OBJECTS[source], pod.namespace, name, uid)


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """To which gang a pod belongs, and what it says of itself.

    `identity` is the uid of the group's object where the pod names it, else its name. `size` and
    `rank` are None if the pod does not say them. Two living members may claim the same rank if
    people or two controllers gave it; who deals out the slots has to settle that.
    """

    source: Source
    namespace: str
    name: str
    """The group's name for people."""
    identity: str
    size: int | None = None
    rank: int | None = None
    place: tuple[int, int] | None = None
    """Of a pod of a JobSet: the index of its Job among all Jobs of the set, and its own index in
    that Job. The set tells the rank (`core.gang_shape.rank_of`).
    """
    object: GroupRef | None = None
    """What must be read to know how many pods there are, or in which order they come."""

    @property
    def key(self) -> str:
        """The unit's key: 32 hexadecimal digits. The uid of a pod has dashes."""
        text = f"{self.source}|{self.namespace}|{self.identity}"
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    @property
    def by_name(self) -> bool:
        """Whether the group is known only by its name, which a later group may get."""
        return self.object is None or not self.object.uid

    @property
    def group(self) -> str:
        """The group in the owner tag of the job."""
        return f"{_WORDS[self.source]}/{self.name}"


@dataclass(frozen=True, slots=True)
class Outsider:
    """The pod has the labels of a group and is not one of its pods, so it is served by itself."""

    why: str


_WORDS: Final = {
    Source.ANNOTATIONS: "gang",
    Source.LWS: "lws",
    Source.JOBSET: "jobset",
    Source.POD_GROUP: "podgroup",
    Source.SCHEDULER_PLUGINS: "podgroup",
    Source.KUEUE: "pod-group",
    Source.JOB: "job",
}
