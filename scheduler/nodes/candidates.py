"""Kubernetes Nodes as a pod's wishes meet them: where it may go, and whether it can go anywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from scheduler.core.node_suitability import NodeFacts, Place, Unfit, Wishes, fitness
from scheduler.core.reasons import NO_ANSWER_YET
from scheduler.core.resource_fit import TooSmall
from scheduler.core.topology import Topology
from scheduler.kube.store import Store
from scheduler.kube.wire import Node
from scheduler.nodes.map import NodeMap
from scheduler.nodes.records import POWERED, SlurmNodes

_MOST_SHOWN: Final = 3
# Slurm keeps the list with each job. Of more nodes than this none is named beforehand, and those
# that do not suit are learnt of one by one.
MOST_EXCLUDED: Final = 1000
# What a step of a survey may cost, in the items of the surveyor; what it costs to find the Node
# behind one of Slurm's nodes, and to say why that is of no use.
_STEP_ITEMS: Final = 1000
_BEHIND_ITEMS: Final = 20
_TELLING_ITEMS: Final = 20
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Survey:
    """Slurm nodes that are of no use to a pod, and why; empty where they are too many to be named.
    `nowhere` says why none is of use, where that is so.
    """

    ruled_out: Mapping[str, str]
    nowhere: str


UNKNOWN: Final = Survey(_NONE, "")
"""Rules nothing out."""


Complaint = str | TooSmall | None
"""Why a Node is of no use to a pod, as the rest of a sentence; empty or None where it is of use."""


class _Behind(NamedTuple):
    """The Node behind each Slurm node, empty where that may be any, and how often it is one."""

    targets: dict[str, str]
    led: Counter[str]


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
        self._facts: dict[str, NodeFacts] | None = None
        self._followers: list[Callable[[str], None]] = []
        self._behind: _Behind | None = None
        self.topology = Topology(lambda: self.all_facts().values())
        self.edition = 0
        """Another whenever Nodes, or what is behind Slurm's nodes, have changed."""

    def place(self, node: str, wishes: Wishes) -> Place | None:
        """What is behind a Slurm node, for a pod of these wishes; None where `learn` must ask."""
        behind = self._map.alone_behind(node, fresh=True)
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

    def may_serve(self, node: str) -> bool:
        """Whether a Slurm node leads to a Kubernetes Node, or may, as far as is known."""
        behind = self._map.behind(node)
        return behind is None or bool(behind.target)

    def mapped(self) -> tuple[int, int]:
        """How many of Slurm's nodes lead to a Kubernetes Node, and how many there are."""
        names = [node.name for node in self._slurm.listed or ()]
        found = [self._map.behind(name) for name in names]
        return sum(it is not None and bool(it.target) for it in found), len(names)

    @property
    def unlisted(self) -> str:
        """Why Slurm's nodes are not known yet; empty once they are."""
        return "" if self._slurm.listed is not None else self._slurm.trouble or NO_ANSWER_YET

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
        self._facts = None
        self._map.do_without_nodes()
        self.mapping_changed()

    @property
    def read(self) -> bool:
        """Whether Nodes are read, so that it can be checked whether a pod may go there."""
        return self._store is not None

    def facts(self, name: str) -> NodeFacts | None:
        """The Kubernetes Node of that name."""
        found = None if self._store is None else self._store.by_name(name)
        return None if found is None else found.facts

    def all_facts(self) -> Mapping[str, NodeFacts]:
        """All Kubernetes Nodes by name, whether Slurm has them or not."""
        if self._facts is None:
            self._facts = {it.metadata.name: it.facts for it in self._store or ()}
        return self._facts

    def follow(self, told: Callable[[str], None]) -> None:
        """Have the name of each Node of which `all_facts` says something else from now on."""
        self._followers.append(told)

    @property
    def located(self) -> bool:
        """Whether it is known already which Nodes are behind Slurm's nodes."""
        return self._behind is not None

    def surveying(
        self, complain: Callable[[NodeFacts], Complaint], *, items: int
    ) -> Generator[int, None, Survey]:
        """What is behind each of Slurm's nodes, as somebody complains about it; an empty complaint
        is none. In steps, which say how many items each took, where a complaint takes `items`.
        """
        if self._store is None or self._slurm.listed is None:
            return UNKNOWN
        found: dict[str, str] = {}
        told, hope, spent = _Told(), False, 0
        targets, led = yield from self._find_behind_in_steps()
        for name, target in targets.items():
            spent += items
            if spent >= _STEP_ITEMS:
                yield spent
                spent = 0
            node = self.all_facts().get(target)
            twofold = self._twofold(name, target) if node and led[target] > 1 else ""
            why = None if node is None else twofold or complain(node)
            if node is None or not why:
                hope = True
                continue
            if not hope:
                told.add(node.name, why)
            if len(found) <= MOST_EXCLUDED:
                found[name] = f"Kubernetes Node {node.name} {why}"
                spent += _TELLING_ITEMS
        yield spent
        ruled_out = dict(sorted(found.items())) if len(found) <= MOST_EXCLUDED else _NONE
        return Survey(ruled_out, "" if hope else told.text())

    def _find_behind_in_steps(self) -> Generator[int, None, _Behind]:
        """Find the Nodes behind Slurm's nodes, if that is not known; in steps, as `surveying`."""
        if self._behind is not None:
            return self._behind
        edition, found, spent = self.edition, _Behind({}, Counter()), 0
        for node in self._slurm.listed or ():
            spent += _BEHIND_ITEMS
            if spent >= _STEP_ITEMS:
                yield spent
                spent = 0
            behind = self._map.behind(node.name)
            if behind is not None and not behind.target and POWERED.isdisjoint(node.states):
                continue  # nothing is behind it, and nothing is about to be
            target = "" if behind is None else behind.target
            found.targets[node.name] = target
            found.led[target] += 1
        if edition == self.edition:
            self._behind = found
        yield spent
        return found

    def _twofold(self, node: str, target: str) -> str:
        other = self._map.rival(node, target)
        return f"is behind the Slurm nodes {' and '.join(sorted((node, other)))}" if other else ""

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """A Node has come, gone or changed; heartbeats change nothing here."""
        mapped = old is None or new is None or _tied(old) != _tied(new)
        if not mapped and old and new and old.facts == new.facts:
            return
        for node in filter(None, (old, new)):
            self._keep(node.metadata.name, None if node is old else node.facts)
        if mapped:
            self.mapping_changed()
        else:
            self._changed()

    def mapping_changed(self) -> None:
        """What is known of Slurm's nodes, of slurmd pods or of a map file is not what it was."""
        self._map.changed()
        self._behind = None
        self._changed()

    def _changed(self) -> None:
        self.edition += 1
        self._on_change()

    def _keep(self, name: str, facts: NodeFacts | None) -> None:
        """All Nodes are read once: 5000 of them take 25 ms, and mostly a single one changes."""
        if self._facts is None:
            return
        former = self._facts.pop(name, None)
        if facts is not None:
            self._facts[name] = facts
        self.topology.changed(former, facts)
        for told in self._followers:
            told(name)


def _tied(node: Node) -> tuple[object, ...]:
    """What mappings rest on."""
    meta = node.metadata
    return meta.labels, meta.annotations, node.status.addresses, node.spec.provider_id


class _Told:
    """Complaints about Nodes, counted. Nodes that lack the same resource are one kind, told by the
    one with the most of it: hardly two have the same amount of memory.
    """

    def __init__(self) -> None:
        self._nodes: set[str] = set()
        self._texts, self._sizes = Counter[str](), Counter[str]()
        self._largest: dict[str, TooSmall] = {}

    def add(self, node: str, why: str | TooSmall) -> None:
        """A Node behind several Slurm nodes counts once."""
        if node in self._nodes:
            return
        self._nodes.add(node)
        if isinstance(why, str):
            self._texts[why] += 1
            return
        self._sizes[why.resource] += 1
        largest = self._largest.get(why.resource)
        if largest is None or why.has > largest.has:
            self._largest[why.resource] = why

    def text(self) -> str:
        """Nothing without any Node: they may be about to come."""
        total = len(self._nodes)
        if not total:
            return ""
        counted = Counter[str | TooSmall](self._texts)
        counted.update({self._largest[name]: count for name, count in self._sizes.items()})
        most = counted.most_common(_MOST_SHOWN)
        left = total - sum(count for _, count in most)
        more = [f"{left} for other reasons"] if left else []
        told = "; ".join([*(_of_many(why, count) for why, count in most), *more])
        return f"None of the {total} Kubernetes Nodes can take the pod: {told}"


def _of_many(why: str | TooSmall, count: int) -> str:
    return f"{count} {why}" if isinstance(why, str) else why.of_many(count)
