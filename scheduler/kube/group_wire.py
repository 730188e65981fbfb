"""Decodes the objects that stand for groups of pods. Only the fields that we need are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from scheduler.core.gang_objects import (
    BatchJob,
    FoundObject,
    JobSet,
    LeaderWorkerSet,
    PluginsPodGroup,
    PodGroup,
)
from scheduler.core.gang_sources import OBJECTS, GroupRef, Source
from scheduler.kube.errors import KubeGarbled
from scheduler.kube.wire import Wire, decoder

_DECODERS: Final[Mapping[tuple[str, str], Callable[[bytes], FoundObject]]] = {
    OBJECTS[Source.JOB]: decoder(BatchJob),
    OBJECTS[Source.JOBSET]: decoder(JobSet),
    OBJECTS[Source.LWS]: decoder(LeaderWorkerSet),
    OBJECTS[Source.POD_GROUP]: decoder(PodGroup),
    OBJECTS[Source.SCHEDULER_PLUGINS]: decoder(PluginsPodGroup),
}


class _Version(Wire, frozen=True, gc=False):
    """One version of a group of the API."""

    group_version: str = ""


class _Group(Wire, frozen=True, gc=False):
    """One group of the API."""

    versions: tuple[_Version, ...]


class _Groups(Wire, frozen=True, gc=False):
    """The answer at /apis."""

    groups: tuple[_Group, ...]


_decode_groups = decoder(_Groups)


def served_versions(data: bytes) -> frozenset[str]:
    """The versions that the API server serves, such as "batch/v1"; `data` is its answer at /apis.
    Raises KubeGarbled if it is something else.
    """
    found = _decode_groups(data).groups
    return frozenset(it.group_version for group in found for it in group.versions)


def decode_group(ref: GroupRef, data: bytes) -> FoundObject:
    """The object that `ref` names. Raises KubeGarbled if the data are not that object."""
    found = _DECODERS[ref.api_version, ref.plural](data)
    if not found.metadata.uid or found.metadata.name != ref.name:
        raise KubeGarbled(f"an answer about {ref.plural} {ref.name!r} does not hold it")
    return found
