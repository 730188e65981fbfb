"""To which gang a pod belongs, by what the pod shows.

Labels and annotations alone do not say it: a site's settings and policy decide which of them form
gangs. The scheduler's own words do: the key that it writes beside the job's id, which is computed
from the group's name, and the condition of a pod that waits for others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from annotations.value_patterns import SHORT_NUMBER
from scheduler.core.event_reasons import Reason
from scheduler.core.gang_sources import (
    ALL_SOURCES,
    JOB_UID,
    JOBSET_NAME,
    KUEUE_GROUP,
    LWS_GROUP_INDEX,
    LWS_NAME,
    PLUGINS_GROUP,
    GroupView,
    Membership,
    Source,
)
from scheduler.core.membership import membership
from scheduler.core.naming import BESIDE_GANG, GANG, GANG_FIRST_NODE, GANG_RANK, GANG_SIZE
from scheduler.facts.group_view import group_view
from scheduler.kube.clip import clipped
from scheduler.kube.wire import Pod

_MOST_BYTES: Final = 256
_SHORT_KEY: Final = 8
_KEY: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)
_NUMBER: Final = re.compile(SHORT_NUMBER)
_LABELS: Final[Mapping[Source, tuple[str, ...]]] = {
    Source.LWS: (LWS_NAME, LWS_GROUP_INDEX),
    Source.JOBSET: (JOBSET_NAME,),
    Source.SCHEDULER_PLUGINS: (PLUGINS_GROUP,),
    Source.KUEUE: (KUEUE_GROUP,),
    Source.JOB: (JOB_UID,),
}
# As `core/gang.py` and `core/waiting.py` write it.
_INCOMPLETE: Final = re.compile(
    r"Gang (?P<name>\S{1,253}) (?:\((?P<there>\d{1,5}) of (?P<size>\d{1,5}) pods exist\): waiting"
    r" for (?P<missing>.{1,800}?)\. One Slurm job|waits )",
    re.ASCII,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class InGang:
    """A pod's place in a gang. "" and None stand for what the pod does not show. `missing` names
    the pods that the gang waits for, in the scheduler's words. `selector` are labels that all of
    its pods have.
    """

    key: str
    name: str
    rank: int | None = None
    size: int | None = None
    first_node: str = ""
    missing: str = ""
    selector: str = ""

    @property
    def short_key(self) -> str:
        """As much of the key as people need to tell gangs without a name apart."""
        return self.key[:_SHORT_KEY]


@dataclass(frozen=True, slots=True)
class GangView:
    """`gang` is the one that the scheduler has named; None if it has named none. `maybe` are the
    keys of those that the pod may belong to by its labels and annotations.
    """

    gang: InGang | None = None
    maybe: tuple[str, ...] = ()


def gang_of(pod: Pod, prefixes: tuple[str, ...]) -> GangView:
    """What the pod shows of its gang. One that is served beside a gang has none."""
    if pod.metadata.annotations.get(GANG) == BESIDE_GANG or _waits_for_gang(pod):
        return GangView()
    found = tuple(_candidates(group_view(pod, pod.metadata.annotations, prefixes)))
    return GangView(_recorded(pod, found) or _awaited(pod, found), tuple(it.key for it in found))


def _waits_for_gang(pod: Pod) -> bool:
    condition = pod.condition("PodScheduled")
    return condition is not None and condition.reason == Reason.WAITS_FOR_GANG


def _candidates(view: GroupView) -> Iterator[Membership]:
    for source in ALL_SOURCES:
        found = membership(view, [source])
        if isinstance(found, Membership):
            yield found


def _recorded(pod: Pod, candidates: tuple[Membership, ...]) -> InGang | None:
    """The gang whose key stands on the pod. One whose labels were changed since has no name."""
    said = pod.metadata.annotations
    key = said.get(GANG, "")
    if _KEY.fullmatch(key) is None:
        return None
    member = next((it for it in candidates if it.key == key), None)
    found = InGang(key=key, name="") if member is None else _in(member, pod)
    rank, size = _whole_number(said.get(GANG_RANK, "")), _whole_number(said.get(GANG_SIZE, ""))
    return replace(
        found,
        rank=found.rank if rank is None else rank,
        size=found.size if size is None else size,
        first_node=clipped(said.get(GANG_FIRST_NODE, ""), _MOST_BYTES),
    )


def _awaited(pod: Pod, candidates: tuple[Membership, ...]) -> InGang | None:
    """The gang that the pod's condition names, which waits for other pods."""
    condition = pod.condition("PodScheduled")
    if condition is None or condition.reason != Reason.GANG_INCOMPLETE or pod.spec.node_name:
        return None
    words = _INCOMPLETE.match(condition.message)
    member = next((it for it in candidates if words and it.name == words["name"]), None)
    if words is None or member is None:
        return None
    found = _in(member, pod)
    size = found.size if words["size"] is None else int(words["size"])
    return replace(found, size=size, missing=words["missing"] or "")


def _in(member: Membership, pod: Pod) -> InGang:
    labels = ((it, pod.metadata.labels.get(it, "")) for it in _LABELS.get(member.source, ()))
    return InGang(
        key=member.key,
        name=clipped(member.name, _MOST_BYTES),
        rank=member.rank,
        size=member.size,
        selector=",".join(f"{label}={value}" for label, value in labels),
    )


def _whole_number(text: str) -> int | None:
    return int(text) if _NUMBER.fullmatch(text) else None
