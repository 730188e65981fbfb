"""The reference: submit a job for each pod, poll, bind to the job's node. No logic, no safety.

`python -m benchmarks.main_path.bare SETTINGS` works on all pods it finds and prints its times. The
calls are the least with which a pod can get its Node; connections, concurrency and the pace of
polling are the scheduler's defaults.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic, thread_time
from typing import Any, Final

import aiohttp
import msgspec

from benchmarks.main_path.figures import Stalls
from benchmarks.main_path.usage import cpu_seconds, peak_rss_mib, queued_seconds
from scheduler.observe.loop import STALL_SECONDS

_CONCURRENCY: Final = 48
_SLURM_CONNECTIONS: Final = 16
_KUBE_CONNECTIONS: Final = 100
POLL_SECONDS: Final = 0.25
_CHUNK: Final = 1000
_STALL_LOOK_SECONDS: Final = 0.02
_VERSIONS: Final = {"26.05": "v0.0.45", "24.11": "v0.0.42"}
_SCRIPT: Final = "#!/bin/sh\nexec sleep 86400\n"
_SECONDS: Final = 60.0


class Settings(msgspec.Struct, frozen=True):
    """The content of the settings file, as JSON."""

    kube_url: str
    kube_token: str
    kube_ca: str
    slurm_url: str
    slurm_token: str
    release: str
    namespace: str
    timeout_seconds: float


class Course(msgspec.Struct):
    """The times of one pod, by one monotonic clock."""

    job_id: int = 0
    submitted: float = 0.0
    allocated: float = 0.0
    bound: float = 0.0


class Outcome(msgspec.Struct):
    """What is printed. CPU time and time waiting for a CPU count from the first answered submit."""

    courses: list[Course]
    cpu_seconds: float
    queued_seconds: float
    peak_rss_mib: float
    stalls: Stalls


class BareLoop:
    """`kube` and `slurm` are sessions with their base URL and token."""

    def __init__(
        self, kube: aiohttp.ClientSession, slurm: aiohttp.ClientSession, *, settings: Settings
    ) -> None:
        self._kube = kube
        self._slurm = slurm
        self._release = settings.release
        self._pods = f"/api/v1/namespaces/{settings.namespace}/pods"
        self._api = api_path(settings.release)
        self._slots = asyncio.Semaphore(_CONCURRENCY)
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._used_at_start: tuple[float, float] | None = None
        self._loop_watch = LoopWatch()

    async def run(self) -> Outcome:
        """All pods from list to bound."""
        pods = (await ask(self._kube, "GET", self._pods))["items"]
        async with asyncio.TaskGroup() as group:
            beside = [group.create_task(it) for it in (self._poll(), self._loop_watch.run())]
            async with asyncio.TaskGroup() as work:
                tasks = [work.create_task(self._one(pod["metadata"])) for pod in pods]
            for task in beside:
                task.cancel()
        cpu, queued = self._used_at_start or used()
        cpu_now, queued_now = used()
        return Outcome(
            courses=[task.result() for task in tasks],
            cpu_seconds=cpu_now - cpu,
            queued_seconds=queued_now - queued,
            peak_rss_mib=peak_rss_mib(os.getpid()),
            stalls=self._loop_watch.stalls,
        )

    async def _one(self, metadata: dict[str, Any]) -> Course:
        course = Course()
        async with self._slots:
            course.job_id = await self._submit(metadata)
            course.submitted = monotonic()
            if self._used_at_start is None:
                self._used_at_start = used()
        running = self._waiting[course.job_id] = asyncio.get_running_loop().create_future()
        await running
        course.allocated = monotonic()
        async with self._slots:
            await self._bind(metadata, course.job_id)
            course.bound = monotonic()
        return course

    async def _submit(self, metadata: dict[str, Any]) -> int:
        job = placeholder(metadata, nodes=1, release=self._release)
        answer = await ask(self._slurm, "POST", f"{self._api}/job/submit", body={"job": job})
        return int(answer["job_id"])

    async def _poll(self) -> None:
        while True:
            ids = list(self._waiting)
            for start in range(0, len(ids), _CHUNK):
                query = "&".join(f"job_id={it}" for it in ids[start : start + _CHUNK])
                answer = await ask(self._slurm, "GET", f"{self._api}/jobs/state/?{query}")
                for job in answer["jobs"]:
                    if is_ready(job["state"]):
                        self._waiting.pop(int(job["job_id"])).set_result(None)
            await asyncio.sleep(POLL_SECONDS)

    async def _bind(self, metadata: dict[str, Any], job_id: int) -> None:
        """Bind the pod to its job's node, which only the record of the job names. Like the
        scheduler, ask for the record without its cores, which are most of it.
        """
        answer = await ask(self._slurm, "GET", f"{self._api}/job/{job_id}?flags=ALL")
        body = binding(metadata, answer["jobs"][0]["nodes"])
        await ask(self._kube, "POST", f"{self._pods}/{metadata['name']}/binding", body=body)


class LoopWatch:
    """Measures stalls as the scheduler does: if both stall, the machine is the cause."""

    def __init__(self) -> None:
        self._busy = self._starved = 0

    async def run(self) -> None:
        """Measure for ever; cancel it to stop."""
        loop = asyncio.get_running_loop()
        while True:
            due, computed = loop.time() + _STALL_LOOK_SECONDS, thread_time()
            await asyncio.sleep(_STALL_LOOK_SECONDS)
            if loop.time() - due > STALL_SECONDS:
                busy = thread_time() - computed > STALL_SECONDS
                self._busy += busy
                self._starved += not busy

    @property
    def stalls(self) -> Stalls:
        """How many there were."""
        return Stalls(self._busy, self._starved)


def api_path(release: str) -> str:
    """Where slurmrestd of that release has its newest API that both sides know."""
    return f"/slurm/{_VERSIONS[release]}"


def is_ready(state: Sequence[str]) -> bool:
    """Whether a job of this state runs, on nodes that are ready."""
    return "RUNNING" in state and "CONFIGURING" not in state


def placeholder(metadata: dict[str, Any], *, nodes: int, release: str) -> dict[str, Any]:
    """A job with one CPU and 100 MiB on each of so many nodes, named after that pod."""
    mode = {"script": _SCRIPT} if release == "24.11" else {"flags": ["EXTERNAL_JOB"]}
    return {
        "name": f"{metadata['namespace']}.{metadata['name']}.{metadata['uid'][:8]}",
        "current_working_directory": "/tmp",
        "environment": ["PATH=/usr/bin:/bin"],
        "nodes": str(nodes),
        "tasks": nodes,
        "cpus_per_task": 1,
        "minimum_cpus": nodes,
        "memory_per_node": {"set": True, "number": 100},
        "dependency": "singleton",
        **mode,
    }


def binding(metadata: dict[str, Any], node: str) -> dict[str, Any]:
    """What binds that pod to a Node."""
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": metadata["name"], "uid": metadata["uid"]},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def used() -> tuple[float, float]:
    """CPU seconds of this process, and the seconds for which it waited for a CPU."""
    return cpu_seconds(os.getpid()), queued_seconds(os.getpid())


async def ask(
    session: aiohttp.ClientSession, method: str, path: str, *, body: object = None
) -> dict[str, Any]:
    """The answer to one request; RuntimeError if it is refused."""
    data = None if body is None else msgspec.json.encode(body)
    headers = {"Content-Type": "application/json"}
    async with session.request(method, path, data=data, headers=headers) as response:
        answer: dict[str, Any] = msgspec.json.decode(await response.read())
        if response.status >= 300:
            raise RuntimeError(f"{method} {path}: {response.status} {answer}")
        return answer


@asynccontextmanager
async def connections(
    settings: Settings,
) -> AsyncIterator[tuple[aiohttp.ClientSession, aiohttp.ClientSession]]:
    """To the API server and to slurmrestd, with the scheduler's default limits."""
    context = ssl.create_default_context(cafile=settings.kube_ca) if settings.kube_ca else True
    timeout = aiohttp.ClientTimeout(total=_SECONDS)
    async with (
        asyncio.timeout(settings.timeout_seconds),
        aiohttp.ClientSession(
            settings.kube_url,
            headers={"Authorization": f"Bearer {settings.kube_token}"},
            connector=aiohttp.TCPConnector(limit=_KUBE_CONNECTIONS, ssl=context),
            timeout=timeout,
        ) as kube,
        aiohttp.ClientSession(
            settings.slurm_url,
            headers={"X-SLURM-USER-TOKEN": settings.slurm_token},
            connector=aiohttp.TCPConnector(limit=_SLURM_CONNECTIONS),
            timeout=timeout,
        ) as slurm,
    ):
        yield kube, slurm


async def _run(settings: Settings) -> Outcome:
    async with connections(settings) as (kube, slurm):
        return await BareLoop(kube, slurm, settings=settings).run()


if __name__ == "__main__":
    given = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Settings)
    sys.stdout.buffer.write(msgspec.json.encode(asyncio.run(_run(given))))
