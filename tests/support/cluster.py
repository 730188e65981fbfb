"""The seam of the story tests: a Kubernetes and a Slurm that are one cluster, modelled or real."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class Cluster(Protocol):
    """`name` is KIND-RELEASE, as in "live-24.11"; `placeholder_mode` is "external" or "script".

    `nodes` are names of a Node and a node each. `real_node`, where there is one, has a kubelet with
    real containers; pods get there through the partition `real_partition`. In `script_partition`,
    on `nodes_for_scripts`, both pods and batch scripts run. The settings of Slurm's hooks go into
    `hooks_folder`, which the hooks themselves know as `hooks_seen_as`.
    """

    name: str
    placeholder_mode: str
    kubeconfig: Path
    kube_token: str
    kube_ca: Path | None
    slurm_socket: Path | None
    slurm_token_file: Path
    nodes: tuple[str, ...]
    cpus_per_node: int
    gpus_per_node: int
    real_node: str | None
    real_partition: str
    script_partition: str
    nodes_for_scripts: tuple[str, ...]
    hooks_folder: Path
    hooks_seen_as: str
    partition: str
    high_partition: str
    grace_partition: str

    @property
    def kube_url(self) -> str:
        """The API server."""

    @property
    def slurm_url(self) -> str:
        """slurmrestd over TCP."""

    async def stop(self, component: str, *, kill: bool = False) -> None:
        """End "slurmctld", "slurmrestd" or "kube-apiserver"; with `kill` as a crash would."""

    async def start(self, component: str) -> None:
        """Start it again; returns when it answers."""

    async def save(self, job_id: int) -> None:
        """Return when slurmctld has written this job, and all that was before, to its disk."""

    async def suspend(self, job_id: int) -> None:
        """Stop a running job's clock, as `scontrol suspend`."""

    async def resume(self, job_id: int) -> None:
        """Let it run on, as `scontrol resume`."""

    async def requeue(self, job_id: int) -> None:
        """Put a batch job back into the queue, as `scontrol requeue` after `Requeue=1`."""

    async def reboot(self, node: str) -> None:
        """Have a node reboot once it is free, as `scontrol reboot ASAP`."""

    def slurm_token(self, user: str) -> str:
        """A Slurm token of "root" (an operator) or of an ordinary user, "alice" or "bob"."""


def release(cluster: Cluster) -> str:
    """The Slurm release of a cluster, as in "24.11"."""
    return cluster.name.partition("-")[2]
