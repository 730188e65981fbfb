"""Whether a pod's annotations leave room for ours.

The API server takes no more than 256 KiB of them on an object. It does not check that when a
binding adds some, and then refuses every later write of the pod's status, the kubelet's too
(measured on 1.36.3): such a pod would run, and nobody would ever learn of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from annotations import Problem
from scheduler.core.naming import ENDS_AT, JOB_ID, NODES

LIMIT: Final = 256 * 1024
"""Bytes of all annotations of an object, keys and values (TotalAnnotationSizeLimitB)."""
ROOM: Final = 1024
"""Bytes left free for ours: three keys of 30 bytes, an id, a time, and a name of at most 253."""
_OURS: Final = frozenset({JOB_ID, NODES, ENDS_AT})
_MOST_BYTES_PER_CHARACTER: Final = 4


def crowded(annotations: Mapping[str, str]) -> Problem | None:
    """What is wrong with annotations that leave no room, None where they do."""
    theirs = [(key, value) for key, value in annotations.items() if key not in _OURS]
    characters = sum(len(key) + len(value) for key, value in theirs)
    if characters * _MOST_BYTES_PER_CHARACTER <= LIMIT - ROOM:
        return None  # nearly all pods: counting bytes would copy them
    size = sum(len(key.encode()) + len(value.encode()) for key, value in theirs)
    if size <= LIMIT - ROOM:
        return None
    return Problem(
        "metadata.annotations",
        f"{size} bytes",
        f"at most {LIMIT - ROOM} in all: Kubernetes takes {LIMIT}, and the scheduler adds its own",
    )
