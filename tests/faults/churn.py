"""A workload in which pods come and go and every kind of call is made, with faults played on it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from groundwork.retry import ATTEMPTS
from tests.faults import faults
from tests.faults.calls import Call, Server
from tests.faults.play import Fault, Play, Rule
from tests.faults.playground import Playground

TIMES: Final = 3
# Calls that are made only after another fault: maps each to the fault and call that lead to it, and
# to how often that fault must come at least.
PROVOKED: Final[dict[str, tuple[Fault, str, int]]] = {
    "get_pod": (faults.reset_after, "bind", 1),
    "list_pods": (faults.expired, "watch_pods", 1),
    "list_nodes": (faults.expired, "watch_nodes", 1),
    "list_neighbours": (faults.expired, "watch_neighbours", 1),
    "list_claims": (faults.expired, "watch_claims", 1),
    "list_volumes": (faults.expired, "watch_volumes", 1),
    "list_namespaces": (faults.expired, "watch_namespaces", 1),
    # The path of a kind that is not served gets an answer that is none of the API's. A read is
    # repeated after one, because it may be a gateway's.
    "list_apis": (faults.status(404), "get_group", ATTEMPTS),
}
# The scheduler uses what Slurm said of a node for 30 s; a later binding to the node asks again.
_STALE_SECONDS: Final = 35.0
_STEP_SECONDS: Final = 3.0
# While nothing answers, the later calls come late: the fault `refused` needs up to eight of these
# on a busy machine. It ends as soon as every fault was played.
_CHURNS: Final = 32


Cell = tuple[Fault, Call]


async def play(ground: Playground, cells: Sequence[Cell], *, times: int = TIMES) -> list[Rule]:
    """Play those faults while pods come, change and go; returns the rules as played.

    The scheduler is restarted if it makes some of these calls only at its start.
    """
    rules = [ground.play.add(fault, call=call.name, times=times) for fault, call in cells]
    calls = [call for _, call in cells]
    budget = any(call.name == "evict_pod" for call in calls)
    if budget or not all(call.writes for call in calls):
        await ground.kill()
        ground.start(eviction_policy="budget" if budget else "delete")
    await _churn(ground)
    provoking: dict[str, Rule] = {}
    for number in range(_CHURNS):
        provoke(ground.play, rules, provoking, times=times)
        ground.cut()
        if any(call.name == "create_lease" for call in calls):
            ground.drop_lease()
        await _churn(ground)
        if await ground.comes(lambda: all(rule.played for rule in rules), seconds=1.0):
            break
        await asyncio.sleep(_STALE_SECONDS)
        if number % 2:
            await ground.restart()
    return rules


def provoke(
    playing: Play, rules: Sequence[Rule], provoking: dict[str, Rule], *, times: int
) -> None:
    """Play what leads to the calls whose faults were not played yet; again if it was used up. Two
    reads at the same time can share what one of them needs. `provoking` are the rules so far.
    """
    for rule in rules:
        if rule.played or rule.call not in PROVOKED:
            continue
        used = provoking.get(rule.call)
        if used is None or used.played == used.times:
            fault, other, needed = PROVOKED[rule.call]
            provoking[rule.call] = Rule(fault, call=other, times=max(times, needed))
            playing.rules.insert(0, provoking[rule.call])


async def outage(ground: Playground, fault: Fault, server: Server) -> None:
    """Every request to one server has that fault, for two minutes in which pods come and go."""
    rule = ground.play.add(fault, server=server, times=None)
    ground.cut()
    for _ in range(3):
        await _churn(ground)
        await asyncio.sleep(_STALE_SECONDS)
    assert rule.played


async def _churn(ground: Playground) -> None:
    """Pods that end by themselves, are deleted, lose their job, are edited, or are never served;
    and two gangs, one of a batch Job and one of a PodGroup.
    """
    ends, deleted = ground.create(runs=5.0), ground.create()
    cancelled, edited = ground.create(), ground.create(slurm={"timeout": "600"})
    waits, gang = ground.create(cpus="40"), ground.create_gang()
    group = ground.create_pod_group()
    await asyncio.sleep(_STEP_SECONDS)
    ground.annotate(waits, timeout="soon")
    ground.delete(ground.create())
    await asyncio.sleep(_STEP_SECONDS)
    ground.annotate(waits, timeout=None)
    ground.scancel(cancelled)
    ground.delete(deleted)
    await asyncio.sleep(_STEP_SECONDS)
    ground.annotate(waits, timeout="soon")
    ground.annotate(edited, timeout="500")
    await asyncio.sleep(_STEP_SECONDS)
    ground.delete_gang(gang)
    ground.delete_pod_group(group)
    for name in (ends, cancelled, edited, waits):
        ground.delete(name)
