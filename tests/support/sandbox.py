"""The sandbox as tests meet it: on sockets only, in a thread and an event loop of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, Final, Self, TypeVar

from scheduler.sandbox.cluster import Sandbox, SandboxShape
from scheduler.sandbox.slurm import SlurmModel
from tests.support.hooks import CONF

T = TypeVar("T")

# 200 nodes without a process each, or two, as on the real clusters.
_NODES: Final = {"26.05": 200, "24.11": 2}
_CALL_SECONDS: Final = 30.0
_HOOKS: Final = Path(__file__).parents[2] / "deploy" / "slurm"


class SandboxCluster:
    """A sandbox with Slurm `major` ("26.05" or "24.11"); a context manager that runs it."""

    def __init__(self, major: str, *, nodes: int | None = None) -> None:
        self.hooks_folder = Path(mkdtemp(prefix="sandbox-hooks-"))
        self.hooks_seen_as = str(self.hooks_folder)
        shape = SandboxShape(
            release=major,
            nodes=nodes or _NODES[major],
            prolog_slurmctld=str(_HOOKS / "prolog-slurmctld.sh"),
            hook_environment={"SLURM_POD_SCHEDULER_HOOKS_CONF": str(self.hooks_folder / CONF)},
        )
        self._sandbox = Sandbox(shape)
        self.name = self._sandbox.name
        self.placeholder_mode = self._sandbox.placeholder_mode
        self.nodes = self._sandbox.nodes
        self.gpus_per_node = self._sandbox.gpus_per_node
        self.cpus_per_node = shape.cpus_per_node
        self.partition = self._sandbox.partition
        self.script_partition = self._sandbox.partition
        self.nodes_for_scripts = self.nodes
        self.high_partition = self._sandbox.high_partition
        self.grace_partition = self._sandbox.grace_partition
        self.real_node: str | None = None
        self.real_partition = self._sandbox.real_partition
        self.kube_ca: Path | None = None
        self.kube_token = self._sandbox.kube_token
        self.kubeconfig = self.slurm_token_file = Path()
        self.slurm_socket: Path | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._call(self._sandbox.__aenter__())
        except BaseException:
            self._end_loop()
            raise
        self.kubeconfig = self._sandbox.kubeconfig
        self.slurm_token_file = self._sandbox.slurm_token_file
        self.slurm_socket = self._sandbox.slurm_socket
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._call(self._sandbox.__aexit__(None, None, None))
        finally:
            self._end_loop()
            rmtree(self.hooks_folder, ignore_errors=True)

    @property
    def kube_url(self) -> str:
        """The API server."""
        return self._sandbox.kube_url

    @property
    def slurm_url(self) -> str:
        """slurmrestd over TCP."""
        return self._sandbox.slurm_url

    def slurm_token(self, user: str) -> str:
        """A token of that user."""
        return self._sandbox.slurm_token(user)

    async def save(self, job_id: int) -> None:
        """Have everything saved; as in Cluster."""

        await self._do(lambda slurm: slurm.cluster.save())

    async def stop(self, component: str, *, kill: bool = False) -> None:
        """End a component; as in Cluster."""
        await asyncio.to_thread(self._call, self._sandbox.stop(component, kill=kill))

    async def start(self, component: str) -> None:
        """Start it again; as in Cluster."""
        await asyncio.to_thread(self._call, self._sandbox.start(component))

    async def suspend(self, job_id: int) -> None:
        """As in Cluster."""
        await self._do(lambda slurm: slurm.suspend(job_id))

    async def resume(self, job_id: int) -> None:
        """As in Cluster."""
        await self._do(lambda slurm: slurm.resume(job_id))

    async def requeue(self, job_id: int) -> None:
        """As in Cluster."""
        await self._do(lambda slurm: slurm.requeue(job_id))

    async def reboot(self, node: str) -> None:
        """As in Cluster."""
        await self._do(lambda slurm: slurm.reboot(node))

    async def run_out_of_memory(self, job_id: int) -> None:
        """Have the kernel kill the job's process, which no rig can."""
        await self._do(lambda slurm: slurm.run_out_of_memory(job_id))

    async def _do(self, act: Callable[[SlurmModel], None]) -> None:
        async def act_there() -> None:
            act(self._sandbox.slurm)

        await asyncio.to_thread(self._call, act_there())

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CALL_SECONDS)
        self._loop.close()

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_CALL_SECONDS)
