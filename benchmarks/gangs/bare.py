"""The reference: one job for all pods, polled until it runs, and each pod bound to one of its
nodes. No logic, no safety.

`python -m benchmarks.gangs.bare SETTINGS` prints "ready", and waits for one line: the metadata of
all pods, as JSON. So it begins when the last of them has been created, and need not find out that
they belong together. It polls as often as the scheduler does by default, and binds as many pods at
once as the scheduler binds of one gang.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from time import time
from typing import Any, Final

import aiohttp
import msgspec

from benchmarks.gangs.figures import Course
from benchmarks.main_path.bare import (
    POLL_SECONDS,
    LoopWatch,
    Settings,
    api_path,
    ask,
    binding,
    connections,
    is_ready,
    placeholder,
    used,
)
from benchmarks.main_path.usage import peak_rss_mib

READY: Final = "ready\n"
_BINDS_AT_ONCE: Final = 16


class BareGang:
    """`kube` and `slurm` are sessions with their base URL and token."""

    def __init__(
        self, kube: aiohttp.ClientSession, slurm: aiohttp.ClientSession, *, settings: Settings
    ) -> None:
        self._kube = kube
        self._slurm = slurm
        self._release = settings.release
        self._pods = f"/api/v1/namespaces/{settings.namespace}/pods"
        self._api = api_path(settings.release)
        self._slurm_requests = self._kube_requests = 0

    async def run(self, pods: list[dict[str, Any]]) -> Course:
        """All pods from their metadata to bound."""
        began, (cpu, queued) = time(), used()
        watch = LoopWatch()
        watching = asyncio.create_task(watch.run())
        job_id = await self._submit(pods)
        submitted = time()
        await self._until_it_runs(job_id)
        allocated = time()
        await self._bind_all(pods, await self._nodes(job_id))
        bound = time()
        watching.cancel()
        cpu_now, queued_now = used()
        return Course(
            created_to_submitted=submitted - began,
            submitted_to_allocated=allocated - submitted,
            allocated_to_bound=bound - allocated,
            slurm_requests=self._slurm_requests,
            kube_requests=self._kube_requests,
            cpu_seconds=cpu_now - cpu,
            queued_seconds=queued_now - queued,
            peak_rss_mib=peak_rss_mib(os.getpid()),
            stalls=watch.stalls,
        )

    async def _ask_slurm(self, method: str, path: str, *, body: object = None) -> dict[str, Any]:
        self._slurm_requests += 1
        return await ask(self._slurm, method, f"{self._api}{path}", body=body)

    async def _submit(self, pods: list[dict[str, Any]]) -> int:
        job = placeholder(pods[0], nodes=len(pods), release=self._release)
        answer = await self._ask_slurm("POST", "/job/submit", body={"job": job})
        return int(answer["job_id"])

    async def _until_it_runs(self, job_id: int) -> None:
        while True:
            answer = await self._ask_slurm("GET", f"/jobs/state/?job_id={job_id}")
            if is_ready(answer["jobs"][0]["state"]):
                return
            await asyncio.sleep(POLL_SECONDS)

    async def _nodes(self, job_id: int) -> list[str]:
        record = (await self._ask_slurm("GET", f"/job/{job_id}"))["jobs"][0]
        return [it["name"] for it in record["job_resources"]["nodes"]["allocation"]]

    async def _bind_all(self, pods: list[dict[str, Any]], nodes: list[str]) -> None:
        left = iter(list(zip(pods, nodes, strict=True)))

        async def lane() -> None:
            for metadata, node in left:
                path = f"{self._pods}/{metadata['name']}/binding"
                self._kube_requests += 1
                await ask(self._kube, "POST", path, body=binding(metadata, node))

        async with asyncio.TaskGroup() as group:
            for _ in range(_BINDS_AT_ONCE):
                group.create_task(lane())


async def _run(settings: Settings) -> Course:
    async with connections(settings) as (kube, slurm):
        sys.stdout.write(READY)
        sys.stdout.flush()
        line = await asyncio.to_thread(sys.stdin.buffer.readline)
        return await BareGang(kube, slurm, settings=settings).run(msgspec.json.decode(line))


if __name__ == "__main__":
    given = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Settings)
    sys.stdout.buffer.write(msgspec.json.encode(asyncio.run(_run(given))))
