"""What a namespace may ask for: Slurm's partitions with their nodes, as the page tells them.

It works only while somebody asks. The nodes are added up once for all who ask at about the same
time, in short turns of the loop, and one answer is made after the other, with rests between them.
Slurm is asked for its nodes and its partitions at most every NODES_SECONDS.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import msgspec

from scheduler.kube.clip import clipped
from scheduler.page.board import NODES_SECONDS
from scheduler.page.node_room import kube_side, room_of
from scheduler.page.partition_rules import NamespaceRules, Say, depends_on_class
from scheduler.page.partition_tally import Tally
from scheduler.page.turns import ShortTurns, TurnsInTurn
from scheduler.service.shown import Shown
from scheduler.view.partition_row import (
    LONGEST_TEXT,
    MOST_ROWS,
    MOST_SAID,
    PartitionRow,
    PartitionsTold,
)
from scheduler.view.row import Names
from scheduler.view.safe_text import shown as harmless
from slurmapi import Partition, SlurmError

TALLY_SECONDS: Final = 5.0
AGAIN_SECONDS: Final = 2.0
"""For this long Slurm is not asked again, whether it has answered or not."""
MOST_PARTITIONS: Final = 1000
MOST_NODES: Final = 20_000
MOST_MEMBERSHIPS: Final = 200_000
"""How many times a node is counted in a partition. 6666 nodes in 30 partitions each take 1.1 s of
CPU time, in short turns (measured).
"""
# Slurm may take longer; who asks then gets its last answer.
_SLURM_SECONDS: Final = 5.0
_MINUTE: Final = 60
_UP: Final = "UP"
_HIDDEN: Final = "HIDDEN"
_RESERVED: Final = "REQ_RESV"
_STATES: Final = {
    "DOWN": "DOWN: Slurm takes jobs, and starts none",
    "DRAIN": "DRAIN: Slurm takes no new jobs",
    "INACTIVE": "INACTIVE: Slurm takes no jobs, and starts none",
}
_UNKNOWN: Final = (
    "a pod waits nevertheless if a job with a higher priority needs the same nodes",
    "not known here: what Slurm limits by QoS, account and user (`sacctmgr show qos,assoc`)",
)
_encode = msgspec.json.Encoder().encode


class NotKnownError(Exception):
    """Slurm has not answered yet; the message says why."""


@dataclass(frozen=True, slots=True)
class _Counted:
    """What is the same for all namespaces. `whole` says that every node was counted."""

    partitions: Sequence[Partition] = ()
    tallies: dict[str, Tally] = field(default_factory=dict)
    whole: bool = True


class PartitionBoard:
    """Makes the answers. `served` are the namespaces that the scheduler serves; empty for all.
    `answers` are the turns of all who answer such questions, and `clock` is in seconds.
    """

    def __init__(
        self,
        shown: Shown,
        names: Names,
        *,
        served: Sequence[str],
        keeps_gpus_apart: bool,
        answers: TurnsInTurn,
        clock: Callable[[], float],
    ) -> None:
        self._shown = shown
        self._names = names
        self._served = frozenset(served)
        self._keeps_gpus_apart = keeps_gpus_apart
        self._clock = clock
        self._asking: asyncio.Task[str] | None = None
        self._asked_until = float("-inf")
        self._answers = answers
        self._counted = _Counted()
        self._fresh_until = float("-inf")
        self.counted = 0
        """How many times the nodes were added up."""

    async def answer(self, namespace: str, *, after: str = "") -> bytes:
        """The JSON of a PartitionsTold: partitions by name behind `after`. Raises NotKnownError
        if Slurm has never answered.
        """
        await self._renew()
        async with self._answers.next() as turns:
            if self._clock() >= self._fresh_until:
                self._counted = await self._count(turns)
                self._fresh_until = self._clock() + TALLY_SECONDS
            return _encode(await self._made(namespace, after, turns))

    async def _renew(self) -> None:
        """Ask Slurm once for all who ask, also if it does not answer, or if they leave meanwhile:
        a request that ended with its asker would be sent again for the next one.
        """
        shown = self._shown
        if self._asking is None or self._clock() >= self._asked_until:
            self._asked_until = math.inf
            self._asking = asyncio.create_task(self._ask(), name="partitions for the page")
        trouble = await asyncio.shield(self._asking)
        if shown.partitions.listed is None or shown.records.listed is None:
            raise NotKnownError(trouble or "it is asked at this moment")

    async def _ask(self) -> str:
        """Why Slurm does not answer; "" if it does."""
        try:
            async with asyncio.timeout(_SLURM_SECONDS):
                await self._shown.partitions.renew(older_than=NODES_SECONDS)
                await self._shown.records.renew(older_than=NODES_SECONDS)
        except (SlurmError, TimeoutError) as error:
            return str(error) or f"no answer within {_SLURM_SECONDS:g} s"
        finally:
            self._asked_until = self._clock() + AGAIN_SECONDS
        return ""

    async def _count(self, turns: ShortTurns) -> _Counted:
        """Add up the nodes of all partitions."""
        self.counted += 1
        listed = sorted(self._shown.partitions.listed or (), key=lambda it: it.name)
        partitions = listed[:MOST_PARTITIONS]
        tallies = {it.name: Tally() for it in partitions}
        whole_nodes = {it.name for it in partitions if it.whole_nodes}
        side = kube_side(self._shown.nodes, self._shown.fit.around.load, gpus=self._names.gpus)
        nodes = list(self._shown.records.listed or ())
        left, whole = MOST_MEMBERSHIPS, len(listed) <= MOST_PARTITIONS and len(nodes) <= MOST_NODES
        for node in nodes[:MOST_NODES]:
            left -= len(node.partitions)
            if left < 0:
                whole = False
                break
            room = room_of(node, side(node.name))
            for name in node.partitions:
                if name in tallies:
                    tallies[name].add(room, whole_nodes=name in whole_nodes)
            await turns.item()
        return _Counted(partitions, tallies, whole)

    async def _made(self, namespace: str, after: str, turns: ShortTurns) -> PartitionsTold:
        rules = NamespaceRules(self._shown.rulebook.ruling(namespace))
        chosen = [it for it in self._counted.partitions if it.name > after and _is_shown(it, rules)]
        rows = []
        for partition in chosen[:MOST_ROWS]:
            rows.append(self._row(partition, rules))
            await turns.item()
        more = len(chosen) > MOST_ROWS
        return PartitionsTold(
            namespace=namespace,
            source="scheduler",
            items=tuple(rows),
            continue_=rows[-1].name if more else "",
            age_seconds=max(0.0, self._clock() - self._shown.records.listed_at),
            limits=_first_texts(rules.limits()),
            notes=_first_texts(self._notes(namespace)),
        )

    def _row(self, partition: Partition, rules: NamespaceRules) -> PartitionRow:
        tally, say = self._counted.tallies[partition.name], rules.of(partition)
        starts = _UP in partition.states and _RESERVED not in (partition.flags or ())
        longest = _in_seconds(partition.max_minutes)
        ruled = rules.longest_seconds
        most = min((it for it in (longest, ruled) if it is not None), default=None)
        return PartitionRow(
            name=partition.name,
            state="+".join(partition.states),
            default=say.default,
            allowed=say.allowed,
            time_limited=most is not None,
            max_seconds=most,
            default_seconds=_in_seconds(partition.default_minutes),
            max_nodes=partition.max_nodes,
            nodes=tally.nodes,
            usable=tally.usable,
            gpus=tally.shown_gpus(),
            kinds=tally.shown_kinds(partition),
            now=tally.now(partition) if starts else (),
            limits=_first_texts(_slurm_limits(partition)),
            notes=_first_texts(self._row_notes(partition, tally, say)),
        )

    def _row_notes(self, partition: Partition, tally: Tally, say: Say) -> Iterator[str]:
        if say.why:
            yield say.why
        for state in partition.states:
            if state in _STATES:
                yield f"the partition is {_STATES[state]}"
        if not tally.nodes:
            yield "the partition has no nodes"
        yield from tally.notes()
        if tally.shared_with_jobs and self._keeps_gpus_apart:
            yield (
                f"{tally.shared_with_jobs} nodes have a slurmd: there a pod with GPUs starts only "
                "beside jobs of its own user (--gpu-node-sharing)"
            )

    def _notes(self, namespace: str) -> Iterator[str]:
        if self._served and namespace not in self._served:
            yield "the scheduler does not serve this namespace (--watch-namespace)"
        if not self._counted.whole:
            yield "there are more partitions or nodes than were counted"
        if not self._shown.nodes.readable:
            yield "the scheduler may not read Nodes, so their state and room are not considered"
        elif not self._shown.fit.readable:
            yield "the scheduler may not read pods of others, so what they take is not considered"
        if depends_on_class(self._shown.rulebook.policy):
            yield "the policy has rules by PriorityClass: what is shown holds for pods without one"
        if any(it.flags is None for it in self._counted.partitions[:1]):
            yield "Slurm tells its default partition from 26.05 on only"
        yield from _UNKNOWN


def _is_shown(partition: Partition, rules: NamespaceRules) -> bool:
    """Slurm shows hidden partitions to nobody either. Pods that get one anyway see it."""
    return _HIDDEN not in (partition.flags or ()) or partition.name in rules.names


def _slurm_limits(partition: Partition) -> Iterator[str]:
    """What Slurm limits there, apart from times."""
    amounts = (
        ("at most {} nodes in a job", partition.max_nodes),
        ("at most {} CPUs on a node", partition.max_cpus_per_node),
        ("at most {} MiB of memory on a node", partition.max_memory_per_node_mib),
        ("at most {} MiB of memory for each CPU", partition.max_memory_per_cpu_mib),
    )
    if (partition.min_nodes or 0) > 1:
        yield f"at least {partition.min_nodes} nodes in a job"
    yield from (text.format(amount) for text, amount in amounts if amount is not None)
    if partition.whole_nodes:
        yield "each job gets whole nodes"
    names = (
        ("only accounts", partition.accounts),
        ("not accounts", partition.denied_accounts),
        ("only QoS", partition.qos),
        ("not QoS", partition.denied_qos),
        ("only groups", partition.groups),
    )
    yield from (f"{text} {_few(listed)}" for text, listed in names if listed)
    if partition.own_qos:
        yield f"the limits of QoS {partition.own_qos} (`sacctmgr show qos {partition.own_qos}`)"
    flags = partition.flags or frozenset()
    if "ROOT_ONLY" in flags:
        yield "only root may submit there"
    if _RESERVED in flags:
        yield "only with a reservation"


def _few(names: Sequence[str]) -> str:
    more = len(names) - MOST_SAID
    return ", ".join(names[:MOST_SAID]) + (f" and {more} more" if more > 0 else "")


def _first_texts(texts: Iterable[str]) -> tuple[str, ...]:
    """The first of these texts, cut, with control characters escaped."""
    return tuple(clipped(harmless(it), LONGEST_TEXT) for it in islice(texts, MOST_SAID))


def _in_seconds(minutes: int | None) -> int | None:
    return None if minutes is None else minutes * _MINUTE
