"""Kubernetes Nodes as a pod's wishes meet them: where it may go, and whether it can go anywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from scheduler.core.fitness import Place, Unfit, Wishes, fitness, unsuitable
from scheduler.kube.store import Store
from scheduler.kube.wire import Node
from scheduler.nodemap import NodeMap
from scheduler.slurmnodes import POWERED, SlurmNodes

_MOST_SHOWN: Final = 3
# Wishes of templates, not of pods: those of one controller are the same.
_REMEMBERED: Final = 1024
# Slurm keeps the list with each job. Of more nodes than this none is named beforehand, and those
# that do not suit are learnt of one by one.
MOST_EXCLUDED: Final = 1000
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class Nodes:
    """Reads the store of Nodes, which is None where they are not read: then nothing is checked.

    `node_changed` is to be called with each change of a Node, `mapping_changed` with any other that
    mappings rest on. `on_change` is called when a pod that could go nowhere may go somewhere.
    """

    def __init__(
        self,
        store: Store[Node] | None,
        *,
        nodemap: NodeMap,
        slurm: SlurmNodes,
        on_change: Callable[[], None],
    ) -> None:
        self._store = store
        self._map = nodemap
        self._slurm = slurm
        self._on_change = on_change
        self._former: dict[str, str] = {}
        self._nowhere = lru_cache(maxsize=_REMEMBERED)(self._look_everywhere)
        self._unsuitable = lru_cache(maxsize=_REMEMBERED)(self._look_at_each)

    def place(self, node: str, wishes: Wishes) -> Place | None:
        """What is behind a Slurm node, for a pod of these wishes; None where `learn` must ask."""
        behind = self._map.behind(node, fresh=True)
        if behind is None:
            return None
        if not behind.target:
            return Place("", Unfit(behind.why))
        self._former[node] = behind.target
        if self._store is None:
            return Place(behind.target)
        found = self._store.by_name(behind.target)
        unfit = Unfit("is absent", passes=True) if found is None else fitness(wishes, found.facts)
        return Place(behind.target, unfit)

    def kube_node(self, node: str) -> str:
        """The Kubernetes Node behind a Slurm node, or that last was: containers outlive the Node
        object when that is deleted. Where none is known, the same name.
        """
        behind = self._map.behind(node)
        if behind is not None and behind.target:
            self._former[node] = behind.target
        return self._former.get(node, node)

    def node_of(self, target: str, *, among: Iterable[str]) -> str | None:
        """The Slurm node of a Kubernetes Node; as NodeMap.node_of."""
        return self._map.node_of(target, among=among)

    @property
    def unlisted(self) -> str:
        """Why Slurm's nodes are not known yet; empty once they are."""
        return "" if self._slurm.listed is not None else self._slurm.trouble or "no answer yet"

    @property
    def gpu_types(self) -> frozenset[str] | None:
        """The types of GPUs that Slurm has; None where it has not told its nodes yet."""
        return self._slurm.gpu_types

    async def learn(self, nodes: Iterable[str]) -> None:
        """Ask Slurm about these nodes. Raises SlurmError."""
        await self._slurm.learn(nodes)

    def do_without(self) -> None:
        """Nodes turn out not to be readable: nothing is checked from now on."""
        self._store = None
        self._map.do_without_nodes()
        self.mapping_changed()

    def nowhere(self, wishes: Wishes) -> str:
        """Why no Node can take a pod of these wishes, or nothing where one can."""
        return self._nowhere(wishes)

    def unsuitable(self, wishes: Wishes) -> Mapping[str, str]:
        """Slurm nodes that can never serve a pod of these wishes as things are, and why."""
        return self._unsuitable(wishes)

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """A Node has come, gone or changed; heartbeats change nothing here."""
        if old is None or new is None or _tied(old) != _tied(new) or old.facts != new.facts:
            self.mapping_changed()

    def mapping_changed(self) -> None:
        """What is known of Slurm's nodes, of slurmd pods or of a map file is not what it was."""
        self._map.changed()
        self._nowhere.cache_clear()
        self._unsuitable.cache_clear()
        self._on_change()

    def _look_everywhere(self, wishes: Wishes) -> str:
        """Of the Nodes behind Slurm's nodes; which others there are is of no use to a job."""
        complaints: dict[str, str] = {}
        store = self._store
        if store is None:
            return ""
        for node in self._slurm.listed or ():
            behind = self._map.behind(node.name)
            if behind is not None and not behind.target and POWERED.isdisjoint(node.states):
                continue  # nothing is behind it, and nothing is about to be
            found = None if behind is None else store.by_name(behind.target)
            unfit = None if found is None else unsuitable(wishes, found.facts)
            if found is None or unfit is None:
                return ""
            complaints[found.metadata.name] = unfit.why
        return _text(Counter(complaints.values()))

    def _look_at_each(self, wishes: Wishes) -> Mapping[str, str]:
        if self._store is None or self._slurm.listed is None:
            return _NONE
        found = {}
        for node in self._slurm.listed:
            why = self._complaint(node.name, wishes)
            if why:
                found[node.name] = why
        return dict(sorted(found.items())) if len(found) <= MOST_EXCLUDED else _NONE

    def _complaint(self, node: str, wishes: Wishes) -> str:
        behind = self._map.behind(node)
        target = "" if behind is None else behind.target
        found = self._store.by_name(target) if self._store is not None and target else None
        unfit = None if found is None else unsuitable(wishes, found.facts)
        return "" if unfit is None else f"Kubernetes Node {target} {unfit}"


def _tied(node: Node) -> tuple[object, ...]:
    """What mappings rest on."""
    return node.metadata.annotations, node.status.addresses, node.spec.provider_id


def _text(complaints: Counter[str]) -> str:
    """Nothing without any Node: they may be about to come."""
    if not complaints:
        return ""
    most = complaints.most_common(_MOST_SHOWN)
    left = complaints.total() - sum(count for _, count in most)
    more = [f"{left} for other reasons"] if left else []
    told = "; ".join([*(f"{count} {why}" for why, count in most), *more])
    return f"None of the {complaints.total()} Kubernetes Nodes can take the pod: {told}"
