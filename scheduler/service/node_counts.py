"""Gauges of Slurm's nodes by their state: how many there are, and their CPUs and GPUs.

They are counted after each list of all nodes, with pauses for other work. Slurm is not asked for
this.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Final, Protocol

from groundwork.pauses import with_pauses
from scheduler.core.node_gres import count_of
from scheduler.observe.metrics import Metrics
from slurmapi import SlurmNode

_EVERY_SECONDS: Final = 5.0
_COUNTED_AT_ONCE: Final = 100  # a node takes 10 µs
_OFF: Final = frozenset({"POWERED_DOWN", "POWERING_DOWN"})
_AWAY: Final = frozenset({"DOWN", "NOT_RESPONDING", "FAIL", "ERROR", "UNKNOWN"})
_DRAINS: Final = frozenset({"DRAIN", "POWER_DRAIN"})
_KEPT: Final = frozenset({"MAINTENANCE", "RESERVED"})
_BUSY: Final = frozenset({"MIXED", "ALLOCATED"})
NODE_STATES: Final = (
    *("idle", "mixed", "allocated", "draining", "drained"),
    *("reserved", "powered_down", "down", "other"),
)


class NodeRecords(Protocol):
    """What we need of Slurm's nodes."""

    listed_at: float

    @property
    def listed(self) -> Collection[SlurmNode] | None:
        """All nodes of the last list; None before the first."""
        ...


class NodeCounts:
    """Counts the nodes of `records`."""

    def __init__(self, metrics: Metrics, records: NodeRecords) -> None:
        self._metrics = metrics
        self._records = records
        self._counted_at = float("-inf")

    async def run(self) -> None:
        """Count for ever; cancel it to stop."""
        while True:
            await self.count()
            await asyncio.sleep(_EVERY_SECONDS)

    async def count(self) -> None:
        """Count the nodes, unless those of the last list are counted already."""
        listed, listed_at = self._records.listed, self._records.listed_at
        if listed is None or listed_at == self._counted_at:
            return
        found: dict[str, Counter[str]] = {state: Counter() for state in NODE_STATES}
        async for node in with_pauses(tuple(listed), every=_COUNTED_AT_ONCE):
            found[state_label(node)].update(_node_amounts(node))
        self._counted_at = listed_at
        self._show(found)

    def _show(self, found: Mapping[str, Counter[str]]) -> None:
        for state, amounts in found.items():
            self._metrics.slurm_nodes.labels(state).set(amounts["nodes"])
            self._metrics.slurm_node_cpus.labels(state).set(amounts["cpus"])
            self._metrics.slurm_node_gpus.labels(state).set(amounts["gpus"])


def state_label(node: SlurmNode) -> str:
    """The state as a label, one of NODE_STATES; of several, the first in the order of `_states`."""
    return next((it for it in _states(node.states)), "other")


def _states(states: frozenset[str]) -> Iterator[str]:
    if states & _OFF:
        yield "powered_down"
    if states & _AWAY:
        yield "down"
    if states & _DRAINS:
        yield "draining" if states & _BUSY or "COMPLETING" in states else "drained"
    if states & _KEPT:
        yield "reserved"
    yield from (it.lower() for it in ("ALLOCATED", "MIXED", "IDLE") if it in states)


def _node_amounts(node: SlurmNode) -> dict[str, int]:
    return {"nodes": 1, "cpus": node.job_cpus or node.cpus, "gpus": count_of(node.gres, "gpu")}
