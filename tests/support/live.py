"""A real cluster: the Kubernetes of one rig and the Slurm of another, with Nodes of equal names."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Final
from uuid import uuid4

from tests.rigs.kube import KubeRig
from tests.rigs.slurm import SlurmRig
from tests.rigs.slurm_conf import CPUS_PER_NODE, REAL_PARTITION

# slurmctld saves every five seconds.
_SAVE_SECONDS: Final = 30.0


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

    @property
    def kube_url(self) -> str:
        """The API server."""
        return self._kube.url

    @property
    def slurm_url(self) -> str:
        """slurmrestd over TCP."""
        return self._slurm.url

    def slurm_token(self, user: str) -> str:
        """A token of that user."""
        return self._slurm.token(user)

    async def save(self, job_id: int) -> None:
        """Touch the job, for slurmctld writes only what has changed, and wait; as in Cluster."""
        mark = f"touched {uuid4()}"
        touch = partial(self._slurm.rest().request, "POST", f"job/{job_id}", body={"comment": mark})
        answer = await asyncio.to_thread(touch)
        assert answer.ok, f"slurmctld did not take the touch of job {job_id}: {answer}"
        async with asyncio.timeout(_SAVE_SECONDS):
            while not self._slurm.has_saved(mark):  # noqa: ASYNC110 - a file of another process
                await asyncio.sleep(0.05)

    async def stop(self, component: str, *, kill: bool = False) -> None:
        """End a component; as in Cluster."""
        await asyncio.to_thread(self._rig_of(component).stop, component, kill=kill)

    async def start(self, component: str) -> None:
        """Start it again; as in Cluster."""
        await asyncio.to_thread(self._rig_of(component).start, component)

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
        await self._scontrol("reboot", "ASAP", "reason=test", node)

    async def _scontrol(self, *arguments: str) -> None:
        await asyncio.to_thread(self._slurm.scontrol, *arguments)

    def _rig_of(self, component: str) -> KubeRig | SlurmRig:
        return self._kube if component == "kube-apiserver" else self._slurm
