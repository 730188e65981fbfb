"""Reduces a pod to the fields that we read, and limits their size in bytes.

A pod may take 1.5 MiB in etcd, and its author decides which parts are large. Annotations that are
not ours are dropped, except for those that say to which gang the pod belongs. If the other parts
exceed the limit, they are dropped too, and the pod is marked (`Pod.oversize`). The scheduler then
refuses it with a message.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from scheduler.core.annotation_size import crowded
from scheduler.core.gang_sources import OTHERS_ANNOTATIONS
from scheduler.core.labels import packed
from scheduler.core.naming import ENDS_AT, GANG, JOB_ID, JOB_NODES, JOB_PARTITION
from scheduler.kube.clip import clipped
from scheduler.kube.neighbours import seen_by_others
from scheduler.kube.wire import (
    ContainerState,
    ContainerStatus,
    Decode,
    ObjectMeta,
    Oversize,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    mapped_by_size,
)

MOST_POD_BYTES: Final = 96 * 1024
"""Limit in bytes for the memory of a pod's parts that we read and its author controls. It is enough
for about sixty containers with resources, or for the longest values of all known annotations.
"""
MOST_WORDS: Final = 512
"""Limit for the number of keys, values and operators in the rules that say where a pod may go
(affinity, nodeSelector, tolerations, spread). Each is compared with each Node.
"""
_PLACEMENT: Final = (
    "spec: what says where the pod may go (affinity, nodeSelector, tolerations, spread)"
)
# In JSON a text takes three bytes at least: two quotes, and a letter or what separates it.
_SURELY_FEW_WORDS: Final = 3 * MOST_WORDS
_MOST_STATUSES: Final = 128
_CONDITIONS: Final = frozenset({"PodScheduled", "DisruptionTarget", "PodResizePending"})
# The API server copies these labels of the Node with the Binding (measured on 1.36.3).
_OF_NODE: Final = frozenset({"topology.kubernetes.io/zone", "topology.kubernetes.io/region"})
_RECORDS: Final = (JOB_ID, JOB_NODES, JOB_PARTITION, ENDS_AT, GANG)
_CLIPPED: Final = frozenset({*_RECORDS, *OTHERS_ANNOTATIONS})
# Characters that `clipped` surely leaves as they are. It is not called for each of them, because
# this is done for each change of each pod.
_SHORT: Final = 64
_encode: Final = msgspec.json.Encoder().encode
# A byte of JSON becomes a few bytes of Python objects. JSON that is shorter than this is surely
# within the limit.
_SURELY_SMALL: Final = MOST_POD_BYTES // 16
# Python objects take at least half as many bytes as their JSON, so longer JSON exceeds the limit.
_SURELY_LARGE: Final = 2 * MOST_POD_BYTES


def slimmed(decode: Decode[Pod], *, prefixes: Iterable[str]) -> Decode[Pod]:
    """The same decoder, but `slim` reduces its pods and keeps annotations with these prefixes."""
    kept = tuple(prefixes)
    return mapped_by_size(decode, lambda pod, size: slim(pod, kept, json_bytes=size))


def edited(old: Pod, new: Pod) -> bool:
    """Whether any annotation has changed other than the scheduler's own records."""
    return _differ(old.metadata.annotations, new.metadata.annotations, but_in=_RECORDS)


def decides_nothing(old: Pod, new: Pod) -> bool:
    """Whether nothing has changed of what decisions read: only the report of a kubelet on a pod
    that goes on, or parts that are not kept at all.
    """
    meta = replace(new.metadata, resource_version=old.metadata.resource_version)
    return (
        meta == old.metadata
        and new.spec == old.spec
        and new.finished == old.finished
        and new.oversize == old.oversize
    )


def only_bound(old: Pod, new: Pod) -> bool:
    """Whether the pod has got its Node, and nothing else has changed of what decisions read, except
    for the scheduler's own records and the zone that comes with the Node.
    """
    before = old.metadata
    if (
        old.spec.node_name
        or edited(old, new)
        or _differ(before.labels, new.metadata.labels, but_in=_OF_NODE)
    ):
        return False
    meta = replace(new.metadata, annotations=before.annotations, labels=before.labels)
    unbound = replace(new, metadata=meta, spec=replace(new.spec, node_name=""))
    return decides_nothing(old, unbound)


def _differ(
    before: Mapping[str, str], after: Mapping[str, str], *, but_in: Collection[str]
) -> bool:
    """Whether any entry was added, removed or changed, except for those with these keys."""
    return before != after and any(key not in but_in for key, _ in before.items() ^ after.items())


def slim(pod: Pod, prefixes: tuple[str, ...], *, json_bytes: int | None = None) -> Pod:
    """The pod without fields that are not read, and without parts that are too large. `json_bytes`
    is the length of the JSON that it was read from, if that is known.
    """
    full = crowded(pod.metadata.annotations)
    meta = replace(
        pod.metadata,
        annotations=_annotations(pod.metadata, prefixes),
        owner_references=tuple(it for it in pod.metadata.owner_references if it.controller),
    )
    spec = replace(pod.spec, scheduling_gates=pod.spec.scheduling_gates[:1])
    found = _oversize(meta, spec, json_bytes)
    if found is not None:
        if pod.spec.node_name and not pod.finished:
            labels = packed(pod.metadata.labels)
            found = replace(found, labels=labels, shape=seen_by_others(pod))
        meta, spec = _only_records(meta), _bare(spec)
    elif full is not None:
        found = Oversize(full.field, full.value, full.expected)
    return Pod(metadata=meta, spec=spec, status=_status(pod.status), oversize=found)


def _asks_little(spec: PodSpec) -> bool:
    """Whether so little says where the pod may go that nothing needs to be counted. A toleration
    has four texts.
    """
    if spec.affinity is not None or spec.topology_spread_constraints:
        return False
    return 2 * len(spec.node_selector) + 4 * len(spec.tolerations) <= MOST_WORDS


def _oversize(meta: ObjectMeta, spec: PodSpec, json_bytes: int | None) -> Oversize | None:
    """The part that is too large; None if no part is. In nearly all cases the length of the JSON
    decides, because that check is the cheapest.
    """
    if json_bytes is not None and json_bytes <= _SURELY_SMALL and _asks_little(spec):
        return None
    if (terms := _node_terms(spec)) > MOST_WORDS:  # an empty one is short, and its JSON here is not
        return Oversize(_PLACEMENT, f"{terms} terms", f"at most {MOST_WORDS}")
    sizes = {"metadata": len(_encode(meta)), "spec": len(_encode(spec))}
    size = sum(sizes.values())
    if size > _SURELY_LARGE:
        return _oversize_of(sizes)
    words = _placement_words(spec) if sizes["spec"] > _SURELY_FEW_WORDS else 0
    if words > MOST_WORDS:
        return Oversize(_PLACEMENT, f"{words} keys and values", f"at most {MOST_WORDS}")
    if size <= _SURELY_SMALL:
        return None
    weights = {"metadata": weight(meta), "spec": weight(spec)}
    return _oversize_of(weights) if sum(weights.values()) > MOST_POD_BYTES else None


def _node_terms(spec: PodSpec) -> int:
    """How many terms the required node affinity has."""
    nodes = None if spec.affinity is None else spec.affinity.node_affinity
    required = None if nodes is None else nodes.required_during_scheduling_ignored_during_execution
    return 0 if required is None else len(required.node_selector_terms or ())


def _placement_words(spec: PodSpec) -> int:
    """How many keys, values and operators say where the pod may go."""
    where = (spec.affinity, spec.node_selector, spec.tolerations, spec.topology_spread_constraints)
    return _count_texts(where)


def _oversize_of(sizes: dict[str, int]) -> Oversize:
    largest = max(sizes, key=lambda part: sizes[part])
    most = f"at most {MOST_POD_BYTES // 1024} KiB of what the scheduler keeps of a pod in memory"
    return Oversize(largest, f"{sum(sizes.values()) // 1024 + 1} KiB", most)


def _annotations(meta: ObjectMeta, prefixes: tuple[str, ...]) -> dict[str, str]:
    """Annotations with our prefixes, those of controllers that form gangs, and our own records. The
    last two are short unless somebody forges them, so they are clipped.
    """
    found = {k: v for k, v in meta.annotations.items() if k.startswith(prefixes)}
    for key in _CLIPPED & meta.annotations.keys():
        value = meta.annotations[key]
        found[key] = value if len(value) <= _SHORT else clipped(value)
    return found


def _count_texts(value: Any) -> int:
    """How many strings the value contains."""
    if isinstance(value, str):
        return 1 if value else 0
    if isinstance(value, dict):
        return 2 * len(value)
    if isinstance(value, msgspec.Struct):
        return sum(_count_texts(getattr(value, name)) for name in value.__struct_fields__)
    return sum(map(_count_texts, value)) if isinstance(value, tuple) else 0


def weight(value: Any) -> int:
    """The memory of an object with all that it contains, in bytes. Shared parts count each time."""
    if value is None or value == "" or isinstance(value, bool):
        return 0
    if isinstance(value, dict):
        return sys.getsizeof(value) + sum(weight(k) + weight(v) for k, v in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return sys.getsizeof(value) + sum(map(weight, value))
    if isinstance(value, msgspec.Struct):
        parts = (getattr(value, name) for name in value.__struct_fields__)
        return sys.getsizeof(value) + sum(map(weight, parts))
    return sys.getsizeof(value)


def _only_records(meta: ObjectMeta) -> ObjectMeta:
    """Metadata without labels and with no annotations but our own records, which say what became
    of the pod.
    """
    records = {k: v for k, v in meta.annotations.items() if k in _RECORDS}
    return replace(meta, annotations=records, labels={})


def _bare(spec: PodSpec) -> PodSpec:
    return PodSpec(
        node_name=spec.node_name,
        scheduler_name=spec.scheduler_name,
        hostname=spec.hostname,
        termination_grace_period_seconds=spec.termination_grace_period_seconds,
        scheduling_gates=spec.scheduling_gates,
        priority_class_name=spec.priority_class_name,
    )


def _status(status: PodStatus) -> PodStatus:
    conditions = {it.type: it for it in status.conditions if it.type in _CONDITIONS}
    return replace(
        status,
        reason=clipped(status.reason),
        message="",
        conditions=tuple(map(_condition, conditions.values())),
        container_statuses=_statuses(status.container_statuses),
        init_container_statuses=_statuses(status.init_container_statuses),
    )


def _condition(condition: PodCondition) -> PodCondition:
    return replace(condition, reason=clipped(condition.reason), message=clipped(condition.message))


def _statuses(found: tuple[ContainerStatus, ...]) -> tuple[ContainerStatus, ...]:
    return tuple(replace(it, state=_without_messages(it.state)) for it in found[:_MOST_STATUSES])


def _without_messages(state: ContainerState) -> ContainerState:
    """The state without the container's own messages. A pod may have 12 KiB of them."""
    waiting, ended = state.waiting, state.terminated
    return replace(
        state,
        waiting=None if waiting is None else replace(waiting, message=""),
        terminated=None if ended is None else replace(ended, message=""),
    )
