"""Reads from a pod, as the API server sends it, to which gang it belongs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from annotations import Problem
from scheduler.core.gang_sources import (
    ASKED_GANG,
    ASKED_GANG_RANK,
    ASKED_GANG_SIZE,
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
from scheduler.policy.rulebook import Rulebook

# Each source knows its pods by one of these.
_LABELS: Final = frozenset({JOB_NAME, LWS_NAME, JOBSET_NAME, PLUGINS_GROUP, KUEUE_GROUP})
_ANNOTATIONS: Final = (ASKED_GANG, ASKED_GANG_SIZE, ASKED_GANG_RANK)


class Memberships:
    """`sources` are tried in this order, unless a rule of the policy sets others; `prefixes` are
    those of the site's annotations.
    """

    def __init__(self, sources: Sequence[Source], *, prefixes: Sequence[str]) -> None:
        self._sources = tuple(sources)
        self._prefixes = tuple(prefixes)
        self._keys = {f"{prefix}{name}" for prefix in prefixes for name in _ANNOTATIONS}
        self._rulebook = Rulebook(prefixes=prefixes)

    def judge_by(self, rulebook: Rulebook) -> None:
        """Read pods as this policy leaves them. Called before the first pod comes."""
        self._rulebook = rulebook

    def knows(self, pod: Pod) -> bool:
        """Whether it is known what the policy says of the pod's gang."""
        return self._rulebook.knows_gangs(pod.metadata.namespace)

    def __call__(
        self, pod: Pod, sources: Sequence[Source] | None = None
    ) -> Membership | Outsider | Problem | None:
        """The pod's gang by these sources, or else by those of the policy and the site; None if it
        belongs to none. `Outsider` if it only seems to.
        """
        rules = self._rulebook.of_gang(pod)
        if rules is None:
            return self._read(pod, pod.metadata.annotations, sources)
        if sources is not None or rules.sources is None:
            return self._read(pod, rules.annotations, sources)
        return self._read(pod, rules.annotations, rules.sources, rule=rules.rule)

    def unruled(self, pod: Pod) -> Membership | Outsider | Problem | None:
        """Its gang without the policy; None also if the policy says nothing of it."""
        if self._rulebook.of_gang(pod) is None:
            return None
        return self._read(pod, pod.metadata.annotations, None)

    def _read(
        self,
        pod: Pod,
        annotations: Mapping[str, str],
        sources: Sequence[Source] | None,
        *,
        rule: str = "",
    ) -> Membership | Outsider | Problem | None:
        # Most pods say nothing of a gang, and are not read any further.
        silent = _LABELS.isdisjoint(pod.metadata.labels) and self._keys.isdisjoint(annotations)
        if silent and pod.spec.scheduling_group is None:
            return None
        view = group_view(pod, annotations, self._prefixes)
        chosen = self._sources if sources is None else sources
        return membership(view, chosen, rule=rule)
