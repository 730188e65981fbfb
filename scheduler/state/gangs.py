"""Which pods belong to which gang.

A pod's labels and annotations are read once, when it is first seen: a later edit moves no pod into
another gang. If a pod already names a job, it belongs to the gang whose key is written beside the
job's id, or to none. So if a version without gangs has submitted the pods of a group one by one,
they are served one by one to the end. A pod of a PodGroup that is marked as served beside its gang
stays so to its end.

A policy decides once for a group, when its first pod comes. Otherwise pods of the group that come
later, under other rules, would wait for pods that are served in another way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final, Protocol

from annotations import Problem
from scheduler.core.gang_sources import MOST_GANG_PODS, OPEN_SOURCES, Membership, Outsider, Source
from scheduler.core.naming import BESIDE_GANG, GANG, JOB_ID
from scheduler.kube.wire import Pod
from scheduler.state.single_groups import MOST_GROUPS, SingleGroups

MOST_WITH_ENDED: Final = 2 * MOST_GANG_PODS
"""How many pods a gang may have together with those that have ended, or end, and still exist."""


class Read(Protocol):
    """Reads from a pod to which gang it belongs (`memberships.py`)."""

    def __call__(
        self, pod: Pod, sources: Sequence[Source] | None = None, /
    ) -> Membership | Outsider | Problem | None:
        """The pod's gang by these sources, or else by those of the policy and the site."""
        ...

    def unruled(self, pod: Pod, /) -> Membership | Outsider | Problem | None:
        """Its gang without the policy; None also if the policy says nothing of it."""
        ...

    def knows(self, pod: Pod, /) -> bool:
        """Whether it is known what the policy says of the pod's gang."""
        ...


class Pods(Protocol):
    """The pods as last seen."""

    def get(self, uid: str, /) -> Pod | None:
        """The pod with this uid; None if there is none."""
        ...


class Gangs:
    """An index of pods by gang, fed by the watch. `pods` has them as last seen."""

    def __init__(self, read: Read, pods: Pods) -> None:
        self._read = read
        self._store = pods
        self._of: dict[str, Membership] = {}
        self._pods: dict[str, dict[str, None]] = {}
        self._revisions: dict[tuple[str, str], set[str]] = {}
        """The keys of the gangs of one group of a LeaderWorkerSet: one for each revision."""
        self.flaws: dict[str, Problem | Outsider] = {}
        """By uid: what is wrong with what a pod says about its gang, for which it is refused; or
        why it is served alone although it has the labels of a group.
        """
        self._singles = SingleGroups()
        self._beside: set[str] = set()
        self._unread: set[str] = set()
        self._ending: dict[str, set[str]] = {}
        """By gang: its pods that have ended or are being deleted."""
        self._singly: dict[str, None] = {}
        """The keys of gangs that are served pod by pod because a pod of them shows that."""

    def came(self, pod: Pod) -> None:
        """A pod has been seen for the first time."""
        self._unread.add(pod.metadata.uid)
        self.settle(pod)

    def changed(self, pod: Pod) -> None:
        """A pod has been seen before, and is like this now."""
        found = self._of.get(pod.metadata.uid)
        if found is not None and _ends(pod):
            self._ending.setdefault(found.key, set()).add(pod.metadata.uid)

    def settle(self, pod: Pod) -> None:
        """Find out to which gang the pod belongs, as soon as it is known what the policy says."""
        uid = pod.metadata.uid
        if uid in self._unread and self._read.knows(pod):
            self._unread.discard(uid)
            self._sort(pod, self._by_rules(pod))

    def _by_rules(self, pod: Pod) -> Membership | Outsider | Problem | None:
        """What the pod belongs to by the policy. But a gang that exists goes on as it is."""
        found, plain = self._read(pod), self._read.unruled(pod)
        if not isinstance(plain, Membership) or found == plain:
            return found
        if _is_beside(pod, plain):
            return plain
        if plain.key in self._pods or (_was_served(pod) and _may_join(pod, plain)):
            return plain
        if not isinstance(found, Membership):
            self._singles.add(plain, [pod.metadata.uid], instead=())
        return found

    def _sort(self, pod: Pod, found: Membership | Outsider | Problem | None) -> None:
        uid = pod.metadata.uid
        if found is None:
            return
        if _is_beside(pod, found):
            self._beside.add(uid)
        elif not _may_join(pod, found):
            if isinstance(found, Membership) and self._was_served_singly(pod, found.key):
                self.dissolve(found.key, instead=())
                self._singles.add(found, [uid], instead=())
                self._note_singly(found.key)
        elif isinstance(found, Problem | Outsider):
            self.flaws[uid] = found
        elif (instead := self._instead(pod, found)) is not None:
            self._singles.add(found, [uid], instead=instead)
            if instead:
                self._sort(pod, self._read(pod, instead))
        elif self._is_full(found.key):
            self.flaws[uid] = Problem(
                f"gang {found.name}", "more pods", f"at most {MOST_GANG_PODS} pods of a gang"
            )
        else:
            self._of[uid] = found
            self._pods.setdefault(found.key, {})[uid] = None
            self.changed(pod)
            if found.source is Source.LWS:
                self._revisions.setdefault(_group(found), set()).add(found.key)

    def _was_served_singly(self, pod: Pod, key: str) -> bool:
        """Whether the pod shows that the group of this gang is served pod by pod. A gang of which a
        pod says that it was served as one is not: somebody may copy such a pod.
        """
        if GANG in pod.metadata.annotations:
            return False
        return all(it.metadata.annotations.get(GANG) != key for it in self._there(key))

    def _note_singly(self, key: str) -> None:
        self._singly[key] = None
        if len(self._singly) > MOST_GROUPS:
            del self._singly[next(iter(self._singly))]

    def _instead(self, pod: Pod, found: Membership) -> Sequence[Source] | None:
        """By which other sources the pods of this gang are served; None if it is a gang. A pod that
        was served in the gang proves that it is one, whatever a copy that was listed before shows.
        """
        if found.key in self._singly and pod.metadata.annotations.get(GANG) == found.key:
            del self._singly[found.key]
            self._singles.forget(found)
        return self._singles.instead_of(found)

    def _is_full(self, key: str) -> bool:
        """Whether the gang may have no more pods. Those that have ended take nobody's place: a
        batch Job keeps its failed pods, which may be several for each of its slots. Nor do those
        that are being deleted: a batch Job replaces them at once.
        """
        pods = len(self._pods.get(key, {}))
        stay = pods - len(self._ending.get(key, ()))
        return stay >= MOST_GANG_PODS or pods >= MOST_WITH_ENDED

    def _there(self, key: str) -> Iterator[Pod]:
        """The gang's pods that the watch shows."""
        uids = self._pods.get(key, {})
        return (pod for uid in uids if (pod := self._store.get(uid)) is not None)

    def went(self, uid: str) -> None:
        """No watch shows the pod any more."""
        self.flaws.pop(uid, None)
        self._unread.discard(uid)
        self._singles.went(uid)
        self._beside.discard(uid)
        found = self._of.pop(uid, None)
        if found is None:
            return
        pods = self._pods[found.key]
        del pods[uid]
        self._ending.get(found.key, set()).discard(uid)
        if not pods:
            del self._pods[found.key]
            self._ending.pop(found.key, None)
            self._forget_revision(found)

    def is_replaced(self, member: Membership) -> bool:
        """Whether the group has pods of another revision of its template. They are a gang of their
        own, so no pod is expected any more in the gang of this member, once its pods are gone.
        """
        if member.source is not Source.LWS:
            return False
        return not self._revisions.get(_group(member), set()) <= {member.key}

    def _forget_revision(self, member: Membership) -> None:
        keys = self._revisions.get(_group(member), set())
        keys.discard(member.key)
        if not keys:
            self._revisions.pop(_group(member), None)

    def set_beside(self, uid: str) -> None:
        """The pod is served alone from now on, beside the gang of its group."""
        self.went(uid)
        self._beside.add(uid)

    def is_beside(self, uid: str) -> bool:
        """Whether the pod is served alone, beside the gang of its group."""
        return uid in self._beside

    def dissolve(self, key: str, *, instead: Sequence[Source]) -> frozenset[str]:
        """The group is no gang: each of its pods is served alone, or in a gang by another source.
        Returns the keys of their units.
        """
        uids = self._pods.pop(key, {})
        self._ending.pop(key, None)
        for uid in uids:
            member = self._of.pop(uid)
            self._forget_revision(member)
            self._singles.add(member, [uid], instead=instead)
        for uid in uids if instead else ():
            pod = self._store.get(uid)
            if pod is not None:
                self._sort(pod, self._read(pod, instead))
        return frozenset(map(self.key_of, uids))

    def of(self, uid: str) -> Membership | None:
        """The pod's membership; None if it belongs to no gang."""
        return self._of.get(uid)

    def key_of(self, uid: str) -> str:
        """The key of the unit that the pod belongs to, or is to belong to."""
        found = self._of.get(uid)
        return uid if found is None else found.key

    def pods(self, key: str) -> Collection[str]:
        """The uids of the gang's pods, in the order in which they came; none if it is no gang."""
        return self._pods.get(key, {}).keys()


def _ends(pod: Pod) -> bool:
    return pod.finished or pod.metadata.deletion_timestamp is not None


def _group(member: Membership) -> tuple[str, str]:
    return member.namespace, member.name


def _is_beside(pod: Pod, found: Membership | Outsider | Problem) -> bool:
    """Whether a process has served the pod beside its gang. The pod's author can say so too, and
    gets no more by that than a job for this pod alone.
    """
    of_podgroup = isinstance(found, Membership) and found.source in OPEN_SOURCES
    return of_podgroup and pod.metadata.annotations.get(GANG) == BESIDE_GANG


def _may_join(pod: Pod, found: Membership | Outsider | Problem) -> bool:
    """Whether the pod is new to all processes, or another has served it in this very gang."""
    if not _was_served(pod):
        return True
    return isinstance(found, Membership) and pod.metadata.annotations.get(GANG) == found.key


def _was_served(pod: Pod) -> bool:
    return JOB_ID in pod.metadata.annotations or bool(pod.spec.node_name) or pod.finished
