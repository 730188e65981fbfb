"""The parts of Kubernetes objects that we read.

The types hold only the fields that we need. So decoding is 70 times faster than with generated
models, and the cache is a tenth of the size. `gc=False` is safe because these values (strings,
numbers, tuples, flat dicts) cannot form a cycle.

A real API server omits empty fields, except for a few that it sends as null; the types of those
allow None. If an answer has any other null, `decoder` decodes it a second, slower way, which drops
nulls.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from scheduler.core.node_requests import allocatable
from scheduler.core.node_suitability import (
    NodeFacts,
    Requirement,
    Taint,
    Term,
    Toleration,
    Wishes,
)
from scheduler.kube.clip import clipped
from scheduler.kube.depth import shallow
from scheduler.kube.errors import KubeGarbled, KubeTooDeep
from scheduler.kube.shape import Shape

MOST_NAMESPACE_LABELS: Final = 128
"""How many labels of a Namespace are stored. The rules of a policy may ask for them."""
MOST_NAME_BYTES: Final = 256
"""A little more than the longest name of an object, which has 253."""

T = TypeVar("T")
U = TypeVar("U")
Quantity = str | int | float


class Wire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The base of all types here: immutable, and camelCase in JSON."""


class OwnerReference(Wire, frozen=True, gc=False):
    """An owner of an object; `controller` marks the one that manages it."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool = False


class Identity(Wire, frozen=True, gc=False):
    """The part of an object's metadata that the API server writes. The uid identifies the object; a
    name can be used again.
    """

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: datetime | None = None


class LabelledMeta(Identity, frozen=True, gc=False):
    """The identity, and the labels."""

    labels: dict[str, str] = {}


class ObjectMeta(LabelledMeta, frozen=True, gc=False):
    """All that is read of an object's metadata."""

    creation_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()


class ResourceRequirements(Wire, frozen=True, gc=False):
    """Quantities by resource name: strings from a real server, but numbers are legal JSON."""

    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}


class ContainerPort(Wire, frozen=True, gc=False):
    """A port of a container; `host_port` is the port on the Node, 0 if there is none."""

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
    """A gate: while a pod has any, it must not be scheduled."""

    name: str = ""


class NodeSelector(Wire, frozen=True, gc=False):
    """Terms; at least one must match. Neither null nor an empty list matches anything."""

    node_selector_terms: tuple[Term, ...] | None = ()


class NodeAffinity(Wire, frozen=True, gc=False):
    """Which Nodes a pod requires. Its preferences are left to Slurm."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


class LabelSelector(Wire, frozen=True, gc=False):
    """All of its parts must match. An empty selector matches everything."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[Requirement, ...] = ()


class PodAffinityTerm(Wire, frozen=True, gc=False):
    """Selects other pods by label and namespace. Nodes with the same value of the label
    `topology_key` count as near to each other.
    """

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None


class PodAffinity(Wire, frozen=True, gc=False):
    """Which other pods a pod requires near it, or far from it."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()


class Aversion(Wire, frozen=True, gc=False):
    """The part of a pod's affinity that concerns other pods, once it is on a Node."""

    pod_anti_affinity: PodAffinity | None = None


class Affinity(Aversion, frozen=True, gc=False):
    """A pod's affinity; only the required part is read."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Wire, frozen=True, gc=False):
    """How evenly pods must be spread over the values of a Node label."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    match_label_keys: tuple[str, ...] = ()
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None


class ClaimSource(Wire, frozen=True, gc=False):
    """The PersistentVolumeClaim behind a volume."""

    claim_name: str = ""


class EphemeralSource(Wire, frozen=True, gc=False):
    """A claim that Kubernetes creates for this pod, named after the pod and the volume."""


class Volume(Wire, frozen=True, gc=False):
    """A volume; only the kinds with a claim are read."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: EphemeralSource | None = None


class PodResourceClaim(Wire, frozen=True, gc=False):
    """A device that the pod requests by a ResourceClaim."""

    name: str = ""


class SchedulingGroup(Wire, frozen=True, gc=False):
    """The PodGroup that the pod belongs to."""

    pod_group_name: str | None = None


class ResidentSpec(Wire, frozen=True, gc=False):
    """The Node that a pod is bound to, and what it has there."""

    node_name: str = ""
    scheduler_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: dict[str, Quantity] = {}
    affinity: Aversion | None = None
    resources: ResourceRequirements | None = None


class PodSpec(ResidentSpec, frozen=True, gc=False):
    """What a pod asks for, and the Node that it is bound to."""

    hostname: str = ""
    termination_grace_period_seconds: int = 30
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    priority: int | None = None
    priority_class_name: str = ""
    restart_policy: str = "Always"
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    active_deadline_seconds: int | None = None
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    scheduling_group: SchedulingGroup | None = None

    @property
    def wishes(self) -> Wishes:
        """The Nodes that the pod accepts."""
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
    """The container runs."""

    started_at: datetime | None = None


class StateWaiting(Wire, frozen=True, gc=False):
    """The container has not started yet, or will be started again."""

    reason: str = ""
    message: str = ""


class StateTerminated(Wire, frozen=True, gc=False):
    """The container has ended."""

    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""


class ContainerState(Wire, frozen=True, gc=False):
    """The state of a container. At most one field is set; if none is, the container waits."""

    running: StateRunning | None = None
    waiting: StateWaiting | None = None
    terminated: StateTerminated | None = None


class ContainerStatus(Wire, frozen=True, gc=False):
    """The kubelet's report on one container."""

    name: str = ""
    state: ContainerState = ContainerState()
    ready: bool = False
    restart_count: int = 0
    resources: ResourceRequirements | None = None
    """What the container has now. A resize may be about to change it."""
    allocated_resources: dict[str, Quantity] = {}


class ResidentStatus(Wire, frozen=True, gc=False):
    """The part of a pod's state that says whether it was resized."""

    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class PodStatus(ResidentStatus, frozen=True, gc=False):
    """The state of a pod, as the kubelet and others report it."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    start_time: datetime | None = None


_FINISHED = frozenset({"Succeeded", "Failed"})


class Oversize(Wire, frozen=True, gc=False):
    """For a pod that is too large to be kept: which part is too large, the total size, and the
    limit. Of a pod on a Node `labels` (packed) and `shape` have what was dropped and other pods
    depend on.
    """

    part: str
    size: str
    most: str
    labels: str = ""
    shape: Shape | None = None


class Resident(Wire, frozen=True, gc=False):
    """A pod on a Node, of whatever scheduler: only what other pods depend on is read."""

    metadata: LabelledMeta
    spec: ResidentSpec = ResidentSpec()
    status: ResidentStatus = ResidentStatus()

    def condition(self, kind: str) -> PodCondition | None:
        """The condition of this type; None if the pod has none."""
        for condition in self.status.conditions:
            if condition.type == kind:
                return condition
        return None


class Pod(Resident, frozen=True, gc=False):
    """A pod. `oversize` says that parts of it were dropped as too large; no server sends it."""

    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
    oversize: Oversize | None = msgspec.field(name="-", default=None)

    @property
    def finished(self) -> bool:
        """Whether its containers have stopped for good."""
        return self.status.phase in _FINISHED

    @property
    def succeeded(self) -> bool:
        """Whether all its containers have ended without an error."""
        return self.status.phase == "Succeeded"

    def bound_to(self, node: str) -> Pod:
        """The pod as it is once it is bound to that Node."""
        spec = msgspec.structs.replace(self.spec, node_name=node)
        return msgspec.structs.replace(self, spec=spec)


class NodeSpec(Wire, frozen=True, gc=False):
    """What an administrator has set on a Node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = msgspec.field(name="providerID", default="")


class NodeCondition(Wire, frozen=True, gc=False):
    """One condition of a Node."""

    type: str
    status: str
    reason: str = ""


class NodeAddress(Wire, frozen=True, gc=False):
    """One address of a Node; `type` is Hostname, InternalIP, ..."""

    type: str
    address: str


class NodeStatus(Wire, frozen=True, gc=False):
    """The kubelet's report on a Node."""

    conditions: tuple[NodeCondition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    allocatable: dict[str, Quantity] = {}


class Node(Wire, frozen=True, gc=False):
    """A Node. Heartbeat times and image lists, which make up most of its size, are not read."""

    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def ready(self) -> bool:
        """Whether its Ready condition is True."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)

    @property
    def facts(self) -> NodeFacts:
        """What decides whether a pod may run on this Node."""
        return NodeFacts(
            name=self.metadata.name,
            labels=self.metadata.labels,
            taints=self.spec.taints,
            ready=self.ready,
            unschedulable=self.spec.unschedulable,
            allocatable=allocatable(self.status.allocatable),
        )


class ClaimSpec(Wire, frozen=True, gc=False):
    """The volume that a claim is bound to; "" if it is not bound yet."""

    volume_name: str = ""


class Claim(Wire, frozen=True, gc=False):
    """A PersistentVolumeClaim. `completed` says that its binding to a volume is complete."""

    metadata: Identity
    spec: ClaimSpec = ClaimSpec()
    completed: bool = False

    @property
    def bound(self) -> bool:
        """Whether the claim has a volume, by kube-scheduler's criterion."""
        return bool(self.spec.volume_name) and self.completed


class ClaimAnnotations(Wire, frozen=True, gc=False):
    """The one annotation of a claim that is read, whatever its value."""

    completed: str | None = msgspec.field(name="pv.kubernetes.io/bind-completed", default=None)


class ClaimMeta(Identity, frozen=True, gc=False):
    """The metadata of a claim."""

    annotations: ClaimAnnotations = ClaimAnnotations()


class SentClaim(Wire, frozen=True, gc=False):
    """A PersistentVolumeClaim as the API server sends it. Its author may write a megabyte into it,
    so `kept` is what is stored.
    """

    metadata: ClaimMeta
    spec: ClaimSpec = ClaimSpec()

    @property
    def kept(self) -> Claim:
        """The claim without what is not used. No volume has a name that is longer than here."""
        meta = self.metadata
        return Claim(
            Identity(
                name=meta.name,
                namespace=meta.namespace,
                uid=meta.uid,
                resource_version=meta.resource_version,
                deletion_timestamp=meta.deletion_timestamp,
            ),
            ClaimSpec(clipped(self.spec.volume_name, MOST_NAME_BYTES)),
            meta.annotations.completed is not None,
        )


class VolumeNodeAffinity(Wire, frozen=True, gc=False):
    """The Nodes from which a volume can be reached."""

    required: NodeSelector | None = None


class ClaimRef(Wire, frozen=True, gc=False):
    """The claim that a volume belongs to. `uid` is "" until the binding is complete."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class PersistentVolumeSpec(Wire, frozen=True, gc=False):
    """A volume's restrictions on Nodes, and its claim; None if it belongs to none."""

    node_affinity: VolumeNodeAffinity | None = None
    claim_ref: ClaimRef | None = None


class PersistentVolume(Wire, frozen=True, gc=False):
    """A PersistentVolume."""

    metadata: Identity
    spec: PersistentVolumeSpec = PersistentVolumeSpec()

    @property
    def terms(self) -> tuple[Term, ...] | None:
        """Terms, one of which must match a Node; None if all Nodes can reach the volume."""
        affinity = self.spec.node_affinity
        required = None if affinity is None else affinity.required
        return None if required is None else required.node_selector_terms or ()

    def belongs_to(self, claim: Claim) -> bool:
        """Whether it is bound to this claim, by the criterion of Kubernetes' volume controller. A
        claim alone proves nothing: its author can name any volume in it, and mark it as bound.
        """
        meta, ref = claim.metadata, self.spec.claim_ref
        if ref is None or (ref.namespace, ref.name) != (meta.namespace, meta.name):
            return False
        return ref.uid in ("", meta.uid)


class ListMeta(Wire, frozen=True, gc=False):
    """A list's version, and the token for its next page."""

    resource_version: str = ""
    continue_: str | None = msgspec.field(name="continue", default=None)


class ItemList(Wire, Generic[T], frozen=True, gc=False):
    """One page of a list. A Go server may send null if there are no items. JSON without the field
    `items` is not a list.
    """

    metadata: ListMeta
    items: tuple[T, ...] | None


class Identified(Wire, frozen=True, gc=False):
    """Any object, reduced to its metadata."""

    metadata: ObjectMeta


class Namespace(Wire, frozen=True, gc=False):
    """A Namespace."""

    metadata: LabelledMeta

    @property
    def kept(self) -> Namespace:
        """The Namespace with no more labels than are stored."""
        labels = self.metadata.labels
        if len(labels) <= MOST_NAMESPACE_LABELS:
            return self
        few = dict(islice(labels.items(), MOST_NAMESPACE_LABELS))
        return replace(self, metadata=replace(self.metadata, labels=few))


class Done(Wire, frozen=True, gc=False):
    """The kind of an answer to a write: that of the object as it is now, or Status."""

    kind: str


class Outcome(Wire, frozen=True, gc=False):
    """The Status of a write: "Success" or "Failure"."""

    status: str


class StatusCause(Wire, frozen=True, gc=False):
    """One cause of a refusal, as a code word."""

    reason: str = ""


class StatusDetails(Wire, frozen=True, gc=False):
    """The machine-readable part of a Status."""

    retry_after_seconds: float | None = None
    causes: tuple[StatusCause, ...] = ()


class Status(Wire, frozen=True, gc=False):
    """The body of an error answer, or the object of an ERROR event."""

    kind: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None

    @property
    def retry_after_seconds(self) -> float | None:
        """For how many seconds the server asks us to wait; None if it does not ask."""
        return None if self.details is None else self.details.retry_after_seconds

    @property
    def causes(self) -> tuple[str, ...]:
        """The code words of all causes."""
        return () if self.details is None else tuple(it.reason for it in self.details.causes)


class Added(Wire, Generic[T], frozen=True, gc=False, tag_field="type", tag="ADDED"):
    """An object was created, or existed when the watch began."""

    object: T


class Modified(Wire, Generic[T], frozen=True, gc=False, tag_field="type", tag="MODIFIED"):
    """An object has changed."""

    object: T


class Deleted(Wire, Generic[T], frozen=True, gc=False, tag_field="type", tag="DELETED"):
    """An object was deleted; `object` is its last state."""

    object: T


class Bookmark(Wire, frozen=True, gc=False, tag_field="type", tag="BOOKMARK"):
    """Nothing else has happened up to this version; `object` has only a resourceVersion."""

    object: Identified


class WatchError(Wire, frozen=True, gc=False, tag_field="type", tag="ERROR"):
    """The watch has failed and ends here."""

    object: Status


WatchEvent = Added[T] | Modified[T] | Deleted[T] | Bookmark | WatchError
_EVENT: Any = WatchEvent  # for mypy, a union is not a `type`


def decoder(kind: type[T]) -> Callable[[bytes | msgspec.Raw], T]:
    """A function that decodes JSON into that type. It raises KubeGarbled for any other input, and
    KubeTooDeep for what may be that type, but is nested too deeply to be decoded as it is.
    """
    strict = msgspec.json.Decoder(kind)

    def decode(data: bytes | msgspec.Raw) -> T:
        try:
            return strict.decode(data)
        except msgspec.ValidationError:
            return _decode_without_nulls(data, kind)
        except RecursionError as error:
            raise KubeTooDeep(f"nested too deeply: {error}") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise KubeGarbled(f"not JSON: {error}") from error

    return decode


def _decode_without_nulls(data: bytes | msgspec.Raw, kind: type[T]) -> T:
    try:
        return msgspec.convert(_without_nulls(json.loads(bytes(data))), kind)
    except RecursionError as error:
        raise KubeTooDeep(f"nested too deeply: {error}") from error
    except ValueError as error:  # msgspec's ValidationError is one
        raise KubeGarbled(f"not a {getattr(kind, '__name__', 'watch event')}: {error}") from error


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


pieces: Callable[[bytes], ItemList[msgspec.Raw]] = decoder(ItemList[msgspec.Raw])
"""Splits a page into the JSON of its items. They are decoded one by one, because a page may have
hundreds of megabytes, of which a few at a time become objects.
"""


@dataclass(frozen=True, slots=True)
class Decode(Generic[T]):
    """How to decode a resource: items of its list, and lines of its watch."""

    item: Callable[[bytes | msgspec.Raw], T]
    event: Callable[[bytes], WatchEvent[T]]

    def page(self, data: bytes) -> ItemList[T]:
        """A page of its list, all at once: for callers who have nothing else to do meanwhile."""
        try:
            found = pieces(data)
        except KubeTooDeep:
            found = pieces(shallow(data))
        return ItemList(found.metadata, tuple(map(self.item, found.items or ())))


def decode_of(kind: type[T]) -> Decode[T]:
    """Decodes a resource whose objects are of this type."""
    return Decode(decoder(kind), decoder(_EVENT[kind]))


def mapped(decode: Decode[T], change: Callable[[T], U]) -> Decode[U]:
    """The same, but each object is replaced by what `change` makes of it."""
    return mapped_by_size(decode, lambda it, _size: change(it))


def mapped_by_size(decode: Decode[T], change: Callable[[T, int], U]) -> Decode[U]:
    """The same, but `change` is also given the length of the object's JSON in bytes, or a little
    more.
    """

    def item(data: bytes | msgspec.Raw) -> U:
        return change(decode.item(data), memoryview(data).nbytes)

    def event(line: bytes) -> WatchEvent[U]:
        size = len(line)
        match found := decode.event(line):
            case Added(object=it):
                return Added(change(it, size))
            case Modified(object=it):
                return Modified(change(it, size))
            case Deleted(object=it):
                return Deleted(change(it, size))
            case _:
                return found

    return Decode(item, event)


PAGE_SIZE = 500
"""How many objects of a long list are asked for at once."""

PODS = decode_of(Pod)
RESIDENTS = decode_of(Resident)
NODES = decode_of(Node)
CLAIMS = mapped(decode_of(SentClaim), lambda it: it.kept)
VOLUMES = decode_of(PersistentVolume)
NAMESPACES = mapped(decode_of(Namespace), lambda it: it.kept)

decode_pod = decoder(Pod)
decode_identified = decoder(Identified)
decode_status = decoder(Status)
_decode_done = decoder(Done)
_decode_outcome = decoder(Outcome)


def check_done(data: bytes) -> None:
    """Check that this answer with status 2xx is the API server's confirmation of a write. Raises
    KubeGarbled if it is not; then it is unknown whether the write was done.
    """
    if _decode_done(data).kind == "Status" and _decode_outcome(data).status != "Success":
        raise KubeGarbled("the HTTP status says success, but the Status object does not")
