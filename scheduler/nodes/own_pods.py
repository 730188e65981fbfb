"""Our own pods on Nodes, as the watch of our pods shows them.

The watch of all pods on Nodes leaves them out, because each change of one of them would otherwise
be sent, decoded and counted twice.
"""

from __future__ import annotations

from scheduler.kube.neighbours import Neighbour, neighbour, same_for_others
from scheduler.kube.wire import Pod
from scheduler.nodes.neighbourhood import Neighbourhood


class OwnPods:
    """Adds them to the pods `around` each Node."""

    def __init__(self, around: Neighbourhood) -> None:
        self._around = around
        self.items: dict[str, Neighbour] = {}
        """By uid. Only the methods here write it."""
        self._claimed: dict[str, Pod] = {}

    def __len__(self) -> int:
        return len(self.items)

    def claimed(self, pod: Pod) -> None:
        """Note that a binding of this state of the pod is about to be sent, and that the pod is
        counted on its Node already.
        """
        self._claimed[pod.metadata.uid] = pod

    def changed(self, old: Pod | None, new: Pod | None) -> None:
        """Called with each change of one of our pods."""
        pod = new or old
        if pod is None:
            return
        uid = pod.metadata.uid
        claimed = self._claimed.pop(uid, None)
        there = self.items.get(uid)
        if new is None or new.finished or not new.spec.node_name:
            if there is not None:
                del self.items[uid]
                self._around.changed(there, None)
        elif there is None:
            confirmed = None if claimed is not old else self._confirmed(claimed, new)
            self.items[uid] = confirmed or self._come(new)
        elif old is None or not same_for_others(old, new):
            found = neighbour(new)
            if not found.like(there):
                self.items[uid] = found
                self._around.changed(there, found)

    def _confirmed(self, claimed: Pod | None, bound: Pod) -> Neighbour | None:
        """The pod as it is counted already, if the binding has changed nothing else about it."""
        if claimed is None or not same_for_others(claimed, bound, but_node=True):
            return None
        return self._around.confirm(bound.metadata.uid, bound.spec.node_name)

    def _come(self, pod: Pod) -> Neighbour:
        found = neighbour(pod)
        self._around.changed(None, found)
        return found
