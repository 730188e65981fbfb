"""The parts of Kubernetes objects that we read, and of those only.

Only needed fields: decoding is then 70 times faster than with generated models, and the cache a
tenth of the size. `gc=False` is safe since nothing here can form a cycle (strings, numbers,
tuples, flat dicts).

A real API server omits what is empty, except for a few fields it sends as null; those are typed
so. An answer with any other null goes a second, slower way through `decoder`, which drops nulls.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from scheduler.core.node_suitability import (
    NodeFacts,
    Requirement,
    Taint,
    Term,
    Toleration,
    Wishes,
)
from scheduler.core.requests import allocatable
from scheduler.kube.errors import KubeGarbled

T = TypeVar("T")
Quantity = str | int | float


class Wire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What all of these have in common: immutable, camelCase outside."""


class OwnerReference(Wire, frozen=True, gc=False):
    """Who made an object; `controller` marks the one that manages it."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool = False


class ObjectMeta(Wire, frozen=True, gc=False):
    """An object's identity. `uid` is the identity; the name is only a name."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()


class ResourceRequirements(Wire, frozen=True, gc=False):
    """Quantities by resource name: strings from a real server, but numbers are legal JSON."""

    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}


class ContainerPort(Wire, frozen=True, gc=False):
    """A port; `host_port` is one of the Node's own, 0 for none."""

    host_port: int = 0
    protocol: str = ""
    host_ip: str = msgspec.field(name="hostIP", default="")


class Container(Wire, frozen=True, gc=False):
    """A container, or an init container; `restart_policy` "Always" makes the latter a sidecar."""

    name: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str | None = None
    ports: tuple[ContainerPort, ...] = ()


class SchedulingGate(Wire, frozen=True, gc=False):
    """A name that holds a pod back from scheduling."""

    name: str = ""


class NodeSelector(Wire, frozen=True, gc=False):
    """Terms, of which one must match; a list that is null matches nothing either."""

    node_selector_terms: tuple[Term, ...] | None = ()


class NodeAffinity(Wire, frozen=True, gc=False):
    """Which Nodes a pod needs. What it would rather have is Slurm's to weigh."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


class LabelSelector(Wire, frozen=True, gc=False):
    """All of it must hold; one that is empty selects everything."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[Requirement, ...] = ()


class PodAffinityTerm(Wire, frozen=True, gc=False):
    """Pods by label and namespace, and the label of Nodes within which they are near."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None


class PodAffinity(Wire, frozen=True, gc=False):
    """Which pods a pod needs near it, or away from it."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()


class Affinity(Wire, frozen=True, gc=False):
    """A pod's affinity, as far as it is required."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Wire, frozen=True, gc=False):
    """How evenly pods are to be spread over the values of a label of Nodes."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    match_label_keys: tuple[str, ...] = ()
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None


class ClaimSource(Wire, frozen=True, gc=False):
    """Which PersistentVolumeClaim a volume is."""

    claim_name: str = ""


class EphemeralSource(Wire, frozen=True, gc=False):
    """A claim that is made for the pod, of the pod's and the volume's name."""


class Volume(Wire, frozen=True, gc=False):
    """A volume, as far as a claim is behind it."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: EphemeralSource | None = None


class PodResourceClaim(Wire, frozen=True, gc=False):
    """A device that is asked for by a ResourceClaim."""

    name: str = ""


class PodSpec(Wire, frozen=True, gc=False):
    """What a pod asks for, and where it was put."""

    node_name: str = ""
    hostname: str = ""
    scheduler_name: str = ""
    termination_grace_period_seconds: int = 30
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: dict[str, Quantity] = {}
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    priority: int | None = None
    priority_class_name: str = ""
    restart_policy: str = "Always"
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    resources: ResourceRequirements | None = None
    active_deadline_seconds: int | None = None
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()

    @property
    def wishes(self) -> Wishes:
        """Which Nodes it may go to."""
        return Wishes(tuple(sorted(self.node_selector.items())), self._terms, self.tolerations)

    @property
    def _terms(self) -> tuple[Term, ...] | None:
        of_nodes = None if self.affinity is None else self.affinity.node_affinity
        if of_nodes is None:
            return None
        required = of_nodes.required_during_scheduling_ignored_during_execution
        return None if required is None else required.node_selector_terms or ()


class PodCondition(Wire, frozen=True, gc=False, omit_defaults=True):
    """One condition, as read and as written; `type` and `status` are always sent."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class StateRunning(Wire, frozen=True, gc=False):
    """The container's process is there."""

    started_at: datetime | None = None


class StateWaiting(Wire, frozen=True, gc=False):
    """The container has not started, or will start again."""

    reason: str = ""
    message: str = ""


class StateTerminated(Wire, frozen=True, gc=False):
    """The container's process has ended."""

    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""


class ContainerState(Wire, frozen=True, gc=False):
    """At most one of the three is set; none means waiting."""

    running: StateRunning | None = None
    waiting: StateWaiting | None = None
    terminated: StateTerminated | None = None


class ContainerStatus(Wire, frozen=True, gc=False):
    """What the kubelet says of one container."""

    name: str = ""
    state: ContainerState = ContainerState()
    ready: bool = False
    restart_count: int = 0
    resources: ResourceRequirements | None = None
    """What the container has, which a resize of the pod may be about to change."""
    allocated_resources: dict[str, Quantity] = {}


class PodStatus(Wire, frozen=True, gc=False):
    """What has become of a pod."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    start_time: datetime | None = None


_FINISHED = frozenset({"Succeeded", "Failed"})


class Oversize(Wire, frozen=True, gc=False):
    """Which part of a pod is too large to be kept, how large all is, and what would be kept."""

    part: str
    size: str
    most: str


class Pod(Wire, frozen=True, gc=False):
    """A pod. `oversize` says that parts of it were too large to be kept; no server sends it."""

    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
    oversize: Oversize | None = msgspec.field(name="-", default=None)

    @property
    def finished(self) -> bool:
        """Its containers have stopped for good."""
        return self.status.phase in _FINISHED

    def condition(self, kind: str) -> PodCondition | None:
        """The condition of that type, where the pod has one."""
        return next((c for c in self.status.conditions if c.type == kind), None)


class NodeSpec(Wire, frozen=True, gc=False):
    """What an administrator says of a Node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = msgspec.field(name="providerID", default="")


class NodeCondition(Wire, frozen=True, gc=False):
    """One condition of a Node."""

    type: str
    status: str
    reason: str = ""


class NodeAddress(Wire, frozen=True, gc=False):
    """One of a Node's addresses: `type` is Hostname, InternalIP, ..."""

    type: str
    address: str


class NodeStatus(Wire, frozen=True, gc=False):
    """What the kubelet says of a Node."""

    conditions: tuple[NodeCondition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    allocatable: dict[str, Quantity] = {}


class Node(Wire, frozen=True, gc=False):
    """A Node, without heartbeat times and image lists: those make most of its size."""

    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def ready(self) -> bool:
        """The Ready condition is True."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)

    @property
    def facts(self) -> NodeFacts:
        """What decides whether a pod may go there."""
        return NodeFacts(
            name=self.metadata.name,
            labels=self.metadata.labels,
            taints=self.spec.taints,
            ready=self.ready,
            unschedulable=self.spec.unschedulable,
            allocatable=allocatable(self.status.allocatable),
        )


class ClaimSpec(Wire, frozen=True, gc=False):
    """Which volume a claim is bound to; empty where it is to none yet."""

    volume_name: str = ""


class Claim(Wire, frozen=True, gc=False):
    """A PersistentVolumeClaim."""

    metadata: ObjectMeta
    spec: ClaimSpec = ClaimSpec()

    @property
    def bound(self) -> bool:
        """Both sides have agreed, as kube-scheduler asks for it."""
        done = "pv.kubernetes.io/bind-completed" in self.metadata.annotations
        return bool(self.spec.volume_name) and done


class VolumeNodeAffinity(Wire, frozen=True, gc=False):
    """From which Nodes a volume can be reached."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(Wire, frozen=True, gc=False):
    """What a volume says of Nodes."""

    node_affinity: VolumeNodeAffinity | None = None


class PersistentVolume(Wire, frozen=True, gc=False):
    """A volume."""

    metadata: ObjectMeta
    spec: PersistentVolumeSpec = PersistentVolumeSpec()

    @property
    def terms(self) -> tuple[Term, ...] | None:
        """Of which one must match a Node; None where all Nodes will do."""
        affinity = self.spec.node_affinity
        required = None if affinity is None else affinity.required
        return None if required is None else required.node_selector_terms or ()


class ListMeta(Wire, frozen=True, gc=False):
    """Where a list stands in time, and the token for its next page."""

    resource_version: str = ""
    continue_: str | None = msgspec.field(name="continue", default=None)


class ItemList(Wire, Generic[T], frozen=True, gc=False):
    """One page of a list. A Go server may send null for no items; JSON without the field is not a
    list of no items.
    """

    metadata: ListMeta
    items: tuple[T, ...] | None


class Identified(Wire, frozen=True, gc=False):
    """Any object, of which only the identity is of interest."""

    metadata: ObjectMeta


class Done(Wire, frozen=True, gc=False):
    """What the answer to a write begins with: the object, as it is now, or a Status."""

    kind: str


class Outcome(Wire, frozen=True, gc=False):
    """The Status of a write: "Success", or "Failure"."""

    status: str


class StatusCause(Wire, frozen=True, gc=False):
    """One of the causes of a refusal, by its word."""

    reason: str = ""


class StatusDetails(Wire, frozen=True, gc=False):
    """The machine's part of a Status."""

    retry_after_seconds: float | None = None
    causes: tuple[StatusCause, ...] = ()


class Status(Wire, frozen=True, gc=False):
    """The body of an error answer, and of an ERROR event."""

    kind: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None

    @property
    def retry_after_seconds(self) -> float | None:
        """Seconds the server asks to wait, where it does."""
        return None if self.details is None else self.details.retry_after_seconds

    @property
    def causes(self) -> tuple[str, ...]:
        """The words of its causes."""
        return () if self.details is None else tuple(it.reason for it in self.details.causes)


class Added(Wire, Generic[T], frozen=True, gc=False, tag_field="type", tag="ADDED"):
    """An object has come, or was there when the watch began."""

    object: T


class Modified(Wire, Generic[T], frozen=True, gc=False, tag_field="type", tag="MODIFIED"):
    """An object has changed."""

    object: T


class Deleted(Wire, Generic[T], frozen=True, gc=False, tag_field="type", tag="DELETED"):
    """An object is no more; `object` is its last state."""

    object: T


class Bookmark(Wire, frozen=True, gc=False, tag_field="type", tag="BOOKMARK"):
    """Nothing happened up to this version; `object` is empty but for its resourceVersion."""

    object: Identified


class WatchError(Wire, frozen=True, gc=False, tag_field="type", tag="ERROR"):
    """The watch has failed; nothing follows."""

    object: Status


WatchEvent = Added[T] | Modified[T] | Deleted[T] | Bookmark | WatchError


def decoder(kind: type[T]) -> Callable[[bytes], T]:
    """A function from JSON bytes to that type; it raises KubeGarbled on anything else."""
    strict = msgspec.json.Decoder(kind)

    def decode(data: bytes) -> T:
        try:
            return strict.decode(data)
        except msgspec.ValidationError:
            return _decode_without_nulls(data, kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise KubeGarbled(f"not JSON: {error}") from error

    return decode


def _decode_without_nulls(data: bytes, kind: type[T]) -> T:
    try:
        return msgspec.convert(_without_nulls(json.loads(data)), kind)
    except (ValueError, RecursionError) as error:  # msgspec's ValidationError is a ValueError
        raise KubeGarbled(f"not a {getattr(kind, '__name__', 'watch event')}: {error}") from error


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


@dataclass(frozen=True, slots=True)
class Decode(Generic[T]):
    """How to read a resource: pages of its list, and lines of its watch."""

    page: Callable[[bytes], ItemList[T]]
    event: Callable[[bytes], WatchEvent[T]]


_EVENT: Any = WatchEvent  # a union is no `type` to the type checker
PODS: Decode[Pod] = Decode(decoder(ItemList[Pod]), decoder(_EVENT[Pod]))
NODES: Decode[Node] = Decode(decoder(ItemList[Node]), decoder(_EVENT[Node]))
CLAIMS: Decode[Claim] = Decode(decoder(ItemList[Claim]), decoder(_EVENT[Claim]))
VOLUMES: Decode[PersistentVolume] = Decode(
    decoder(ItemList[PersistentVolume]), decoder(_EVENT[PersistentVolume])
)
IDENTIFIED: Decode[Identified] = Decode(decoder(ItemList[Identified]), decoder(_EVENT[Identified]))

decode_pod = decoder(Pod)
decode_identified = decoder(Identified)
decode_status = decoder(Status)
_decode_done = decoder(Done)
_decode_outcome = decoder(Outcome)


def check_done(data: bytes) -> None:
    """Raises KubeGarbled where the answer to a write, of status 2xx, is not the API server's word
    that it is done: then it may be, or not.
    """
    if _decode_done(data).kind == "Status" and _decode_outcome(data).status != "Success":
        raise KubeGarbled("a Status that is no success, with an HTTP status that is one")
