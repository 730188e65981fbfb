"""Slurm's nodes are counted by state, once for each list."""

from __future__ import annotations

import asyncio

import pytest

from scheduler.observe.metrics import Metrics
from scheduler.service.node_counts import NODE_STATES, NodeCounts, state_label
from slurmapi import SlurmNode


class Listed:
    def __init__(self) -> None:
        self.listed: list[SlurmNode] | None = None
        self.listed_at = float("-inf")


def node(*states: str, gres: str = "") -> SlurmNode:
    return SlurmNode(name="n", states=frozenset(states), cpus=8, job_cpus=6, gres=gres)


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (("IDLE",), "idle"),
        (("MIXED", "EXTERNAL"), "mixed"),
        (("ALLOCATED",), "allocated"),
        (("ALLOCATED", "DRAIN"), "draining"),
        (("IDLE", "DRAIN"), "drained"),
        (("DOWN", "DRAIN"), "down"),
        (("IDLE", "NOT_RESPONDING"), "down"),
        (("IDLE", "MAINTENANCE"), "reserved"),
        (("IDLE", "CLOUD", "POWERED_DOWN"), "powered_down"),
        (("IDLE", "CLOUD"), "idle"),
        (("NEWER",), "other"),
    ],
)
def test_state_that_keeps_jobs_away_counts(states: tuple[str, ...], expected: str) -> None:
    assert state_label(node(*states)) == expected
    assert expected in NODE_STATES


async def test_nodes_are_counted_with_their_cpus_and_gpus() -> None:
    metrics, records = Metrics(), Listed()
    counts = NodeCounts(metrics, records)

    def value(name: str, state: str) -> float | None:
        found = f"slurm_pod_scheduler_{name}"
        return metrics.registry.get_sample_value(found, {"state": state})

    await counts.count()
    assert value("slurm_nodes", "idle") is None
    records.listed, records.listed_at = [node("IDLE", gres="gpu:h100:4"), node("IDLE")], 10.0
    await counts.count()
    told = [value(name, "idle") for name in ("slurm_nodes", "slurm_node_cpus", "slurm_node_gpus")]
    assert told == [2, 12, 4]
    records.listed, records.listed_at = [node("IDLE", "DRAIN", gres="gpu:4")], 20.0
    await counts.count()
    assert (value("slurm_nodes", "idle"), value("slurm_node_gpus", "drained")) == (0, 4)


async def test_loop_turns_while_many_nodes_are_counted() -> None:
    records = Listed()
    records.listed, records.listed_at = [node("IDLE", gres="gpu:4")] * 1000, 10.0
    turns, counting = 0, asyncio.ensure_future(NodeCounts(Metrics(), records).count())
    while not counting.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 5
