"""The policy in force, and the labels of Namespaces that its rules may ask for."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from annotations.problems import Problem
from scheduler.kube.store import Store
from scheduler.kube.wire import Identified, Pod
from scheduler.policy.rules import NO_POLICY, Policy, Subject
from scheduler.policy.verdict import Verdict, judge


class Rulebook:
    """Judges pods. `namespaces` is only read where rules select by labels."""

    def __init__(
        self,
        *,
        prefixes: Sequence[str],
        policy: Policy = NO_POLICY,
        namespaces: Store[Identified] | None = None,
    ) -> None:
        self._prefixes = tuple(prefixes)
        self._namespaces = namespaces if namespaces is not None else Store[Identified]()
        self._edition = 0
        self.policy = policy

    def take(self, policy: Policy) -> None:
        """Judge by this policy from now on."""
        self.policy = policy
        self._edition += 1

    def knows(self, namespace: str) -> bool:
        """Whether pods there can be judged yet: the watch of Namespaces may lag behind."""
        return not self.policy.reads_labels or self._namespaces.by_name(namespace) is not None

    def edition(self, namespace: str) -> Hashable:
        """Equal for as long as a pod there, unchanged itself, is judged the same."""
        return self._edition, tuple(sorted(self._labels(namespace).items()))

    def judge(self, pod: Pod) -> Verdict | Problem:
        """The verdict; a problem where labels are asked for and the Namespace is unknown."""
        namespace = pod.metadata.namespace
        if not self.knows(namespace):
            expected = "a Namespace whose labels are known: the policy asks for them"
            return Problem("metadata.namespace", namespace, expected)
        subject = Subject(
            namespace=namespace,
            labels=self._labels(namespace),
            priority_class=pod.spec.priority_class_name,
        )
        annotations = pod.metadata.annotations
        return judge(self.policy, subject, annotations, prefixes=self._prefixes)

    def _labels(self, namespace: str) -> dict[str, str]:
        if not self.policy.reads_labels:
            return {}
        found = self._namespaces.by_name(namespace)
        return {} if found is None else found.metadata.labels
