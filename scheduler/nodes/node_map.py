"""Which Kubernetes Node is behind a Slurm node, and the other way round.

Strategies are tried in order, and the first that names exactly one Node wins. Some strategies read
the stores of Nodes or slurmd pods, others Slurm's records (`SlurmNodes`), which may have to be
requested from Slurm first. If no strategy maps a Slurm node, its Node is never guessed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from scheduler.core.mapping_strategies import OF_SLURM, Strategy, Way
from scheduler.kube.store import Joined, Store
from scheduler.kube.wire import Node, Pod
from scheduler.nodes.map_file import MapFile
from scheduler.nodes.records import AWAY, SlurmNodes

# The nodes of a smaller job are asked about one by one.
_FEW: Final = 8
_NODE_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")

Index = Mapping[str, frozenset[str]]
"""Names of Nodes by the value that a strategy finds on them."""


class Behind(msgspec.Struct, frozen=True):
    """The Node behind a Slurm node. Without a `target`, `why` says why there is none."""

    target: str
    why: str = ""


class _HeldNodes(NamedTuple):
    """The nodes of a job, and the first of them for each Kubernetes Node."""

    nodes: tuple[str, ...]
    by_target: Mapping[str, str] = MappingProxyType({})


class NodeMap:
    """Maps in both directions. `nodes` is None if we may not read Nodes; then the Node that a
    strategy names is assumed to exist. The owner calls `changed` when any of the stores changes.
    """

    def __init__(
        self,
        strategies: Sequence[Strategy],
        *,
        slurm: SlurmNodes,
        nodes: Store[Node] | None,
        pods: Mapping[Strategy, Joined[Pod]] | None = None,
        files: Mapping[Strategy, MapFile] | None = None,
    ) -> None:
        self._strategies = tuple(strategies)
        self._slurm = slurm
        self._nodes = nodes
        self._pods = pods or {}
        self._files = files or {}
        self._indices: dict[Strategy, Index] = {}
        self._back: Mapping[str, tuple[str, ...]] | None = None
        self._held = _HeldNodes(())

    def changed(self) -> None:
        """Note that something that mappings depend on has changed."""
        self._indices.clear()
        self._back = None
        self._held = _HeldNodes(())

    def do_without_nodes(self) -> None:
        """Note that we may not read Nodes."""
        self._nodes = None
        self.changed()

    def alone_behind(self, node: str, *, fresh: bool = False) -> Behind | None:
        """Like `behind`, but without a Node if another Slurm node maps to the same one: Slurm would
        count its resources twice, so nothing may be bound there through either.
        """
        found = self.behind(node, fresh=fresh)
        if found is None or not found.target:
            return found
        other = self.rival(node, found.target)
        if not other:
            return found
        why = f"maps to Kubernetes Node {found.target}, and so does Slurm node {other}"
        return Behind("", f"{why}: correct one of them")

    def rival(self, node: str, target: str) -> str:
        """Another Slurm node that maps to the same Kubernetes Node; "" if there is none. A node
        that cannot start jobs does not count, since it may just have kept an old comment.
        """
        others = [it for it in self._leading_to(target) if it != node]
        return next(iter(self._usable(others)), "")

    def behind(self, node: str, *, fresh: bool = False) -> Behind | None:
        """The Node behind a Slurm node; None if Slurm must be asked about that node first.

        With `fresh`, a record of Slurm's that is too old for a bind counts as unknown.
        """
        reasons: list[str] = []
        for strategy in self._strategies:
            if strategy.way in OF_SLURM and not self._slurm.knows(node, fresh=fresh):
                return None
            found = self._ask(strategy, node)
            if found.target:
                return found
            reasons.append(found.why)
        return Behind("", "maps to no Kubernetes Node: " + ", ".join(reasons))

    def node_of(self, target: str, *, said: str = "", held: tuple[str, ...] = ()) -> str | None:
        """The Slurm node that this Kubernetes Node is behind: the one that is `said`, if that is
        true, or one of those that a job has `held`, if any is.

        "" if there is none; None if Slurm must be asked first (for all nodes).
        """
        if said and self._leads(said, target):
            return said
        node = self._of_held(held, target)
        if node and self._leads(node, target):
            return node
        if self._leads(target, target):
            return target
        if self._slurm.listed is None:
            return None
        leading = self._leading_to(target)
        leading = self._usable(leading) or leading
        return leading[0] if len(leading) == 1 else ""

    def _leads(self, node: str, target: str) -> bool:
        """Whether this is a Slurm node that maps to that Kubernetes Node."""
        behind = self.behind(node)
        return behind is not None and behind.target == target and self._is_known(node)

    def _of_held(self, held: tuple[str, ...], target: str) -> str:
        """The first of these Slurm nodes that maps to the Kubernetes Node; "" if none does. A gang
        asks for a thousand pods about as many nodes, so what was found for one is kept for all.
        """
        if len(held) < _FEW:
            return next((it for it in held if self._leads(it, target)), "")
        if self._held.nodes is not held:
            self._held = _HeldNodes(held, {it: name for name, it in self._leading(held)})
        return self._held.by_target.get(target, "")

    def _leading(self, nodes: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        """These Slurm nodes, the first one last, each with its Kubernetes Node if it has one."""
        for node in reversed(nodes):
            behind = self.behind(node)
            if behind is not None and behind.target and self._is_known(node):
                yield node, behind.target

    def _is_known(self, node: str) -> bool:
        """Whether Slurm may have this node; the Node's own name is only a guess."""
        listed = self._slurm.listed
        return listed is None or self._slurm.record(node) is not None

    def _leading_to(self, target: str) -> tuple[str, ...]:
        """The Slurm nodes that map to this Node, as far as Slurm's nodes are known."""
        if self._back is None:
            found: defaultdict[str, list[str]] = defaultdict(list)
            for node in self._slurm.listed or ():
                behind = self.behind(node.name)
                if behind is not None and behind.target:
                    found[behind.target].append(node.name)
            self._back = {name: tuple(nodes) for name, nodes in found.items()}
        return self._back.get(target, ())

    def _usable(self, nodes: Iterable[str]) -> tuple[str, ...]:
        records = [(it, self._slurm.record(it)) for it in nodes]
        return tuple([it for it, record in records if record and not record.states & AWAY])

    def _ask(self, strategy: Strategy, node: str) -> Behind:
        """The Node that this one strategy finds behind the Slurm node, or why it finds none."""
        match strategy.way:
            case Way.NAME:
                return self._behind_if_there(node, f"no Node has the name {node}")
            case Way.FILE:
                target = self._files[strategy].nodes.get(node, "")
                return self._behind_if_there(target, f"{strategy.key} has no line for it")
            case Way.COMMENT | Way.EXTRA | Way.INSTANCE_ID | Way.ADDRESS:
                return self._by_record(strategy, node)
            case Way.LABEL | Way.ANNOTATION | Way.SLURMD_POD:
                return self._only(self._index(strategy).get(node), strategy, node)

    def _by_record(self, strategy: Strategy, node: str) -> Behind:
        record = self._slurm.record(node)
        if record is None:
            return Behind("", "Slurm does not know it")
        if strategy.way is Way.ADDRESS:
            return self._only(self._index(strategy).get(record.address), strategy, record.address)
        value = {
            Way.COMMENT: record.comment,
            Way.EXTRA: record.extra,
            Way.INSTANCE_ID: record.instance_id,
        }[strategy.way].strip()
        if strategy.way is Way.INSTANCE_ID and value in self._index(strategy):
            return self._only(self._index(strategy)[value], strategy, value)
        return self._behind_if_there(
            value, f"its {strategy.way} is {value[:64]!r}, which names no Node"
        )

    def _behind_if_there(self, target: str, otherwise: str) -> Behind:
        if self._nodes is None:
            return Behind(target) if _NODE_NAME.fullmatch(target) else Behind("", otherwise)
        there = bool(target) and self._nodes.by_name(target) is not None
        return Behind(target) if there else Behind("", otherwise)

    def _only(self, found: frozenset[str] | None, strategy: Strategy, value: str) -> Behind:
        if not found:
            return Behind("", f"{strategy} knows no {value or 'empty value'}")
        if len(found) > 1:
            return Behind("", f"{strategy} has {value} on {len(found)} Nodes")
        (target,) = found
        return self._behind_if_there(target, f"{strategy} leads to {target}, which is no Node")

    def _index(self, strategy: Strategy) -> Index:
        index = self._indices.get(strategy)
        if index is None:
            index = self._indices[strategy] = self._indexed(strategy)
        return index

    def _indexed(self, strategy: Strategy) -> Index:
        found: defaultdict[str, set[str]] = defaultdict(set)
        if strategy.way is Way.SLURMD_POD:
            for pod in _placed(self._pods[strategy]):
                for name in {pod.metadata.name, pod.spec.hostname} - {""}:
                    found[name].add(pod.spec.node_name)
        else:
            for node in self._nodes or ():
                for value in _marks(strategy, node):
                    found[value].add(node.metadata.name)
        return {value: frozenset(names) for value, names in found.items()}


def _placed(pods: Joined[Pod]) -> Iterable[Pod]:
    """Pods that run or are about to. Those being deleted are left out, because they will soon have
    successors.
    """
    for pod in pods:
        going = pod.metadata.deletion_timestamp is not None
        if pod.spec.node_name and not going and not pod.finished:
            yield pod


def _marks(strategy: Strategy, node: Node) -> Iterable[str]:
    match strategy.way:
        case Way.LABEL:
            return filter(None, [node.metadata.labels.get(strategy.key, "")])
        case Way.ANNOTATION:
            return filter(None, [node.metadata.annotations.get(strategy.key, "")])
        case Way.INSTANCE_ID:
            return filter(None, [node.spec.provider_id.rpartition("/")[2]])
        case Way.ADDRESS:
            return [it.address for it in node.status.addresses if it.type == "InternalIP"]
        case _:
            return ()
