"""Knows the pods of all schedulers on each Node, with sums and counts of them.

Fed by the watches of pods, and by our own bindings until a watch shows them. Answers that are
needed again and again are kept and updated with each pod that comes or goes. So a look at a unit
never goes through all pods, except for the first question about a crowd (core.pod_affinity.Crowd).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Collection, Iterator, KeysView, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto, unique
from typing import Final

from scheduler.core.comparison_cost import crowd_weight
from scheduler.core.pod_affinity import Crowd
from scheduler.core.ports import HostPort
from scheduler.kube.neighbours import Neighbour
from scheduler.nodes.aversions import Aversions

# How many crowds are kept. Each pod that comes or goes is compared with each of them, and each
# takes 0.1 MB if it has pods on 5000 Nodes. If a user keeps requiring new crowds, others' are
# counted again, which takes 30 ms for 50 000 pods.
MOST_CROWDS: Final = 64
# Limit of texts in these crowds, which are compared with each pod's labels, at 0.1 µs each.
# Together both limits keep an event of a pod below 0.1 ms, whatever selectors users write.
MOST_TEXTS_COUNTED: Final = 512
# How many pods are compared with a crowd in one step.
_STEP: Final = 128


@unique
class RoomChange(Enum):
    """Which pods that no Node could take may fit one now."""

    FOR_DEPENDENT = auto()
    """Those whose place depends on other pods (`kube.demands.depends_on_pods`)."""
    FOR_ALL = auto()
    """All of them: fewer pods keep others away by their anti-affinity."""


@dataclass(slots=True)
class Load:
    """The pods of one Node, and what they request together."""

    used: dict[str, int] = field(default_factory=dict)
    # By uid: anybody may create 20 000 pods on one Node, and each removal went through all.
    _pods: dict[str, Neighbour] = field(default_factory=dict)

    @property
    def pods(self) -> Collection[Neighbour]:
        """The pods, in the order in which they came."""
        return self._pods.values()

    def add(self, pod: Neighbour) -> None:
        """Add a pod. Its former state may still be there, and is removed afterwards."""
        self._pods[pod.uid] = pod
        for name, amount in pod.shape.requests:
            self.used[name] = self.used.get(name, 0) + amount

    def remove(self, pod: Neighbour) -> None:
        """Remove a pod."""
        if self._pods[pod.uid] is pod:
            del self._pods[pod.uid]
        for name, amount in pod.shape.requests:
            left = self.used.get(name, 0) - amount
            if left:
                self.used[name] = left
            else:  # users name resources as they like, so nothing is kept of those that are gone
                self.used.pop(name, None)

    @property
    def ports(self) -> list[HostPort]:
        """The host ports that the pods use."""
        return [port for pod in self.pods for port in pod.shape.ports]


_EMPTY: Final = Load()


class Neighbourhood:
    """The pods on Nodes. `count` returns how many of a crowd there are, and `counting` finds that
    out in steps. `changes` is the number of all changes so far, and `counted` the number of
    comparisons of a pod with a crowd.
    """

    def __init__(self) -> None:
        self._assumed: dict[str, Neighbour] = {}
        self._loads: dict[str, Load] = {}
        self._crowds: OrderedDict[Crowd, dict[str, int]] = OrderedDict()
        # Counts that have begun, by the identity of the count: one crowd may be counted twice at
        # the same time.
        self._underway: dict[int, tuple[Crowd, dict[str, int]]] = {}
        self._texts = 0  # how many texts the crowds that are kept compare with a pod
        self.aversions = Aversions()
        self.changes = 0
        self.counted = 0
        now = self.changes, self.aversions.ended
        self._taken = deque((now, now), maxlen=2)

    def taken_change(self) -> RoomChange | None:
        """What pods that came or went since the last call but one have changed for pods that no
        Node could take; None if nothing. So each change is told twice: the pass after the first
        time may still rely on a survey from before the change. What the others request is not
        asked: a pod that only waits for room has a job in Slurm's queue.
        """
        changes, ended = self._taken[0]
        self._taken.append((self.changes, self.aversions.ended))
        if ended != self.aversions.ended:
            return RoomChange.FOR_ALL
        return None if changes == self.changes else RoomChange.FOR_DEPENDENT

    def changed(self, old: Neighbour | None, new: Neighbour | None) -> None:
        """Note a new state of a pod that the watch shows."""
        for pod in filter(None, (old, new)):
            self.withdraw(pod.uid)
        # The new state is added first, so that what both states have in common is not dropped and
        # created again.
        if new is not None:
            self._come(new)
        if old is not None:
            self._leave(old)

    def assume(self, pod: Neighbour) -> None:
        """Count a pod from now on: its binding is about to be sent, and the watch does not show it
        yet.
        """
        self.withdraw(pod.uid)
        self._assumed[pod.uid] = pod
        self._come(pod)

    def withdraw(self, uid: str) -> None:
        """Remove an assumed pod: it was not bound after all, or is gone."""
        pod = self._assumed.pop(uid, None)
        if pod is not None:
            self._leave(pod)

    def confirm(self, uid: str, node: str) -> Neighbour | None:
        """The assumed pod, which the watch shows on this Node now and which stays counted there.
        None, and nothing is changed, if it was not assumed, or on another Node.
        """
        pod = self._assumed.get(uid)
        if pod is None or pod.node != node:
            return None
        return self._assumed.pop(uid)

    def assumed(self) -> KeysView[str]:
        """The uids of pods whose bindings the watch does not show yet."""
        return self._assumed.keys()

    def load(self, node: str) -> Load:
        """The pods on a Node."""
        return self._loads.get(node, _EMPTY)

    def count(self, crowd: Crowd) -> Mapping[str, int]:
        """How many pods of a crowd are on each Node. If it is not counted already (`counts`), it is
        counted at once, in one go.
        """
        for _ in self.counting(crowd):
            pass
        return self._crowds[crowd]

    def counts(self, crowd: Crowd) -> bool:
        """Whether this crowd is counted already, so that `count` answers at once."""
        return crowd in self._crowds

    def counting(self, crowd: Crowd) -> Iterator[int]:
        """Count a crowd in steps, and yield how many texts each step compared. Pods may come and go
        between two steps. A pod that goes before it was counted is subtracted first, which gives
        the same result.
        """
        if crowd not in self._crowds:
            found: dict[str, int] = {}
            self._underway[id(found)] = crowd, found
            try:
                yield from self._compare(crowd, found)
            finally:
                del self._underway[id(found)]
            self._keep(crowd, found)
        self._crowds.move_to_end(crowd)

    def _compare(self, crowd: Crowd, found: dict[str, int]) -> Iterator[int]:
        everyone = [pod for load in self._loads.values() for pod in load.pods]
        weight = crowd_weight(crowd)
        for start in range(0, len(everyone), _STEP):
            part = everyone[start : start + _STEP]
            self.counted += len(part)
            for pod in part:
                if _belongs(pod, crowd):
                    _change_number(found, pod.node, 1)
            yield len(part) * weight

    def _keep(self, crowd: Crowd, found: dict[str, int]) -> None:
        """Keep the count, and drop those of the crowds that were unused for longest."""
        if crowd not in self._crowds:
            self._texts += crowd_weight(crowd)
        self._crowds[crowd] = found
        while len(self._crowds) > MOST_CROWDS or (
            self._texts > MOST_TEXTS_COUNTED and len(self._crowds) > 1
        ):
            gone, _ = self._crowds.popitem(last=False)
            self._texts -= crowd_weight(gone)

    def _come(self, pod: Neighbour) -> None:
        self._loads.setdefault(pod.node, Load()).add(pod)
        self._count_all(pod, 1)

    def _leave(self, pod: Neighbour) -> None:
        load = self._loads[pod.node]
        load.remove(pod)
        if not load.pods:
            del self._loads[pod.node]
        self._count_all(pod, -1)

    def _count_all(self, pod: Neighbour, by: int) -> None:
        self.changes += 1
        for crowd, nodes in (*self._crowds.items(), *self._underway.values()):
            self.counted += 1
            if _belongs(pod, crowd):
                _change_number(nodes, pod.node, by)
        self.aversions.change_count(pod.namespace, pod.shape.apart, pod.node, by)


def _belongs(pod: Neighbour, crowd: Crowd) -> bool:
    return crowd.holds(pod.namespace, pod.labels) and not (crowd.staying and pod.leaving)


def _change_number(nodes: dict[str, int], node: str, by: int) -> None:
    left = nodes.get(node, 0) + by
    if left:
        nodes[node] = left
    else:
        nodes.pop(node, None)
