"""Story: faults of every kind between the scheduler and real servers, while pods come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from tests.faults.calls import CALLS
from tests.faults.churn import PROVOKED
from tests.faults.cluster import ProxiedCluster
from tests.faults.matrix import FAULTS, UNUSED, chosen
from tests.faults.play import Rule
from tests.stories.clusters import LIVE, told_on
from tests.support import pod_group, pods
from tests.support.cluster import Cluster
from tests.support.scheduler import SchedulerProcess
from tests.support.world import World

# tests/faults plays the whole matrix on the models. Here are two parts of it, with half a minute of
# faults each.
pytestmark = [
    pytest.mark.live_on("26.05"),
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.timeout(480),
]

_STARTS: Final = 5
_STEP_SECONDS: Final = 1.5
# The scheduler trusts Slurm's record of a node for 30 s. After that, a binding asks for it again.
_STALE_SECONDS: Final = 25.0
# How many churns follow at most. Usually one is enough, but a slow machine makes fewer calls in it.
_LATE_CHURNS: Final = 6
_CONVERGED_SECONDS: Final = 150.0
# There is only one scheduler here; other stories test replicas and their Lease.
_OF_REPLICAS: Final = frozenset({"get_lease", "create_lease", "update_lease"})
_POLICY: Final = """
rules:
- name: labelled
  namespaceSelector: {matchLabels: {team: nobody}}
  forced: {comment: labelled}
"""


cluster = told_on(*LIVE)


@pytest.fixture
def scheduler(
    cluster: Cluster, proxied: ProxiedCluster, tmp_path: Path
) -> Iterator[SchedulerProcess]:
    """The scheduler behind the proxies, with flags that make it use every kind of call."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(_POLICY)
    flags = (
        f"--policy-file={policy}",
        f"--eviction-policy={_eviction(cluster)}",
        "--node-mapping=comment,name",
        "--node-access=read",
        "--condition-interval=1s",
    )
    with SchedulerProcess(proxied, folder=tmp_path, flags=flags) as process:
        yield process


async def test_faults_on_every_kind_of_call_are_outlived(
    world: World, proxied: ProxiedCluster
) -> None:
    await pod_group.define(world)
    await world.create("keep")
    keep, native = await world.running("keep"), await world.native_job()
    rules = _rules(world.cluster, proxied)
    for number in range(_STARTS):
        await asyncio.to_thread(_restart, world.scheduler)
        _provoke(proxied)
        await _churn(world, f"churn-{number}", native)
    for number in range(_LATE_CHURNS):
        await asyncio.sleep(_STALE_SECONDS)
        await _churn(world, f"late-{number}", native)
        if not _unplayed(rules):
            break
    assert not _unplayed(rules)
    proxied.play.heal()
    await world.until("only one is left", lambda: _only(world, "keep"), seconds=_CONVERGED_SECONDS)
    held = await world.one_placeholder_each()
    assert held.keys() == {keep["metadata"]["uid"]}
    world.unharmed(keep)
    assert await world.slurm.job(native)
    assert not proxied.play.strangers
    assert not proxied.play.failures
    played = {rule.fault for rule in rules if rule.played}
    assert len(played) > len(FAULTS) * 2 / 3, f"only {len(played)} of {len(FAULTS)} were played"


def _eviction(cluster: Cluster) -> str:
    return "budget" if cluster.placeholder_mode == "script" else "delete"


def _rules(cluster: Cluster, proxied: ProxiedCluster) -> list[Rule]:
    """The part of the matrix for this cluster, without calls that are never made here."""
    without = {"delete_pod"} if _eviction(cluster) == "budget" else {"evict_pod"}
    without |= _OF_REPLICAS
    if cluster.placeholder_mode == "script":
        without.add("config")  # this release has no such path
    used = [call for call in CALLS if call.name not in {*UNUSED, *without}]
    part = chosen(len(without), of=used)
    return [proxied.play.add(row.fault, call=call.name) for row, call in part]


def _restart(scheduler: SchedulerProcess) -> None:
    """Kill the scheduler and start it, again if it ends at its start, as a kubelet does."""
    scheduler.kill()
    for _ in range(3):
        with suppress(AssertionError):
            scheduler.start()
            return
    scheduler.start()


def _provoke(proxied: ProxiedCluster) -> None:
    for fault, call, needed in PROVOKED.values():
        proxied.play.rules.insert(0, Rule(fault, call=call, times=needed))
    proxied.cut()


async def _churn(world: World, prefix: str, native: int) -> None:
    """Make one pod of each kind: it ends by itself, is deleted, loses its job, or is edited. And
    make two gangs, which are deleted: of a batch Job, and of a PodGroup.
    """
    ends, deleted, cancelled, waits, gang = (
        f"{prefix}-{what}" for what in ("ends", "deleted", "cancelled", "waits", "gang")
    )
    await world.create(ends, restartPolicy="Never", annotations={"sandbox/run-seconds": "1"})
    await world.create(deleted)
    await world.create(cancelled)
    await world.kube.create("jobs", pods.batch_job(2, name=gang), namespace=world.namespace)
    member = await pod_group.create(world, f"{prefix}-pair", size=2)
    pair = [f"{prefix}-pair-{rank}" for rank in range(2)]
    for name in pair:
        await world.create(name, cpus="1", memory="100Mi", **member)
    await world.create(waits, slurm={"dependency": f"afterok:{native}"})
    await asyncio.sleep(_STEP_SECONDS)
    await world.edit(waits, timeout="soon")
    await _scancel(world, cancelled)
    await asyncio.sleep(_STEP_SECONDS)
    await world.edit(waits, timeout=None)
    await world.delete(deleted)
    await asyncio.sleep(_STEP_SECONDS)
    await world.edit(waits, timeout="soon")
    await _scancel(world, cancelled)
    await asyncio.sleep(_STEP_SECONDS)
    await world.kube.delete("jobs", gang, namespace=world.namespace)
    for name in (ends, cancelled, waits, *pair):
        await world.delete(name)


async def _scancel(world: World, name: str) -> None:
    found = await world.kube.find("pods", name, namespace=world.namespace)
    uid = "" if found is None else found["metadata"]["uid"]
    for record in await world.slurm.live_placeholders(world.namespace):
        if uid in record.tag["uids"]:
            await world.slurm.cancel(record.job_id)


async def _only(world: World, name: str) -> bool:
    found = await world.kube.items("pods", namespace=world.namespace)
    live = await world.slurm.live_placeholders(world.namespace)
    return [it["metadata"]["name"] for it in found] == [name] and len(live) == 1


def _unplayed(rules: list[Rule]) -> set[str | None]:
    """The calls that had no fault yet. Which fault a call gets depends on timing."""
    return {rule.call for rule in rules} - {rule.call for rule in rules if rule.played}
