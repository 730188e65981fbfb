"""A real cluster: the Kubernetes of one rig and the Slurm of another, with equal node names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from tests.audit.live import LiveRecorder
from tests.rigs.kube import KubeRig
from tests.rigs.slurm import SlurmRig
from tests.rigs.slurm_conf import CPUS_PER_NODE, REAL_PARTITION
from tests.support.cluster import Accounts
from tests.support.job_submit import LUA
from tests.support.sacctmgr import RealAccounts
from tests.support.slurm import OPERATOR

# slurmctld saves every five seconds.
_SAVE_SECONDS: Final = 30.0
_REBOOT_SECONDS: Final = 60.0


class LiveCluster:
    """`kube` and `slurm` joined. `real_node` names the Node with a real kubelet, if there is one.

    The rigs and the Nodes are started and ended by their owners.
    """

    def __init__(self, kube: KubeRig, slurm: SlurmRig, *, real_node: str | None = None) -> None:
        self._kube = kube
        self._slurm = slurm
        self.name = f"live-{slurm.major}"
        self.placeholder_mode = "script" if slurm.major == "24.11" else "external"
        self.kubeconfig = kube.kubeconfig
        self.kube_token = kube.token
        self.kube_ca: Path | None = kube.ca
        self.slurm_socket: Path | None = slurm.socket
        self.slurm_token_file = slurm.token_file
        self.nodes = slurm.nodes
        self.gpus_per_node = slurm.gpus_per_node
        self.cpus_per_node = CPUS_PER_NODE
        self.real_node = real_node
        self.real_partition = REAL_PARTITION
        self.script_partition = slurm.script_partition
        self.nodes_for_scripts = slurm.shape.slurmd
        self.hooks_folder = slurm.hooks_folder
        self.hooks_seen_as = "/etc/slurm"
        self.partition = slurm.partition
        self.high_partition = slurm.high_partition
        self.grace_partition = slurm.grace_partition
        self.container: dict[str, Any] = {}
        self.accounts: Accounts | None = None
        if slurm.shape.accounting:
            self.accounts = RealAccounts(slurm)

    @property
    def kube_url(self) -> str:
        """The API server."""
        return self._kube.url

    @property
    def slurm_url(self) -> str:
        """slurmrestd over TCP."""
        return self._slurm.url

    def slurm_token(self, user: str) -> str:
        """A Slurm token of that user."""
        return self._slurm.token(user)

    @property
    def syslog(self) -> str:
        """What Slurm's hooks and the jobs have written to the syslog."""
        return self._slurm.syslog

    def recorder(self) -> LiveRecorder:
        """As in Cluster."""
        return LiveRecorder(self._kube, self._slurm)

    async def read(self, path: str) -> str:
        """A file as jobs see it."""
        return await asyncio.to_thread(self._slurm.read, path)

    async def save(self, job_id: int) -> None:
        """As in Cluster. Changes the job first, because slurmctld only writes after a change."""
        mark = f"touched {uuid4()}"
        rest = self._slurm.rest(OPERATOR)
        touch = partial(rest.request, "POST", f"job/{job_id}", body={"comment": mark})
        answer = await asyncio.to_thread(touch)
        assert answer.ok, f"slurmctld refused the update of job {job_id}: {answer}"
        async with asyncio.timeout(_SAVE_SECONDS):
            while not self._slurm.has_saved(mark):  # noqa: ASYNC110 - a file of another process
                await asyncio.sleep(0.05)

    async def set_instance_id(self, node: str, instance: str) -> None:
        """As in Cluster; slurmrestd has no field for it."""
        await self._scontrol("update", f"nodename={node}", f"instanceid={instance}")

    async def set_partition(
        self, name: str, *, state: str = "UP", max_minutes: int | None = None
    ) -> None:
        """Change a partition; as in Cluster."""
        limit = "infinite" if max_minutes is None else str(max_minutes)
        await self._scontrol("update", f"partition={name}", f"state={state}", f"maxtime={limit}")

    async def reserve(self, name: str, node: str, *, in_seconds: int) -> None:
        """Make a reservation; as in Cluster."""
        when = (
            "starttime=now" if in_seconds <= 0 else f"starttime=now+{in_seconds}",
            "duration=60",
        )
        whom = (f"nodes={node}", "users=root", "flags=ignore_jobs")
        await self._scontrol("create", f"reservation={name}", *when, *whom)

    async def begin_reservation(self, name: str) -> None:
        """As in Cluster."""
        await self._scontrol("update", f"reservation={name}", "starttime=now", "duration=60")

    async def unreserve(self, name: str) -> None:
        """Delete a reservation; as in Cluster."""
        await self._scontrol("delete", f"reservation={name}")

    async def stop(self, component: str, *, kill: bool = False) -> None:
        """End a component; as in Cluster."""
        await asyncio.to_thread(self._rig_of(component).stop, component, kill=kill)

    async def start(self, component: str) -> None:
        """Start it again; as in Cluster."""
        await asyncio.to_thread(self._rig_of(component).start, component)

    async def back_up_kubernetes(self, folder: Path) -> None:
        """Copy etcd's data into a folder that is not there yet."""
        await asyncio.to_thread(self._kube.back_up, folder)

    async def restore_kubernetes(self, folder: Path) -> None:
        """Restore etcd's data from that copy."""
        await asyncio.to_thread(self._kube.restore, folder)

    async def lose_state(self) -> None:
        """As in Cluster."""
        await asyncio.to_thread(self._slurm.lose_state)

    async def purge(self) -> None:
        """As in Cluster; slurmctld is restarted twice."""
        await asyncio.to_thread(self._slurm.purge)

    async def hold(self, job_id: int, *, by_user: bool) -> None:
        """As in Cluster."""
        await self._scontrol("uhold" if by_user else "hold", str(job_id))

    async def suspend(self, job_id: int) -> None:
        """As in Cluster."""
        await self._scontrol("suspend", str(job_id))

    async def resume(self, job_id: int) -> None:
        """As in Cluster."""
        await self._scontrol("resume", str(job_id))

    async def requeue(self, job_id: int) -> None:
        """As in Cluster."""
        await self._scontrol("update", f"JobId={job_id}", "Requeue=1")
        await self._scontrol("requeue", str(job_id))

    async def reboot(self, node: str) -> None:
        """As in Cluster."""
        await self._scontrol("reboot", "ASAP", "nextstate=resume", "reason=test", node)

    @asynccontextmanager
    async def job_submit_plugin(self) -> AsyncIterator[None]:
        """As in Cluster; slurmctld is restarted before and after."""
        plugin = self._slurm.job_submit(LUA)
        await asyncio.to_thread(plugin.__enter__)
        try:
            yield
        finally:
            await asyncio.to_thread(plugin.__exit__, None, None, None)

    @asynccontextmanager
    async def suspending(self) -> AsyncIterator[None]:
        """As SlurmRig.suspending."""
        preemption = self._slurm.suspending()
        await asyncio.to_thread(preemption.__enter__)
        try:
            yield
        finally:
            await asyncio.to_thread(preemption.__exit__, None, None, None)

    @asynccontextmanager
    async def rebooting(self, node: str) -> AsyncIterator[None]:
        """As in Cluster; the node has a slurmd."""
        with self._slurm.rebooting():
            yield
            async with asyncio.timeout(_REBOOT_SECONDS):
                while self._slurm.runs(f"slurmd.{node}"):  # noqa: ASYNC110 - of another process
                    await asyncio.sleep(0.05)
        await self.power_cycle(node)

    async def power_cycle(self, node: str) -> None:
        """As in Cluster; the node has a slurmd."""
        await asyncio.to_thread(self._slurm.reboot, node)

    async def kill_script(self, job_id: int) -> None:
        """As in Cluster."""
        await asyncio.to_thread(self._slurm.kill_script, job_id)

    @asynccontextmanager
    async def scripts_cannot_start(self) -> AsyncIterator[None]:
        """As SlurmRig.scripts_cannot_start."""
        with self._slurm.scripts_cannot_start():
            yield

    async def script_runs(self, job_id: int) -> bool:
        """As in Cluster."""
        return await asyncio.to_thread(self._slurm.script_runs, job_id)

    async def run_out_of_memory(self, job_id: int) -> None:
        """As SlurmRig.run_out_of_memory."""
        await asyncio.to_thread(self._slurm.run_out_of_memory, job_id)

    def log_size(self) -> int:
        """How many bytes slurmctld has logged."""
        return self._slurm.log.size()

    async def logged(self, words: str, *, since: int) -> bool:
        """Whether slurmctld's log has a line with these words after the first `since` bytes.

        Older lines may be about another job, because ids repeat after Slurm has lost its state.
        """

        def look() -> bool:
            return any(words.encode() in line for line in self._slurm.log.lines(since))

        return await asyncio.to_thread(look)

    async def _scontrol(self, *arguments: str) -> None:
        await asyncio.to_thread(self._slurm.call, "scontrol", *arguments)

    def _rig_of(self, component: str) -> KubeRig | SlurmRig:
        return self._kube if component == "kube-apiserver" else self._slurm
