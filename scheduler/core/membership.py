"""To which gang a pod belongs, by its labels, annotations, spec and controller. Pure.

The sources are tried in the site's order, and the first one that knows the pod decides. A label
alone makes no member: where the source says who makes the group's pods, the pod's controller must
be that one. No number may exceed MOST_RANKS. How many pods there are, if an object tells it:
`gang_shape.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from annotations.problems import NOT_SET, Problem
from annotations.value_patterns import OBJECT_NAME, SHORT_NUMBER
from scheduler.core.gang_sources import (
    ALONE,
    ASKED_GANG,
    ASKED_GANG_RANK,
    ASKED_GANG_SIZE,
    COMPLETION_INDEX,
    JOB_NAME,
    JOB_UID,
    JOBSET_GLOBAL_INDEX,
    JOBSET_JOB_INDEX,
    JOBSET_NAME,
    JOBSET_PART,
    JOBSET_UID,
    KUBEFLOW_INDEX,
    KUEUE_GROUP,
    KUEUE_INDEX,
    KUEUE_INDEX_LABEL,
    KUEUE_SIZE,
    LWS_GROUP_INDEX,
    LWS_GROUP_KEY,
    LWS_NAME,
    LWS_REVISION,
    LWS_SIZE,
    LWS_WORKER_INDEX,
    PLUGINS_GROUP,
    GroupRef,
    GroupView,
    Membership,
    Outsider,
    Source,
)
from scheduler.core.owner_tag import MOST_RANKS

_NUMBER: Final = re.compile(SHORT_NUMBER)
# A name that an API server generates ends in five letters or digits, so five digits may be chance.
_ORDINAL: Final = re.compile(r"-(0|[1-9][0-9]{0,3})\Z", re.ASCII)
_GANG_NAME: Final = re.compile(OBJECT_NAME)

_JOB: Final = ("batch/v1", "Job")
_STATEFUL_SET: Final = ("apps/v1", "StatefulSet")

_Found = Membership | Outsider | None


class _ProblemError(Exception):
    """A value that cannot be used."""

    def __init__(self, key: str, value: str | None, expected: str) -> None:
        super().__init__(key)
        self.problem = Problem(key, NOT_SET if value is None else value, expected)


def membership(
    pod: GroupView, sources: Sequence[Source], *, rule: str = ""
) -> Membership | Outsider | Problem | None:
    """The pod's gang; None if it belongs to none. `Outsider` if it only seems to belong to one, or
    if the policy's `rule`, which has chosen the sources, does not want its gang.
    """
    try:
        if rule and (unwanted := _unwanted(pod, sources, rule)) is not None:
            return unwanted
        found = _found(pod, sources)
        _check_stray(pod, ranked=found is not None or bool(rule))
    except _ProblemError as error:
        return error.problem
    return found


def _found(pod: GroupView, sources: Sequence[Source]) -> _Found:
    key, name = pod.own(ASKED_GANG)
    if name == ALONE:
        return None
    if name is not None and Source.ANNOTATIONS not in sources:
        raise _ProblemError(key, name, f"{ALONE}: annotations form no gangs here (setting gangs)")
    for source in sources:
        found = _READERS[source](pod)
        if found is not None:
            return found if isinstance(found, Outsider) or found.size != 1 else None
    return None


def _unwanted(pod: GroupView, sources: Sequence[Source], rule: str) -> Outsider | None:
    """Why the pod's own gang is not formed: the site forbids it, which is no fault of the pod."""
    key, name = pod.own(ASKED_GANG)
    if name in {None, ALONE} or Source.ANNOTATIONS in sources:
        return None
    return Outsider(
        f"{key} is {name!r}, but by policy rule {rule!r} annotations form no gangs. The pod is "
        "served by itself, not as a part of a gang"
    )


def _check_stray(pod: GroupView, *, ranked: bool) -> None:
    """Refuse a size that nobody would read, and a rank unless the pod may be `ranked`."""
    gang_key, gang = pod.own(ASKED_GANG)
    size_key, size = pod.own(ASKED_GANG_SIZE)
    if size is not None and gang is None:
        raise _ProblemError(size_key, size, f"{gang_key} beside it, or no such annotation")
    rank_key, rank = pod.own(ASKED_GANG_RANK)
    if rank is not None and gang is None and not ranked:
        raise _ProblemError(rank_key, rank, "no such annotation on a pod that belongs to no gang")


def _by_annotations(pod: GroupView) -> _Found:
    key, name = pod.own(ASKED_GANG)
    if name is None:
        return None
    if not _GANG_NAME.fullmatch(name):
        raise _ProblemError(key, name, "a name as of a Kubernetes object, of at most 63 characters")
    size = _gang_size(*pod.own(ASKED_GANG_SIZE))
    return Membership(
        source=Source.ANNOTATIONS,
        namespace=pod.namespace,
        name=name,
        identity=name,
        size=size,
        rank=_given_rank(pod, size),
    )


def _by_lws(pod: GroupView) -> _Found:
    name = pod.labels.get(LWS_NAME)
    if not name:
        return None
    group, worker = pod.labels.get(LWS_GROUP_INDEX, ""), pod.labels.get(LWS_WORKER_INDEX, "")
    # The set's StatefulSet makes the leaders, and a leader's StatefulSet its workers.
    maker = name if worker == "0" else f"{name}-{group}"
    if not _is_made_by(pod, _STATEFUL_SET, name=maker):
        return _alone(pod, f"LeaderWorkerSet {name!r}", f"StatefulSet {maker!r}")
    group_index = _number_within(LWS_GROUP_INDEX, group, high=MOST_RANKS - 1)
    size = _gang_size(LWS_SIZE, pod.annotations.get(LWS_SIZE))
    # A group that is recreated has the same group-key; one of a new template has a new revision.
    parts = (pod.labels.get(it, "") for it in (LWS_GROUP_KEY, LWS_REVISION))
    return Membership(
        source=Source.LWS,
        namespace=pod.namespace,
        name=f"{name}-{group_index}",
        identity="/".join((name, str(group_index), *parts)),
        size=size,
        rank=_number_within(LWS_WORKER_INDEX, worker, high=size - 1),
        object=GroupRef.of(Source.LWS, pod, name),
    )


def _by_jobset(pod: GroupView) -> _Found:
    name = pod.labels.get(JOBSET_NAME)
    if not name:
        return None
    part, index = pod.labels.get(JOBSET_PART, ""), pod.labels.get(JOBSET_JOB_INDEX, "")
    maker = f"{name}-{part}-{index}"
    if not _is_made_by(pod, _JOB, name=maker):
        return _alone(pod, f"JobSet {name!r}", f"Job {maker!r}")
    uid = pod.labels.get(JOBSET_UID, "")
    return Membership(
        source=Source.JOBSET,
        namespace=pod.namespace,
        name=name,
        identity=uid or name,
        place=_place(pod),
        object=GroupRef.of(Source.JOBSET, pod, name, uid=uid),
    )


def _place(pod: GroupView) -> tuple[int, int] | None:
    job = _optional(JOBSET_GLOBAL_INDEX, pod.labels)
    own = _optional(COMPLETION_INDEX, pod.annotations)
    return None if job is None or own is None else (job, own)


def _by_pod_group(pod: GroupView) -> _Found:
    return _of_pod_group(pod, Source.POD_GROUP, pod.scheduling_group)


def _by_scheduler_plugins(pod: GroupView) -> _Found:
    return _of_pod_group(pod, Source.SCHEDULER_PLUGINS, pod.labels.get(PLUGINS_GROUP, ""))


def _of_pod_group(pod: GroupView, source: Source, name: str) -> _Found:
    """Anybody's pods may be in a PodGroup, so there is no controller to compare with."""
    if not name:
        return None
    rank = _given_rank(pod, MOST_RANKS, index=pod.labels.get(KUBEFLOW_INDEX))
    return Membership(
        source=source,
        namespace=pod.namespace,
        name=name,
        identity=name,
        rank=rank,
        object=GroupRef.of(source, pod, name),
    )


def _by_kueue(pod: GroupView) -> _Found:
    name = pod.labels.get(KUEUE_GROUP)
    if not name:
        return None
    size = _gang_size(KUEUE_SIZE, pod.annotations.get(KUEUE_SIZE))
    rank_key = pod.annotations.get(KUEUE_INDEX_LABEL, KUEUE_INDEX)
    rank = _optional(rank_key, pod.labels, high=size - 1)
    return Membership(
        source=Source.KUEUE,
        namespace=pod.namespace,
        name=name,
        identity=name,
        size=size,
        rank=_given_rank(pod, size) if rank is None else rank,
    )


def _by_job(pod: GroupView) -> _Found:
    name, uid = pod.labels.get(JOB_NAME), pod.labels.get(JOB_UID)
    if not name or not uid:
        return None
    maker = pod.controller
    if maker is None or not _is_made_by(pod, _JOB, name=name) or maker.uid != uid:
        return _alone(pod, f"batch Job {name!r} (uid {uid})", "that Job")
    return Membership(
        source=Source.JOB,
        namespace=pod.namespace,
        name=name,
        identity=uid,
        rank=_optional(COMPLETION_INDEX, pod.annotations),
        object=GroupRef.of(Source.JOB, pod, name, uid=uid),
    )


_READERS: Final[Mapping[Source, Callable[[GroupView], _Found]]] = {
    Source.ANNOTATIONS: _by_annotations,
    Source.LWS: _by_lws,
    Source.JOBSET: _by_jobset,
    Source.POD_GROUP: _by_pod_group,
    Source.SCHEDULER_PLUGINS: _by_scheduler_plugins,
    Source.KUEUE: _by_kueue,
    Source.JOB: _by_job,
}


def _is_made_by(pod: GroupView, kind: tuple[str, str], *, name: str) -> bool:
    it = pod.controller
    return it is not None and (it.api_version, it.kind, it.name) == (*kind, name)


def _alone(pod: GroupView, group: str, maker: str) -> Outsider:
    found = "it has no controller" if pod.controller is None else f"it is {pod.controller.text}"
    return Outsider(
        f"The pod has the labels of a pod of {group}, whose controller would be {maker}, but "
        f"{found}. It is served by itself, not as a part of a gang"
    )


def _given_rank(pod: GroupView, most: int, *, index: str | None = None) -> int | None:
    """The rank of a pod whose source has none: that of the annotation, else this index or that in
    its batch Job, else the number at the end of its name, as a StatefulSet gives it.
    """
    key, value = pod.own(ASKED_GANG_RANK)
    if value is not None:
        return _number_within(key, value, high=most - 1)
    if index is None and _is_of_job(pod):
        index = pod.annotations.get(COMPLETION_INDEX)
    match = _ORDINAL.search(pod.name)
    text = match[1] if index is None and match else index
    if text is None or not _NUMBER.fullmatch(text) or int(text) >= most:
        return None
    return int(text)


def _is_of_job(pod: GroupView) -> bool:
    return pod.controller is not None and pod.controller.kind == "Job"


def _gang_size(key: str, value: str | None) -> int:
    return _number_within(key, value, low=1, high=MOST_RANKS)


def _optional(key: str, found: Mapping[str, str], *, high: int = MOST_RANKS - 1) -> int | None:
    value = found.get(key)
    return None if value is None else _number_within(key, value, high=high)


def _number_within(key: str, value: str | None, *, low: int = 0, high: int) -> int:
    if value is not None and _NUMBER.fullmatch(value) and low <= int(value) <= high:
        return int(value)
    raise _ProblemError(key, value, f"a whole number from {low} to {high}")
