"""A Kubernetes in a few lines: pods that tests create and end, and a watch that lags.
`test_tiny_kube.py` holds its answers to those of the sandbox's API server.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from annotations import Rules
from scheduler.core.gang_objects import (
    GroupObject,
    GroupStatus,
    PluginsPodGroup,
    PluginsPodGroupStatus,
    PodGroup,
)
from scheduler.core.gang_sources import GroupRef
from scheduler.core.node_suitability import Taint
from scheduler.kube.api import (
    AlreadyBound,
    Bound,
    Condition,
    DeletionAccepted,
    Gone,
    Held,
    Patched,
    Refused,
)
from scheduler.kube.errors import KubeInterrupted
from scheduler.kube.neighbours import Neighbour, NeighbourStore, neighbour
from scheduler.kube.slim import slim
from scheduler.kube.store import Joined, Store
from scheduler.kube.wire import (
    Claim,
    Container,
    ContainerState,
    ContainerStatus,
    Namespace,
    Node,
    NodeCondition,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    OwnerReference,
    PersistentVolume,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    SchedulingGate,
    StateTerminated,
)
from tests.unit.service.tiny_slurm import NODES

ALLOCATABLE: Final = {"cpu": "256", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}


class TinyKube:
    """Pods by uid; what changes is shown by the watch a moment later."""

    def __init__(self, *, lag: float = 0.01) -> None:
        self.pods: dict[str, Pod] = {}
        self.store = Joined[Pod]()
        self._mirror = self.store.new()
        self.nodes = Store[Node]()
        self.namespaces = Store[Namespace]()
        self.claims = Joined[Claim]()
        self._claims = self.claims.new()
        self.volumes = Store[PersistentVolume]()
        self.on_claim_change: Callable[[Claim | None, Claim | None], None] = lambda _old, _new: None
        self.lag = lag
        self.on_node_change: Callable[[Node | None, Node | None], None] = lambda _old, _new: None
        self.on_change: Callable[[str], None] = lambda _uid: None
        self.neighbours = NeighbourStore()
        self.on_neighbour_change: Callable[[Neighbour | None, Neighbour | None], None] = (
            lambda _old, _new: None
        )
        self.groups: dict[str, GroupObject] = {}
        """The objects behind gangs, by name."""
        self.statuses: list[dict[str, object]] = []
        """What was written into their statuses."""
        self.bindings: list[tuple[str, str]] = []
        self.deleted: list[str] = []
        self.graces: list[int | None] = []
        self.evictions = 0
        self.budget_holds = False
        """Evictions of pods that run are not allowed."""
        self.lose_next_binding = False
        self.patches: list[tuple[str, tuple[Condition, ...]]] = []
        self.fail: defaultdict[str, deque[Exception]] = defaultdict(deque)
        self.asked: Counter[str] = Counter()
        """How often the API server was asked for each operation."""
        self.seconds: dict[tuple[str, str], float] = {}
        """How long the API server takes over "bind", "patch" or "delete" in a namespace, where a
        webhook is slow there.
        """
        self.refuses: dict[str, str] = {}
        """What the API server says to "bind" or "patch" for as long as it refuses that."""
        self.on_bind: Callable[[str, str], None] = lambda _uid, _node: None
        self.on_delete: Callable[[str], None] = lambda _uid: None
        self.says_time = True
        """Whether the API server's answers have a Date."""
        self._began = int(time.time())
        self._loop = asyncio.get_running_loop()
        self._unseen: deque[tuple[str, Callable[[], object]]] = deque()
        self._version = 0
        for name in NODES:
            self.set_node(name)

    # --- the adapter's face

    async def bind(
        self,
        namespace: str,
        name: str,
        uid: str,
        *,
        node: str,
        annotations: Mapping[str, str] | None = None,
    ) -> Bound | AlreadyBound | Refused | Gone:
        await self._call("bind", namespace)
        if "bind" in self.refuses:
            return Refused(self.refuses["bind"])
        pod = self.pods.get(uid)
        if pod is None:
            return Gone()
        if pod.spec.node_name:
            return Bound() if pod.spec.node_name == node else AlreadyBound(pod.spec.node_name)
        if pod.metadata.deletion_timestamp is not None:
            return Gone()
        self.on_bind(uid, node)
        self.bindings.append((uid, node))
        self._annotate(
            uid, annotations or {}, spec=msgspec.structs.replace(pod.spec, node_name=node)
        )
        if self.lose_next_binding:
            self.lose_next_binding = False
            raise KubeInterrupted("the answer was lost")
        return Bound()

    async def delete_pod(
        self, namespace: str, name: str, uid: str, *, grace_seconds: int | None = None
    ) -> DeletionAccepted | Gone:
        await self._call("delete", namespace)
        if uid not in self.pods:
            return Gone()
        self.on_delete(uid)
        self.deleted.append(uid)
        self.graces.append(grace_seconds)
        self.delete(uid, grace=grace_seconds)
        return DeletionAccepted()

    async def evict_pod(
        self, namespace: str, name: str, uid: str, *, grace_seconds: int | None = None
    ) -> DeletionAccepted | Held | Gone:
        await self._call("evict", namespace)
        self.evictions += 1
        if self.budget_holds and uid in self.pods and _asks_budgets(self.pods[uid]):
            return Held()
        return await self.delete_pod(namespace, name, uid, grace_seconds=grace_seconds)

    async def patch_pod_status(
        self,
        namespace: str,
        name: str,
        uid: str,
        *,
        conditions: Sequence[Condition] = (),
        annotations: Mapping[str, str | None] | None = None,
    ) -> Patched | Refused | Gone:
        await self._call("patch", namespace)
        if "patch" in self.refuses:
            return Refused(self.refuses["patch"])
        if uid not in self.pods:
            return Gone()
        self.patches.append((uid, tuple(conditions)))
        self._annotate(uid, annotations or {})
        return Patched()

    async def server_time(self) -> float | None:
        await self._call("version", "")
        return self.now() if self.says_time else None

    async def get_pod(self, namespace: str, name: str) -> Pod | None:
        await self._call("get", namespace)
        named = (it for it in self.pods.values() if it.metadata.name == name)
        return next((it for it in named if it.metadata.namespace == namespace), None)

    async def get_group(self, ref: GroupRef) -> GroupObject | None:
        await self._call("get_group", ref.namespace)
        return self.groups.get(ref.name)

    async def patch_group_status(
        self, ref: GroupRef, *, version: str, status: Mapping[str, object]
    ) -> Patched | Refused | Gone:
        await self._call("patch_group", ref.namespace)
        if "patch_group" in self.refuses:
            return Refused(self.refuses["patch_group"])
        if ref.name not in self.groups:
            return Gone()
        self.statuses.append(dict(status))
        self.groups[ref.name] = _with_status(self.groups[ref.name], status)
        return Patched()

    async def _call(self, operation: str, namespace: str) -> None:
        self.asked[operation] += 1
        await asyncio.sleep(self.seconds.get((namespace, operation), 0.002))
        if self.fail[operation]:
            raise self.fail[operation].popleft()

    # --- the test's hands

    def now(self) -> int:
        """By its clock, in seconds of the epoch; it goes on as the event loop's time does."""
        return self._began + int(self._loop.time())

    def list_again(self) -> None:
        """The watch begins anew, with a list."""
        self._mirror.replace(map(_watched, self.pods.values()))
        for uid in self.pods:
            self._loop.call_soon(self.on_change, uid)

    def lose(self, uid: str) -> None:
        """A list comes that lacks the pod, though it is there. Changes of it that the watch has not
        shown yet are never shown.
        """
        self._unseen = deque(it for it in self._unseen if it[0] != uid)
        self._mirror.remove(uid)
        self._loop.call_soon(self.on_change, uid)

    def relist(self) -> None:
        """A new process sees the pods as they are."""
        self.store = Joined[Pod]()
        self._mirror = self.store.new()
        self._mirror.replace(map(_watched, self.pods.values()))

    def show_only(self, pods: Sequence[Pod]) -> None:
        """The watch lists anew, and these are all that it is told of, right or wrong."""
        for change in self._mirror.replace(pods):
            found = change.new or change.old
            if found is not None:
                self.on_change(found.metadata.uid)

    def create(
        self,
        uid: str,
        *,
        name: str = "train",
        namespace: str = "ns",
        node: str = "",
        annotations: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        owner: OwnerReference | None = None,
        cpu: str = "4",
        memory: str = "1Gi",
        gpus: int = 0,
        gates: Sequence[str] = (),
        selector: Mapping[str, str] | None = None,
        spec: PodSpec | None = None,
        created: datetime | None = None,
        phase: str = "Pending",
    ) -> None:
        requests: dict[str, str | int | float] = {"cpu": cpu, "memory": memory} if cpu else {}
        requests |= {"nvidia.com/gpu": gpus} if gpus else {}
        self._put(
            Pod(
                ObjectMeta(
                    name=name,
                    namespace=namespace,
                    uid=uid,
                    annotations=dict(annotations or {}),
                    labels=dict(labels or {}),
                    owner_references=() if owner is None else (owner,),
                    creation_timestamp=created,
                ),
                spec
                or PodSpec(
                    node_name=node,
                    termination_grace_period_seconds=20,
                    node_selector=dict(selector or {}),
                    scheduling_gates=tuple(map(SchedulingGate, gates)),
                    containers=(
                        Container(name="c", resources=ResourceRequirements(requests=requests)),
                    ),
                ),
                PodStatus(phase=phase),
            )
        )

    def edit(self, uid: str, annotations: Mapping[str, str | None]) -> None:
        """As `kubectl annotate`; None takes one away."""
        self._annotate(uid, annotations)

    def delete(self, uid: str, *, grace: int | None = None) -> None:
        """As `kubectl delete`: an unbound pod goes at once, a bound one when its containers end. A
        second deletion can only shorten the grace.
        """
        pod = self.pods[uid]
        over = pod.status.phase in {"Succeeded", "Failed"}
        if not pod.spec.node_name or over or grace == 0:
            self._remove(uid)
        else:
            given = pod.spec.termination_grace_period_seconds if grace is None else grace
            before = pod.metadata.deletion_grace_period_seconds
            meta = msgspec.structs.replace(
                pod.metadata,
                deletion_timestamp=pod.metadata.deletion_timestamp or datetime.now(UTC),
                deletion_grace_period_seconds=given if before is None else min(before, given),
            )
            self._put(msgspec.structs.replace(pod, metadata=meta))

    def release(self, uid: str) -> None:
        """Somebody takes a pod away from its controller, to look at it alone."""
        pod = self.pods[uid]
        meta = msgspec.structs.replace(pod.metadata, labels={}, owner_references=())
        self._put(msgspec.structs.replace(pod, metadata=meta))

    def force_delete(self, uid: str) -> None:
        """As `kubectl delete --force --grace-period=0`: nobody waits for the kubelet. The API
        server writes the deletion, with a grace of 0, before it removes the pod.
        """
        pod = self.pods[uid]
        meta = msgspec.structs.replace(
            pod.metadata, deletion_timestamp=datetime.now(UTC), deletion_grace_period_seconds=0
        )
        self._put(msgspec.structs.replace(pod, metadata=meta))
        self._remove(uid)

    def force_delete_unseen(self, uid: str) -> None:
        """The same while the watch is broken: only a new list shows it."""
        del self.pods[uid]
        self.lose(uid)

    def end_containers(self, uid: str) -> None:
        """The containers have stopped, and the kubelet says so."""
        pod = self.pods[uid]
        if pod.metadata.deletion_timestamp is not None:
            ended = ContainerState(terminated=StateTerminated(exit_code=143))
            statuses = tuple(ContainerStatus(it.name, ended) for it in pod.spec.containers)
            status = PodStatus(phase="Running", container_statuses=statuses)
            self._put(msgspec.structs.replace(pod, status=status))
            self._remove(uid)
        else:
            self._put(msgspec.structs.replace(pod, status=PodStatus(phase="Succeeded")))

    def report(self, uid: str, status: PodStatus) -> None:
        """The kubelet says how the pod does."""
        self._put(msgspec.structs.replace(self.pods[uid], status=status))

    def runs(self, uid: str) -> bool:
        """Whether containers of it may run."""
        pod = self.pods.get(uid)
        if pod is None or pod.status.phase in {"Succeeded", "Failed"}:
            return False
        return bool(pod.spec.node_name)

    def condition_of(self, uid: str) -> Condition | None:
        """The last PodScheduled condition that was written."""
        written = [c for seen, conditions in self.patches if seen == uid for c in conditions]
        return next((c for c in reversed(written) if c.type == "PodScheduled"), None)

    def set_node(
        self,
        name: str,
        *,
        ready: bool = True,
        taints: tuple[Taint, ...] = (),
        labels: Mapping[str, str] | None = None,
        **allocatable: str,
    ) -> None:
        status = NodeStatus(
            conditions=(NodeCondition("Ready", "True" if ready else "False"),),
            allocatable={**ALLOCATABLE, **allocatable},
        )
        meta = ObjectMeta(name=name, uid=f"node-{name}", labels=dict(labels or {}))
        node = Node(meta, NodeSpec(taints=taints), status)
        for change in self.nodes.apply(node):
            self._loop.call_soon(self.on_node_change, change.old, change.new)

    def set_claim(self, claim: Claim) -> None:
        """A PersistentVolumeClaim has come or changed."""
        for change in self._claims.apply(claim):
            self.on_claim_change(change.old, change.new)

    def add_neighbour(self, pod: Pod) -> None:
        """A pod on a Node, of another scheduler, as the watch of pods on Nodes shows it."""
        found = neighbour(pod)
        for change in self.neighbours.apply(found):
            self.on_neighbour_change(change.old, change.new)

    def remove_neighbour(self, uid: str) -> None:
        """It is gone, or has ended."""
        for change in self.neighbours.remove(uid):
            self.on_neighbour_change(change.old, change.new)

    def _annotate(
        self, uid: str, annotations: Mapping[str, str | None], *, spec: PodSpec | None = None
    ) -> None:
        pod = self.pods[uid]
        both = {**pod.metadata.annotations, **annotations}
        left = {name: value for name, value in both.items() if value is not None}
        meta = msgspec.structs.replace(pod.metadata, annotations=left)
        self._put(msgspec.structs.replace(pod, metadata=meta, spec=spec or pod.spec))

    def _put(self, pod: Pod) -> None:
        self._version += 1
        meta = msgspec.structs.replace(pod.metadata, resource_version=str(self._version))
        stored = msgspec.structs.replace(pod, metadata=meta)
        self.pods[meta.uid] = stored
        mirror = self._mirror
        self._show(meta.uid, lambda: mirror.apply(_watched(stored)))

    def _remove(self, uid: str) -> None:
        del self.pods[uid]
        mirror = self._mirror
        self._show(uid, lambda: mirror.remove(uid))

    def _show(self, uid: str, change: Callable[[], object]) -> None:
        self._unseen.append((uid, change))
        self._loop.call_later(self.lag, self._deliver)  # timers of one moment have no order

    def _deliver(self) -> None:
        if not self._unseen:
            return  # it was of a pod that is gone
        uid, change = self._unseen.popleft()
        change()
        self.on_change(uid)


def _asks_budgets(pod: Pod) -> bool:
    """A pod that has not begun to run, or that leaves anyway, is evicted at once."""
    return pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None


def _with_status(group: GroupObject, status: Mapping[str, object]) -> GroupObject:
    """The object with that status; we are the only writer."""
    if isinstance(group, PodGroup):
        found = msgspec.convert(status, GroupStatus)
        return msgspec.structs.replace(group, status=found)
    assert isinstance(group, PluginsPodGroup)
    return msgspec.structs.replace(group, status=msgspec.convert(status, PluginsPodGroupStatus))


def _watched(pod: Pod) -> Pod:
    """What the watch keeps of it."""
    return slim(pod, Rules().prefixes)
