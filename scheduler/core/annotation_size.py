"""Checks that a pod's annotations leave room for ours.

The API server accepts at most 256 KiB of annotations on an object. It does not check this when a
Binding adds some, but then refuses every later write of the pod's status, even the kubelet's
(measured on 1.36.3). Such a pod would run, but its status would never show it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from annotations import Problem
from scheduler.core.naming import ENDS_AT, JOB_ID, JOB_NODES, JOB_PARTITION

LIMIT: Final = 256 * 1024
"""Limit for all annotations of an object, in bytes of keys and values
(TotalAnnotationSizeLimitB).
"""
ROOM: Final = 2048
"""Bytes left free for ours: eight keys of at most 40 bytes, three names of at most 253, the unit of
a gang, and short numbers and times.
"""
_OURS: Final = frozenset({JOB_ID, JOB_NODES, JOB_PARTITION, ENDS_AT})
_MOST_BYTES_PER_CHARACTER: Final = 4


def crowded(annotations: Mapping[str, str]) -> Problem | None:
    """The problem, if the annotations leave no room; None if they do."""
    theirs = [(key, value) for key, value in annotations.items() if key not in _OURS]
    characters = sum(len(key) + len(value) for key, value in theirs)
    if characters * _MOST_BYTES_PER_CHARACTER <= LIMIT - ROOM:
        return None  # true of nearly all pods; counting bytes would copy the annotations
    size = sum(len(key.encode()) + len(value.encode()) for key, value in theirs)
    if size <= LIMIT - ROOM:
        return None
    return Problem(
        "metadata.annotations",
        f"{size} bytes",
        f"at most {LIMIT - ROOM} in all: Kubernetes takes {LIMIT}, and the scheduler adds its own",
    )
