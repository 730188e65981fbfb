"""The sandbox as a Cluster: in a thread and event loop of its own, reached over sockets only."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, Final, Self, TypeVar

from scheduler.sandbox.cluster import Sandbox, SandboxShape
from scheduler.sandbox.slurm import ReservationConfig, SlurmModel
from scheduler.sandbox.slurm.plugins import no_plugin
from tests.audit.loop_delay import LoopDelay
from tests.audit.records import Recorder, Records
from tests.audit.sandbox import SandboxRecorder
from tests.rigs.slurm_conf import LICENSES
from tests.support.cluster import Accounts
from tests.support.hooks import CONF
from tests.support.job_submit import verdict
from tests.support.model_accounts import FIRST_ACCOUNTS, ModelAccounts

T = TypeVar("T")

# The numbers of nodes are those of the real clusters.
_NODES: Final = {"26.05": 200, "24.11": 2}
_CALL_SECONDS: Final = 120.0
_HOOKS: Final = Path(__file__).parents[2] / "deploy" / "slurm"


class SandboxCluster:
    """A sandbox with Slurm `major` ("26.05" or "24.11"); a context manager that runs it.

    With `accounting` its Slurm has accounts and enforces their limits.
    """

    def __init__(
        self, major: str, *, nodes: int | None = None, cpus: int = 64, accounting: bool = False
    ) -> None:
        self.hooks_folder = Path(mkdtemp(prefix="sandbox-hooks-"))
        self.hooks_seen_as = str(self.hooks_folder)
        shape = SandboxShape(
            release=major,
            nodes=nodes or _NODES[major],
            cpus_per_node=cpus,
            licenses=LICENSES,
            prolog_slurmctld=str(_HOOKS / "prolog-slurmctld.sh"),
            accounts=FIRST_ACCOUNTS if accounting else None,
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
        self.accounts: Accounts | None = ModelAccounts(self._do) if accounting else None
        self.container: dict[str, Any] = {}
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
        """A Slurm token of that user."""
        return self._sandbox.slurm_token(user)

    def recorder(self) -> Recorder:
        """As in Cluster."""
        return _InItsLoop(self._sandbox, self._loop, self._call)

    async def save(self, job_id: int) -> None:
        """As in Cluster; saves everything."""

        await self._do(lambda slurm: slurm.cluster.save())

    async def set_instance_id(self, node: str, instance: str) -> None:
        """As in Cluster."""
        await self._do(lambda slurm: slurm.set_instance_id(node, instance))

    async def set_partition(
        self, name: str, *, state: str = "UP", max_minutes: int | None = None
    ) -> None:
        """Change a partition; as in Cluster."""
        await self._do(
            lambda slurm: slurm.set_partition(name, state=state, max_minutes=max_minutes)
        )

    async def reserve(self, name: str, node: str, *, in_seconds: int) -> None:
        """Make a reservation; as in Cluster."""
        start = time.time() + in_seconds
        reservation = ReservationConfig(
            name=name, nodes=(node,), start_time=start, end_time=start + 3600
        )
        await self._do(lambda slurm: slurm.reserve(reservation))

    async def begin_reservation(self, name: str) -> None:
        """As in Cluster."""
        now = time.time()

        def begin(slurm: SlurmModel) -> None:
            former = slurm.cluster.reservations[name]
            slurm.reserve(replace(former, start_time=now, end_time=now + 3600))

        await self._do(begin)

    async def unreserve(self, name: str) -> None:
        """Delete a reservation; as in Cluster."""
        await self._do(lambda slurm: slurm.unreserve(name))

    async def stop(self, component: str, *, kill: bool = False) -> None:
        """End a component; as in Cluster."""
        await asyncio.to_thread(self._call, self._sandbox.stop(component, kill=kill))

    async def start(self, component: str) -> None:
        """Start it again; as in Cluster."""
        await asyncio.to_thread(self._call, self._sandbox.start(component))

    async def lose_state(self) -> None:
        """As in Cluster."""
        await self._do(lambda slurm: slurm.lose_state())

    async def purge(self) -> None:
        """As in Cluster."""

        def forget(slurm: SlurmModel) -> None:
            for job in [it for it in slurm.jobs() if not it.alive and not it.completing]:
                slurm.cluster.forget(job)

        await self._do(forget)

    async def hold(self, job_id: int, *, by_user: bool) -> None:
        """As in Cluster."""
        await self._do(lambda slurm: slurm.hold(job_id, by_user=by_user))

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

    async def script_runs(self, job_id: int) -> bool:
        """As in Cluster; it does from the start."""
        return True

    async def kill_script(self, job_id: int) -> None:
        """As in Cluster."""
        await self._do(lambda slurm: slurm.kill_script(job_id))

    @asynccontextmanager
    async def job_submit_plugin(self) -> AsyncIterator[None]:
        """As in Cluster."""
        await self._do(lambda slurm: setattr(slurm, "job_submit", verdict))
        try:
            yield
        finally:
            await self._do(lambda slurm: setattr(slurm, "job_submit", no_plugin))

    @asynccontextmanager
    async def rebooting(self, node: str) -> AsyncIterator[None]:
        """As in Cluster; the model reboots by itself."""
        yield

    async def power_cycle(self, node: str) -> None:
        """As in Cluster."""
        await self._do(lambda slurm: slurm.power_cycle(node))

    async def run_out_of_memory(self, job_id: int) -> None:
        """End the job as if the kernel had killed its process for lack of memory."""
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


class _InItsLoop:
    """Runs a recorder in the event loop of the models, which is another thread's."""

    def __init__(
        self,
        sandbox: Sandbox,
        loop: asyncio.AbstractEventLoop,
        call: Callable[[Coroutine[Any, Any, Any]], Any],
    ) -> None:
        self._delay = delay = LoopDelay(loop)
        self._inner = SandboxRecorder(sandbox.kube.server, sandbox.slurm, waited=delay.seconds)
        self._call = call

    def open(self) -> None:
        """As in Recorder."""

        async def there() -> None:
            self._delay.start()
            self._inner.open()

        self._call(there())

    def close(self) -> Records:
        """As in Recorder."""

        async def there() -> Records:
            self._delay.stop()
            return self._inner.close()

        records: Records = self._call(there())
        return records
