"""Checks Kubernetes Nodes against a pod's requirements: where it may go, and whether it can
at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from groundwork.pauses import with_pauses
from scheduler.core.event_reasons import NO_ANSWER_YET
from scheduler.core.node_suitability import NodeFacts, Place, Unfit, Wishes, fitness
from scheduler.core.resource_fit import TooSmall
from scheduler.core.topology import Topology
from scheduler.kube.store import Store
from scheduler.kube.wire import Node
from scheduler.nodes.node_map import NodeMap
from scheduler.nodes.records import POWERED, SlurmNodes
from scheduler.state.pod_remains import is_dead

MOST_FORMER: Final = 20_000
"""Of how many Slurm nodes it is remembered which Node was behind them last. Where nodes come and go
with new names, those that were asked about longest ago are forgotten.
"""
_MOST_SHOWN: Final = 3
# Slurm stores the list with each job. If more nodes than this are of no use, none is excluded in
# advance, and each is excluded when Slurm allocates it.
MOST_EXCLUDED: Final = 1000
# Costs in the surveyor's items: of one step of a survey, of finding the Node behind one Slurm node,
# and of the text that says why that Node is of no use.
_STEP_ITEMS: Final = 1000
_BEHIND_ITEMS: Final = 20
_TELLING_ITEMS: Final = 20
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Survey:
    """Slurm nodes that are of no use to a pod, and why; empty if there are too many to name.
    `nowhere` says why no node is of use; "" if some are.
    """

    ruled_out: Mapping[str, str]
    nowhere: str


NOT_SURVEYED: Final = Survey(_NONE, "")
"""A survey that rules nothing out."""


Complaint = str | TooSmall | None
"""Why a Node is of no use to a pod, as the rest of a sentence; "" or None if it is of use."""


class _Behind(NamedTuple):
    """The Node behind each Slurm node ("" if it is not known yet), and how many Slurm nodes each
    Node is behind.
    """

    targets: dict[str, str]
    led: Counter[str]


class Nodes:
    """Reads the store of Nodes. It is None if we may not read Nodes; then nothing is checked.

    The object's owner calls `node_changed` for each change of a Node, and `mapping_changed` for any
    other change that mappings depend on. `on_change` is called when a pod that fitted nowhere may
    fit now.
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
        self._mapping_followers: list[Callable[[], None]] = []
        self._behind: _Behind | None = None
        self.topology = Topology(lambda: self.all_facts().values())
        self.edition = 0
        """Changes whenever Nodes change, or the mapping of Slurm's nodes to them."""

    def place(self, node: str, wishes: Wishes) -> Place | None:
        """The Node behind a Slurm node, checked for a pod with these requirements. None if `learn`
        must be called first.
        """
        behind = self._map.alone_behind(node, fresh=True)
        if behind is None:
            return None
        if not behind.target:
            return Place("", Unfit(behind.why))
        self._note(node, behind.target)
        if self._store is None:
            return Place(behind.target)
        found = self.facts(behind.target)
        unfit = Unfit("is absent", passes=True) if found is None else fitness(wishes, found)
        return Place(behind.target, unfit)

    def kube_node(self, node: str) -> str:
        """The Kubernetes Node that is or was last behind a Slurm node: containers may outlive a
        deleted Node object. If none is known, the Slurm node's own name.
        """
        behind = self._map.behind(node)
        if behind is not None and behind.target:
            self._note(node, behind.target)
        return self._former.get(node, node)

    def _note(self, node: str, target: str) -> None:
        self._former.pop(node, None)  # the newest comes last
        self._former[node] = target
        if len(self._former) > MOST_FORMER:
            del self._former[next(iter(self._former))]

    def node_of(self, target: str, *, said: str = "", held: tuple[str, ...] = ()) -> str | None:
        """The Slurm node of a Kubernetes Node; see NodeMap.node_of."""
        return self._map.node_of(target, said=said, held=held)

    def may_serve(self, node: str) -> bool:
        """Whether there is a Kubernetes Node behind this Slurm node, or may be one."""
        behind = self._map.behind(node)
        return behind is None or bool(behind.target)

    async def mapped(self) -> tuple[int, int]:
        """How many Slurm nodes have a Kubernetes Node behind them, and how many nodes there are."""
        names = [node.name for node in self._slurm.listed or ()]
        found = 0
        async for name in with_pauses(names, every=_STEP_ITEMS // _BEHIND_ITEMS):
            behind = self._map.behind(name)
            found += behind is not None and bool(behind.target)
        return found, len(names)

    @property
    def unlisted(self) -> str:
        """Why Slurm's nodes are not known yet; "" once they are."""
        return "" if self._slurm.listed is not None else self._slurm.trouble or NO_ANSWER_YET

    @property
    def gpu_types(self) -> frozenset[str] | None:
        """The types of GPUs that Slurm has; None until Slurm's nodes are known."""
        return self._slurm.gpu_types

    async def learn(self, nodes: Iterable[str]) -> None:
        """Ask Slurm about these nodes. Raises SlurmError."""
        await self._slurm.learn(nodes)

    def do_without(self) -> None:
        """Stop checking Nodes, because we may not read them."""
        self._store = None
        self._facts = None
        self._map.do_without_nodes()
        self.mapping_changed()

    @property
    def readable(self) -> bool:
        """Whether we may read Nodes, and so can check whether a pod may go there."""
        return self._store is not None

    def facts(self, name: str) -> NodeFacts | None:
        """The Kubernetes Node with this name; None if there is none or Nodes are not read."""
        return self.all_facts().get(name)

    def allocatable(self, node: str) -> Mapping[str, int]:
        """What pods may request together of the Node behind this Slurm node; empty if not known."""
        behind = self._map.behind(node)
        found = None if behind is None else self.facts(behind.target)
        return {} if found is None else found.allocatable

    def is_dead(self, name: str) -> bool:
        """Whether nothing runs any more on the Kubernetes Node of that name. False if Nodes are not
        read.
        """
        return self.readable and is_dead(self.facts(name))

    def all_facts(self) -> Mapping[str, NodeFacts]:
        """All Kubernetes Nodes by name, whether Slurm has them or not."""
        if self._facts is None:
            self._facts = {it.metadata.name: it.facts for it in self._store or ()}
        return self._facts

    def follow(self, on_change: Callable[[str], None]) -> None:
        """Call `on_change` with a Node's name whenever its facts change."""
        self._followers.append(on_change)

    def follow_mapping(self, on_change: Callable[[], None]) -> None:
        """Call `on_change` whenever another Node may be behind a Slurm node."""
        self._mapping_followers.append(on_change)

    @property
    def located(self) -> bool:
        """Whether the Nodes behind all Slurm nodes have been found already."""
        return self._behind is not None

    def surveying(
        self, complain: Callable[[NodeFacts], Complaint], *, items: int
    ) -> Generator[int, None, Survey]:
        """Check the Node behind each Slurm node with `complain`; an empty complaint means that the
        pod can use it. Works in steps and yields how many items each took; one complaint takes
        `items`.
        """
        if self._store is None or self._slurm.listed is None:
            return NOT_SURVEYED
        found: dict[str, str] = {}
        complaints, hope, spent = _Complaints(), False, 0
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
                complaints.add(node.name, why)
            if len(found) <= MOST_EXCLUDED:
                found[name] = f"Kubernetes Node {node.name} {why}"
                spent += _TELLING_ITEMS
        yield spent
        ruled_out = dict(sorted(found.items())) if len(found) <= MOST_EXCLUDED else _NONE
        return Survey(ruled_out, "" if hope else complaints.text())

    def _find_behind_in_steps(self) -> Generator[int, None, _Behind]:
        """Find the Nodes behind Slurm's nodes if they are not known; in steps, like `surveying`."""
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
                continue  # no Node is behind it, and none will be soon
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
        """Note that a Node was added, removed or changed. Heartbeats have no effect here."""
        mapped = old is None or new is None or _parts_for_mapping(old) != _parts_for_mapping(new)
        if not mapped and old and new and old.facts == new.facts:
            return
        for node in filter(None, (old, new)):
            self._keep(node.metadata.name, None if node is old else node.facts)
        if mapped:
            self.mapping_changed()
        else:
            self._changed()

    def mapping_changed(self) -> None:
        """Note that Slurm's nodes, slurmd pods or a map file have changed."""
        self._map.changed()
        self._behind = None
        for follower in self._mapping_followers:
            follower()
        self._changed()

    def _changed(self) -> None:
        self.edition += 1
        self._on_change()

    def _keep(self, name: str, facts: NodeFacts | None) -> None:
        """Update one Node. Reading all 5000 of them takes 25 ms, and mostly a single Node
        changes.
        """
        if self._facts is None:
            return
        former = self._facts.pop(name, None)
        if facts is not None:
            self._facts[name] = facts
        self.topology.changed(former, facts)
        for follower in self._followers:
            follower(name)


def _parts_for_mapping(node: Node) -> tuple[object, ...]:
    """The parts of a Node that mappings depend on."""
    meta = node.metadata
    return meta.labels, meta.annotations, node.status.addresses, node.spec.provider_id


class _Complaints:
    """Counts complaints about Nodes. All Nodes that have too little of a resource count as one
    kind, shown with the largest amount, because hardly any two have the same amount of memory.
    """

    def __init__(self) -> None:
        self._nodes: set[str] = set()
        self._texts, self._sizes = Counter[str](), Counter[str]()
        self._largest: dict[str, TooSmall] = {}

    def add(self, node: str, why: str | TooSmall) -> None:
        """Count a complaint. A Node behind several Slurm nodes counts once."""
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
        """The message for people; "" if there is no Node, because Nodes may still come."""
        total = len(self._nodes)
        if not total:
            return ""
        counted = Counter[str | TooSmall](self._texts)
        counted.update({self._largest[name]: count for name, count in self._sizes.items()})
        most = counted.most_common(_MOST_SHOWN)
        left = total - sum(count for _, count in most)
        more = [f"{left} for other reasons"] if left else []
        reasons = "; ".join([*(_of_many(why, count) for why, count in most), *more])
        return f"None of the {total} Kubernetes Nodes can take the pod: {reasons}"


def _of_many(why: str | TooSmall, count: int) -> str:
    return f"{count} {why}" if isinstance(why, str) else why.of_many(count)
