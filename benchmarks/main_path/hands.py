"""Makes the pods, fills the cluster and clears it: the part of a run that is not measured."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from benchmarks.main_path.servers import CPUS_PER_NODE, Servers
from tests.support import pods
from tests.support.kube import Kube, Object
from tests.support.slurm import LIVE, SlurmHand
from tests.support.slurm_rest import read_token

T = TypeVar("T")

NAMESPACE: Final = "default"
_AT_ONCE: Final = 16
_CANCEL_CHUNK: Final = 500
_LOOK_SECONDS: Final = 0.1
_GRACE_SECONDS: Final = 2
_MEMORY_MIB: Final = 100


class ClearingFailed(Exception):  # noqa: N818 - what is reported, not a fault of this program
    """Pods or jobs were still there after a long wait."""


class Hands:
    """Both clusters, as an administrator. Pods are created in these namespaces in turn."""

    def __init__(
        self, kube: Kube, slurm: SlurmHand, servers: Servers, *, namespaces: Sequence[str]
    ) -> None:
        self._kube = kube
        self._slurm = slurm
        self._servers = servers
        self._namespaces = itertools.cycle(namespaces)
        self._namespace_of: dict[str, str] = {}

    async def create(self, names: Iterable[str], *, slurm: dict[str, str] | None = None) -> None:
        """A pod of one CPU for each name; `slurm` holds annotations of the scheduler's."""

        async def one(name: str) -> None:
            memory = f"{_MEMORY_MIB}Mi"
            pod = pods.pod(name, cpus="1", memory=memory, grace=_GRACE_SECONDS, slurm=slurm)
            namespace = self._namespace_of[name] = next(self._namespaces)
            await self._kube.create("pods", pod, namespace=namespace)

        await _all(names, one)

    async def pods(self) -> list[Object]:
        """All pods there are."""
        return await self._kube.items("pods")

    async def delete(self, name: str) -> None:
        """Delete one pod that was created here."""
        await self._kube.delete("pods", name, namespace=self._namespace_of.pop(name))

    async def delete_pods(self, *, grace_seconds: int | None = None) -> None:
        """Delete every pod with a request of its own, as kubectl does."""

        async def one(pod: Object) -> None:
            name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
            await self._kube.delete("pods", name, namespace=namespace, grace_seconds=grace_seconds)

        await _all(await self.pods(), one)

    async def live_jobs(self) -> list[int]:
        """Ids of the jobs that may still run."""
        answer = await self._slurm.ask("GET", "jobs/state/")
        return [int(job["job_id"]) for job in answer.body["jobs"] if LIVE & set(job["state"])]

    async def cancel(self, job_ids: list[int]) -> None:
        """End jobs, many in one request."""
        for start in range(0, len(job_ids), _CANCEL_CHUNK):
            chunk = [str(job_id) for job_id in job_ids[start : start + _CANCEL_CHUNK]]
            await self._slurm.ask("DELETE", "jobs/", body={"jobs": chunk})

    async def fill(self) -> int:
        """A native job that takes every CPU; returns its id when it runs."""
        nodes = self._servers.nodes
        fields: dict[str, Any] = {
            "nodes": str(nodes),
            "tasks": nodes,
            "cpus_per_task": CPUS_PER_NODE,
            "minimum_cpus": nodes * CPUS_PER_NODE,
        }
        job_id = await self._slurm.submit("everything", **fields)
        await self.until("all nodes are taken", lambda: self._runs(job_id), seconds=60)
        return job_id

    async def _runs(self, job_id: int) -> bool:
        job = await self._slurm.job(job_id)
        return job is not None and job.states[0] == "RUNNING"

    async def none_left(self) -> bool:
        """Whether no job runs or may still run."""
        return not await self.live_jobs()

    async def all_run(self) -> bool:
        """Whether the kubelets have started all pods, as the API server's cache knows it."""
        return not await self._kube.cached("pods", fields="status.phase!=Running")

    async def no_pods(self) -> bool:
        """Whether there is no pod, not even one that is being deleted."""
        return not await self.pods()

    async def clear(self, *, seconds: float) -> None:
        """Remove all pods at once and cancel all jobs, as nobody else does. Raises ClearingFailed
        if that takes longer than so many seconds.
        """
        await self.delete_pods(grace_seconds=0)
        await self.cancel(await self.live_jobs())
        await self.until("no pods", self.no_pods, seconds=seconds)
        await self.until("no jobs", self.none_left, seconds=seconds)

    async def until(
        self, what: str, holds: Callable[[], Awaitable[bool]], *, seconds: float
    ) -> float:
        """Wait until a condition holds; returns the seconds it took. Raises ClearingFailed."""
        began = time.monotonic()
        while not await holds():
            if time.monotonic() - began > seconds:
                raise ClearingFailed(f"after {seconds:.0f} s still not so: {what}")
            await asyncio.sleep(_LOOK_SECONDS)
        return time.monotonic() - began


@asynccontextmanager
async def hands(servers: Servers, *, namespaces: int = 1) -> AsyncIterator[Hands]:
    """Connections to both. If there are several namespaces, they are made. The scheduler lets one
    submit 5000 jobs at once, and then 20 a second.
    """
    names = [f"bench-{number}" for number in range(namespaces)] if namespaces > 1 else [NAMESPACE]
    token = read_token(servers.slurm_token_file)
    slurm = SlurmHand(servers.slurm_url, major=servers.release, token=lambda _user: token)
    async with Kube(servers.kube_url, token=servers.kube_token, ca=servers.kube_ca) as kube:
        if namespaces > 1:
            await _all(names, kube.create_namespace)
        yield Hands(kube, slurm, servers, namespaces=names)


async def _all(items: Iterable[T], work: Callable[[T], Awaitable[None]]) -> None:
    """Run `work` for all items, a few at a time."""
    left = iter(list(items))

    async def lane() -> None:
        for item in left:
            await work(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(_AT_ONCE):
            group.create_task(lane())
