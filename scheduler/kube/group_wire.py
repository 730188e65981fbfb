"""Decodes the objects that stand for groups of pods. Only the fields that we need are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from scheduler.core.gang_objects import (
    BatchJob,
    GroupObject,
    JobSet,
    LeaderWorkerSet,
    PluginsPodGroup,
    PodGroup,
)
from scheduler.core.gang_sources import OBJECTS, ObjectRef, Source
from scheduler.kube.errors import KubeGarbled
from scheduler.kube.wire import decoder

_DECODERS: Final[Mapping[tuple[str, str], Callable[[bytes], GroupObject]]] = {
    OBJECTS[Source.JOB]: decoder(BatchJob),
    OBJECTS[Source.JOBSET]: decoder(JobSet),
    OBJECTS[Source.LWS]: decoder(LeaderWorkerSet),
    OBJECTS[Source.POD_GROUP]: decoder(PodGroup),
    OBJECTS[Source.SCHEDULER_PLUGINS]: decoder(PluginsPodGroup),
}


def decode_group(ref: ObjectRef, data: bytes) -> GroupObject:
    """The object that `ref` names. Raises KubeGarbled if the data are not that object."""
    found = _DECODERS[ref.api_version, ref.plural](data)
    if not found.metadata.uid or found.metadata.name != ref.name:
        raise KubeGarbled(f"an answer about {ref.plural} {ref.name!r} does not hold it")
    return found
