"""Holds the policy in force, and the labels of Namespaces that its rules may ask for."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from annotations.problems import Problem
from scheduler.core.gang_sources import Source
from scheduler.core.ignorable import Ignorable
from scheduler.kube.store import Store
from scheduler.kube.wire import Namespace, Pod
from scheduler.policy.rules import NO_POLICY, Policy, Ruling, Subject
from scheduler.policy.verdict import Verdict, gang_annotations, judged

_KINDS: Final = 1024


@dataclass(frozen=True, slots=True)
class GangRules:
    """The pod's annotations after the rules about its gang, and the sources of gangs that the rule
    with that name sets; None if no rule does.
    """

    annotations: Mapping[str, str]
    sources: tuple[Source, ...] | None = None
    rule: str = ""


class Rulebook:
    """Judges pods by the policy in force. `namespaces` is read only if rules select by labels."""

    def __init__(
        self,
        *,
        prefixes: Sequence[str],
        policy: Policy = NO_POLICY,
        namespaces: Store[Namespace] | None = None,
    ) -> None:
        self._prefixes = tuple(prefixes)
        self._namespaces = namespaces if namespaces is not None else Store[Namespace]()
        self._version = 0
        self._use(policy)

    def take(self, policy: Policy) -> None:
        """Judge by this policy from now on."""
        self._use(policy)
        self._version += 1

    def _use(self, policy: Policy) -> None:
        self.policy = policy
        self._reads_labels = policy.reads_labels
        self._is_about_gangs = policy.is_about_gangs
        # Pods of one namespace and PriorityClass are the same to the rules.
        self._rulings = lru_cache(maxsize=_KINDS)(_ruling(policy))

    @property
    def version(self) -> int:
        """The version of the policy, which changes with each policy that is taken."""
        return self._version

    def knows(self, namespace: str) -> bool:
        """Whether pods there can be judged yet: the watch of Namespaces may lag behind."""
        return not self._reads_labels or self._namespaces.by_name(namespace) is not None

    def knows_gangs(self, namespace: str) -> bool:
        """Whether it is known yet what the rules say of the gangs of pods there."""
        return not self._is_about_gangs or self.knows(namespace)

    def edition(self, namespace: str) -> Hashable:
        """A value that changes when an unchanged pod there may be judged differently."""
        return self._version, tuple(sorted(self._labels(namespace).items()))

    def ruling(self, namespace: str) -> Ruling | None:
        """The combined rules about pods there without a PriorityClass; None if rules select by
        labels and the Namespace is unknown.
        """
        if not self.knows(namespace):
            return None
        return self._rulings(namespace, tuple(sorted(self._labels(namespace).items())), "")

    def judge(self, pod: Pod) -> Verdict | Problem:
        """The verdict; a problem if rules select by labels and the Namespace is unknown."""
        namespace = pod.metadata.namespace
        if not self.knows(namespace):
            expected = "a Namespace whose labels are known: the policy asks for them"
            return Problem("metadata.namespace", namespace, expected)
        return judged(self._of(pod), pod.metadata.annotations, prefixes=self._prefixes)

    def ignored(self, pod: Pod) -> frozenset[Ignorable]:
        """The requirements of the pod that need not be honoured."""
        return self._of(pod).ignored

    def of_gang(self, pod: Pod) -> GangRules | None:
        """What the rules say of the pod's gang; None if nothing. Its Namespace must be known."""
        if not self._is_about_gangs:
            return None
        ruling, own = self._of(pod), pod.metadata.annotations
        found = gang_annotations(ruling, own, prefixes=self._prefixes)
        if ruling.gangs is None:
            return None if found is own else GangRules(found)
        rule, sources = ruling.gangs
        return GangRules(found, sources, rule.name)

    def _of(self, pod: Pod) -> Ruling:
        namespace = pod.metadata.namespace
        labels = tuple(sorted(self._labels(namespace).items()))
        return self._rulings(namespace, labels, pod.spec.priority_class_name)

    def _labels(self, namespace: str) -> dict[str, str]:
        if not self._reads_labels:
            return {}
        found = self._namespaces.by_name(namespace)
        return {} if found is None else found.metadata.labels


def _ruling(policy: Policy) -> Callable[[str, tuple[tuple[str, str], ...], str], Ruling]:
    def of(namespace: str, labels: tuple[tuple[str, str], ...], priority_class: str) -> Ruling:
        subject = Subject(namespace=namespace, labels=dict(labels), priority_class=priority_class)
        return policy.ruling(subject)

    return of
