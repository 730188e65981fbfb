"""Reads from a pod, as the API server sends it, to which gang it belongs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from annotations import Problem
from scheduler.core.gang_sources import (
    GANG,
    GANG_RANK,
    GANG_SIZE,
    JOB_NAME,
    JOBSET_NAME,
    KUEUE_GROUP,
    LWS_NAME,
    PLUGINS_GROUP,
    Membership,
    Outsider,
    Source,
)
from scheduler.core.membership import membership
from scheduler.facts.group_view import group_view
from scheduler.kube.wire import Pod

# Each source knows its pods by one of these.
_LABELS: Final = frozenset({JOB_NAME, LWS_NAME, JOBSET_NAME, PLUGINS_GROUP, KUEUE_GROUP})
_ANNOTATIONS: Final = (GANG, GANG_SIZE, GANG_RANK)


class Memberships:
    """`sources` are tried in this order; `prefixes` are those of the site's annotations."""

    def __init__(self, sources: Sequence[Source], *, prefixes: Sequence[str]) -> None:
        self._sources = tuple(sources)
        self._prefixes = tuple(prefixes)
        self._keys = {f"{prefix}{name}" for prefix in prefixes for name in _ANNOTATIONS}

    def __call__(
        self, pod: Pod, sources: Sequence[Source] | None = None
    ) -> Membership | Outsider | Problem | None:
        """The pod's gang by these sources, or else by those of the site; None if it belongs to
        none. `Outsider` if it only seems to.
        """
        meta = pod.metadata
        # Most pods say nothing of a gang, and are not read any further.
        silent = _LABELS.isdisjoint(meta.labels) and self._keys.isdisjoint(meta.annotations)
        if silent and pod.spec.scheduling_group is None:
            return None
        view = group_view(pod, meta.annotations, self._prefixes)
        return membership(view, self._sources if sources is None else sources)
