"""What a census costs, that is, to find our own jobs in a Slurm full of jobs of others.

    python -m benchmarks.leftovers --jobs 30000                # as root

Held jobs of other schedulers fill a real slurmctld. Three jobs of ours are among them: the oldest,
one in the middle, and the newest. The scheduler's census runs as at its start, and then again.
Printed are, for each census, its duration, when each of our jobs was found, its requests, and what
it cost slurmctld and slurmrestd. For comparison the same run measures one answer with all ids and
states, and one record.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import aiohttp

from benchmarks.command import check_number, status_of
from benchmarks.main_path.usage import cpu_seconds
from scheduler.core.owner_tag import SINGLE, Owner, OwnerTag
from scheduler.observe.metrics import Metrics
from scheduler.slurm.census import Census
from scheduler.slurm.ended_jobs import Unexplained
from scheduler.slurm.submit_times import SubmitTimes
from scheduler.state.said import SaidOnPod
from scheduler.state.units import Unit, Units
from slurmapi import Call, Deadlines, SlurmClient, StaticToken
from tests.rigs.slurm import SlurmRig
from tests.rigs.slurm_build import ensure

# Long, because slow answers are what is measured.
_PATIENT: Final = Deadlines(silence=600.0, total=600.0)
_AT_ONCE: Final = 24
_SAMPLES: Final = 50
_AGAIN: Final = 2
_LOOK_SECONDS: Final = 0.01
_PATIENCE_SECONDS: Final = 1800.0
_OURS: Final = Owner("cluster-1", "slurm-scheduler")
_THEIRS: Final = Owner("cluster-2", "slurm-scheduler")
_SERVERS: Final = ("slurmctld", "slurmrestd")


@dataclass(slots=True)
class Seen:
    """Counts requests of the client, and notes when the census finds a job of ours."""

    calls: Counter[str] = field(default_factory=Counter)
    found: dict[str, float] = field(default_factory=dict)

    def call(self, call: Call) -> None:
        """One request to slurmrestd."""
        self.calls[call.operation] += 1

    def changed(self, key: str) -> None:
        """Called when a unit has got a job."""
        self.found.setdefault(key, time.monotonic())


async def _fill(rig: SlurmRig, wanted: range, jobs: int) -> None:
    """Submit held jobs with the tag of another cluster's scheduler and names like ours."""
    api = {"26.05": "v0.0.45", "24.11": "v0.0.42"}[rig.major]
    url = f"{rig.url}/slurm/{api}/job/submit"
    headers = {"X-SLURM-USER-TOKEN": rig.token("root")}
    ours = {0: "oldest", jobs // 2: "middle", jobs - 1: "newest"}
    numbers = iter(wanted)
    limit = aiohttp.TCPConnector(limit=_AT_ONCE)

    async def submit(session: aiohttp.ClientSession) -> None:
        for number in numbers:
            owner = _OURS if number in ours else _THEIRS
            uid = ours.get(number, f"uid-{number}")
            async with session.post(url, json={"job": _job(rig, owner, uid)}) as answer:
                body = await answer.json()
                assert body.get("job_id"), body

    async with aiohttp.ClientSession(connector=limit, headers=headers) as session:
        await asyncio.gather(*(submit(session) for _ in range(_AT_ONCE)))


def _job(rig: SlurmRig, owner: Owner, uid: str) -> dict[str, Any]:
    tag = OwnerTag(SINGLE, owner.cluster, owner.scheduler, "default", "train", (uid,))
    job: dict[str, Any] = {
        "name": "default.train.12345678",
        "admin_comment": tag.encode(),
        "current_working_directory": "/tmp",
        "environment": ["PATH=/usr/bin:/bin"],
        "hold": True,
        "nodes": "1",
        "tasks": 1,
        "memory_per_node": {"set": True, "number": 100},
    }
    if rig.major != "24.11":
        return job | {"flags": ["EXTERNAL_JOB"]}
    return job | {"script": "#!/bin/sh\nexec sleep 3600\n"}


@dataclass(slots=True)
class Cost:
    """What the servers use, from the creation of this object on."""

    rig: SlurmRig
    began: float = field(init=False)
    cpu: dict[str, float] = field(init=False)

    def __post_init__(self) -> None:
        """Begin to measure."""
        self.began = time.monotonic()
        self.cpu = {name: cpu_seconds(self.rig.pid(name)) for name in _SERVERS}

    def as_text(self) -> str:
        """Seconds, and CPU seconds and resident MiB of each server."""
        parts = [f"{time.monotonic() - self.began:8.2f} s"]
        for name, before in self.cpu.items():
            pid = self.rig.pid(name)
            parts.append(f"{name} {cpu_seconds(pid) - before:6.2f} s CPU, {_rss_mib(pid):5.0f} MiB")
        return "; ".join(parts)


def _rss_mib(pid: int) -> float:
    """Resident memory now (proc_pid_status(5))."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(it.split()[1]) / 1024 for it in lines if it.startswith("VmRSS:"))


async def _measured(rig: SlurmRig, name: str, work: Callable[[], Awaitable[object]]) -> float:
    cost = Cost(rig)
    await work()
    seconds = time.monotonic() - cost.began
    print(f"{name:24}{cost.as_text()}", flush=True)
    return seconds


class _Pods:
    """Three pods, of which only the uids are known."""

    def shows(self, uid: str) -> bool:
        return uid in {"oldest", "middle", "newest"}

    def may_run(self, uid: str) -> bool:
        return self.shows(uid)

    def said(self, _uid: str) -> SaidOnPod:
        return SaidOnPod()

    def created(self, _unit: Unit) -> None:
        return None

    def slurm_nodes(self, _unit: Unit) -> frozenset[str]:
        return frozenset()

    async def unexplained(self) -> Unexplained:
        return Unexplained({})


async def _no_time() -> float | None:
    """There is no API server."""
    return None


async def _run(rig: SlurmRig, jobs: int) -> None:
    seen = Seen()
    token = StaticToken(rig.token("root"))
    async with SlurmClient(rig.url, token=token, observe=seen.call, deadlines=_PATIENT) as client:
        await client.negotiate()
        steps = sorted({jobs // 6, jobs // 3, jobs * 2 // 3, jobs})
        ids: list[int] = []
        all_ids = 0.0
        for before, count in itertools.pairwise((0, *steps)):
            numbers = range(before, count)
            await _measured(rig, f"submit to {count}", partial(_fill, rig, numbers, jobs))
            all_ids = await _measured(rig, "all ids and states", client.job_states)
            ids = sorted(await client.job_states())
            await _measured(rig, "the same by ids", partial(client.job_states, ids))
        every = max(1, len(ids) // _SAMPLES)

        async def records() -> None:
            for job_id in ids[::every][:_SAMPLES]:
                await client.job(job_id)

        record = await _measured(rig, f"{_SAMPLES} records", records) / _SAMPLES
        census = Census(
            client,
            units=Units(),
            owner=_OURS,
            pods=_Pods(),
            submit_times=SubmitTimes(_no_time, clock=time.monotonic),
            in_scope=lambda _: True,
            on_change=seen.changed,
            clock=time.monotonic,
            metrics=Metrics(),
        )
        running = asyncio.create_task(census.run(), name="census")
        try:
            await _censuses(rig, census, seen, count=len(ids), all_ids=all_ids, record=record)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def _censuses(
    rig: SlurmRig, census: Census, seen: Seen, *, count: int, all_ids: float, record: float
) -> None:
    began = time.monotonic()
    served = asyncio.create_task(_served(census))
    first = await _measured(rig, "first census", lambda: _done(census, seen, None))
    waited = await served - began
    print(f"{'':24}{waited:8.2f} s until a pod was served that was made after all of them")
    for uid in ("newest", "middle", "oldest"):
        print(f"{'':24}{seen.found[uid] - began:8.2f} s until the {uid} of ours was found")
    alone = first / (record * count)
    print(f"{'':24}{alone:8.1f} times its records alone, {first / all_ids:.1f} times all ids")
    for number in range(_AGAIN):
        before = census.completed_at
        census.ask(afresh=number > 0)
        name = "later census, afresh" if number else "later census"
        later = await _measured(rig, name, lambda before=before: _done(census, seen, before))  # type: ignore[misc]
        print(f"{'':24}{later / all_ids:8.1f} times all ids")


async def _served(census: Census) -> float:
    """When a new pod need not wait any longer. The jobs are too young for the clocks' skew."""
    created = datetime.now(UTC) + timedelta(hours=1)
    while not census.covers(created):  # noqa: ASYNC110 - it tells nobody
        await asyncio.sleep(_LOOK_SECONDS)
    return time.monotonic()


async def _done(census: Census, seen: Seen, before: float | None) -> None:
    """Wait until the census has been completed again."""
    seen.calls.clear()
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while census.completed_at == before:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(_LOOK_SECONDS)
    calls = ", ".join(f"{count} {name}" for name, count in sorted(seen.calls.items()))
    print(f"{'':24}requests: {calls}; trouble: {census.trouble or 'none'}")


def main() -> int:
    """Fill a Slurm, look through it, and print; gives the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.leftovers", description=__doc__)
    parser.add_argument("--jobs", type=int, default=30_000)
    parser.add_argument("--release", choices=("26.05", "24.11"), default="26.05")
    args = parser.parse_args()
    check_number(parser, "--jobs", args.jobs, within=(3, 1_000_000))
    return status_of("leftovers", partial(_work, args))


def _work(args: argparse.Namespace) -> None:
    with SlurmRig(ensure(args.release)) as rig:
        asyncio.run(_run(rig, args.jobs))


if __name__ == "__main__":
    sys.exit(main())
