"""How fast a pod learns of its job: from a change in Slurm to the condition on the pod.

    python -m benchmarks.endings --on live --release 26.05 --rounds 5      # as root

The change is seen by asking `jobs/state` every 20 ms, the condition by a watch. A preemption with
GraceTime counts from the warning in the job's record. In the other direction the time is that from
the pod's removal to the job's end.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.clusters import cluster_on
from benchmarks.command import NO_BRAKE, check_number, status_of
from tests.audit.audit import unaudited
from tests.support import pods
from tests.support.cluster import Cluster, release
from tests.support.history import History
from tests.support.kube import Kube, Object
from tests.support.scheduler import SchedulerProcess
from tests.support.slurm import Record, SlurmHand
from tests.support.world import World

_LOOK_SECONDS: Final = 0.02
# The least time limit is one minute, and slurmctld checks limits every 30 s.
_LONGEST_SECONDS: Final = 150.0
_LIVE_NODES: Final = 8
_PULSE_SECONDS: Final = 2.0
# A script that has been running for less may still be on its way to its node (26.05.5, 24.11.5).
_MISSED_AFTER_SECONDS: Final = 25.0

Act = Callable[[World, Object, Record], Awaitable[object]]
Changed = Callable[[Record], bool]


@dataclass(frozen=True, slots=True)
class Case:
    """An action, and the sign in Slurm's record that Slurm has carried it out."""

    name: str
    act: Act
    changed: Changed
    partition: str = ""
    timeout: str = ""
    script_only: bool = False


def _ended(record: Record) -> bool:
    return not record.live


async def _cancel(world: World, _pod: Object, job: Record) -> None:
    await world.slurm.cancel(job.job_id)


async def _preempt(world: World, _pod: Object, job: Record) -> None:
    await world.preempt(job.nodes)


async def _down(world: World, _pod: Object, job: Record) -> None:
    await world.set_node(job.nodes, "DOWN")


async def _power_cycle(world: World, _pod: Object, job: Record) -> None:
    await asyncio.sleep(_MISSED_AFTER_SECONDS)
    await world.cluster.power_cycle(job.nodes)


async def _outlast(_world: World, _pod: Object, _job: Record) -> None:
    """Do nothing: Slurm ends the job by itself."""


async def _requeue(world: World, _pod: Object, job: Record) -> None:
    await world.cluster.requeue(job.job_id)


async def _suspend(world: World, _pod: Object, job: Record) -> None:
    await world.cluster.suspend(job.job_id)


CASES: Final = (
    Case("cancelled", _cancel, _ended),
    Case("preempted", _preempt, _ended),
    Case(
        "preempted with GraceTime",
        _preempt,
        lambda it: bool(it.number("preempt_time")),
        partition="grace",
    ),
    Case("time limit", _outlast, _ended, timeout="60"),
    Case("node DOWN", _down, _ended),
    Case("node rebooted", _power_cycle, _ended, script_only=True),
    Case("requeued", _requeue, lambda it: it.states[0] == "PENDING", script_only=True),
    Case("suspended", _suspend, lambda it: it.states[0] == "SUSPENDED"),
)


async def _one(world: World, case: Case, number: int) -> float:
    name = f"case-{CASES.index(case)}-{number}"
    slurm = {"partition": world.cluster.grace_partition} if case.partition else {}
    slurm |= {"timeout": case.timeout} if case.timeout else {}
    await world.create(name, grace=3, slurm=slurm)
    pod = await world.running(name)
    job = await world.placeholder(pod)
    await asyncio.sleep(_PULSE_SECONDS * random.random())
    await case.act(world, pod, job)
    began = await _when(world, job.job_id, case.changed)
    noticed = await _noticed(world, name)
    await world.gone(name)
    await world.job_ended(job.job_id)
    await _tidy(world)
    return noticed - began


async def _back(world: World, number: int) -> float:
    """The other direction: from the removal of a pod to the end of its job."""
    name = f"deleted-{number}"
    await world.create(name, grace=3)
    job = await world.placeholder(await world.running(name))
    await world.delete(name)
    ended = await _when(world, job.job_id, _ended)
    await world.gone(name)
    removed = world.history.of(name)[-1]
    return ended - removed.at


async def _when(world: World, job_id: int, holds: Changed) -> float:
    async with asyncio.timeout(_LONGEST_SECONDS):
        while True:
            record = await world.slurm.job(job_id)
            if record is not None and holds(record):
                return time.monotonic()
            await asyncio.sleep(_LOOK_SECONDS)


async def _noticed(world: World, name: str) -> float:
    async with asyncio.timeout(_LONGEST_SECONDS):
        while True:
            for seen in world.history.of(name):
                if pods.condition(seen.pod, "DisruptionTarget") is not None:
                    return seen.at
            await asyncio.sleep(_LOOK_SECONDS)


async def _tidy(world: World) -> None:
    """End the preemptors and put the nodes back into service."""
    for record in await world.slurm.jobs():
        if record.name == "preemptor" and record.live:
            await world.slurm.cancel(record.job_id)
    for node in world.cluster.nodes[:_LIVE_NODES]:
        await world.slurm.resume_node(node)


async def _measure(cluster: Cluster, rounds: int, folder: Path) -> None:
    with SchedulerProcess(cluster, folder=folder, flags=(NO_BRAKE,)) as process:
        async with Kube(cluster.kube_url, token=cluster.kube_token, ca=cluster.kube_ca) as kube:
            namespace = f"bench-{secrets.token_hex(4)}"
            await kube.create("namespaces", {"metadata": {"name": namespace}})
            await asyncio.sleep(1)  # the namespace's service account
            history = History(kube, namespace)
            slurm = SlurmHand(cluster.slurm_url, major=release(cluster), token=cluster.slurm_token)
            world = World(cluster, kube, slurm, process, namespace, history, unaudited())
            async with history.following():
                await _report(world, rounds)
                await world.clean()


async def _report(world: World, rounds: int) -> None:
    print(f"{world.cluster.name}: seconds, median (least to most) of {rounds}")
    for case in CASES:
        if case.script_only and world.slurm.external:
            continue
        _show(case.name, [await _one(world, case, number) for number in range(rounds)])
    _show("pod removed -> job ended", [await _back(world, number) for number in range(rounds)])


def _show(name: str, took: list[float]) -> None:
    median, least, most = statistics.median(took), min(took), max(took)
    print(f"{name:28} {median:6.2f}  ({least:.2f} to {most:.2f})", flush=True)


def main() -> int:
    """Measure and print; gives the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.endings", description=__doc__)
    parser.add_argument("--on", choices=("sandbox", "live"), default="sandbox")
    parser.add_argument("--release", choices=("24.11", "26.05"), default="26.05")
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    check_number(parser, "--rounds", asked.rounds, within=(1, 1000))
    return status_of("endings", partial(_work, asked), TimeoutError)


def _work(asked: argparse.Namespace) -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        asyncio.run(
            _measure(
                cluster_on(stack, asked.on, asked.release, nodes=_LIVE_NODES), asked.rounds, folder
            )
        )


if __name__ == "__main__":
    sys.exit(main())
