"""The interface through which stories use a cluster: Kubernetes and Slurm, modelled or real."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol

from tests.audit.records import Recorder


class Accounts(Protocol):
    """Slurm's accounts, which jobs of root may name, and its QoS. None is no limit."""

    async def set_account(
        self, name: str, *, max_jobs: int | None = None, group_cpus: int | None = None
    ) -> None:
        """Make an account, or change its limits: running jobs per user, CPUs of all its jobs."""

    async def set_qos(
        self, name: str, *, max_jobs_per_user: int | None = None, group_cpus: int | None = None
    ) -> None:
        """Make a QoS that no account may use yet, or change its limits."""

    async def allow(self, account: str, qos: str) -> None:
        """Let jobs of the account use the QoS."""


class Servers(Protocol):
    """Where a scheduler finds both servers, and the credentials it uses."""

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig file for the API server."""

    @property
    def slurm_token_file(self) -> Path:
        """The file with the token of a Slurm operator."""

    @property
    def slurm_url(self) -> str:
        """slurmrestd over TCP."""

    @property
    def placeholder_mode(self) -> str:
        """The kind of job that a scheduler here submits for a pod: "external" or "script"."""


class Cluster(Protocol):
    """`name` is KIND-RELEASE, as in "live-24.11"; `placeholder_mode` is "external" or "script".

    Each of `nodes` names both a Kubernetes Node and a Slurm node. `real_node`, if there is one, is
    a Node whose kubelet runs real containers; pods get there through the partition
    `real_partition`. In `script_partition`, on `nodes_for_scripts`, both pods and batch scripts
    run. The settings of Slurm's hooks go into `hooks_folder`; the hooks see that folder as
    `hooks_seen_as`. `accounts` is set where Slurm has accounts and enforces their limits.
    `container` holds fields that every container needs to run there, such as an image.
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
    accounts: Accounts | None
    container: dict[str, Any]

    @property
    def kube_url(self) -> str:
        """The API server."""

    @property
    def slurm_url(self) -> str:
        """slurmrestd over TCP."""

    async def stop(self, component: str, *, kill: bool = False) -> None:
        """Stop "slurmctld", "slurmrestd" or "kube-apiserver"; with `kill` as in a crash."""

    async def start(self, component: str) -> None:
        """Start it again; returns when it answers."""

    async def save(self, job_id: int) -> None:
        """Return once slurmctld has written this job, and all earlier changes, to disk."""

    async def lose_state(self) -> None:
        """Crash slurmctld, and start it with an empty state directory: it then knows no job and
        counts job ids from 1.
        """

    async def purge(self) -> None:
        """Have slurmctld forget all jobs that have ended, as it does after MinJobAge."""

    async def hold(self, job_id: int, *, by_user: bool) -> None:
        """Hold a pending job, as `scontrol uhold` or, by an operator, `scontrol hold`."""

    async def suspend(self, job_id: int) -> None:
        """Stop a running job's clock, as `scontrol suspend`."""

    async def resume(self, job_id: int) -> None:
        """Let a suspended job run on, as `scontrol resume`."""

    async def requeue(self, job_id: int) -> None:
        """Put a batch job back into the queue, as `scontrol requeue` after `Requeue=1`."""

    async def reboot(self, node: str) -> None:
        """Have a node reboot once it is free, as `scontrol reboot ASAP`."""

    async def kill_script(self, job_id: int) -> None:
        """Have somebody kill (SIGKILL) a batch job's script on its node, as OverMemoryKill does."""

    async def script_runs(self, job_id: int) -> bool:
        """Whether the script of a batch job that Slurm says is running has started. If the job is
        cancelled before that, it is COMPLETING for KillWait (measured on 24.11.5).
        """

    def job_submit_plugin(self) -> AbstractAsyncContextManager[None]:
        """Within the block Slurm runs the job_submit plugin of tests/support/job_submit.py."""

    def rebooting(self, node: str) -> AbstractAsyncContextManager[None]:
        """Within the block the node becomes free; after it the node reboots, as `reboot` asked."""

    async def power_cycle(self, node: str) -> None:
        """Have a node lose its power, with the jobs that run on it, and come back."""

    async def set_instance_id(self, node: str, instance: str) -> None:
        """Set the cloud instance id of a Slurm node, as `scontrol update`."""

    async def set_partition(
        self, name: str, *, state: str = "UP", max_minutes: int | None = None
    ) -> None:
        """Set a Slurm partition UP, DOWN or INACTIVE, with a MaxTime or without."""

    async def reserve(self, name: str, node: str, *, in_seconds: int) -> None:
        """Reserve a Slurm node for root for one hour, starting in `in_seconds`."""

    async def begin_reservation(self, name: str) -> None:
        """Let a reservation that lies in the future begin now."""

    async def unreserve(self, name: str) -> None:
        """Delete a reservation."""

    def recorder(self) -> Recorder | None:
        """The recorder of both servers for the auditor; None where their logs cannot be read."""

    def slurm_token(self, user: str) -> str:
        """A Slurm token of "root" (an operator) or of an ordinary user, "alice" or "bob"."""


def release(cluster: Cluster) -> str:
    """The Slurm release of a cluster, as in "24.11"."""
    return cluster.name.partition("-")[2]
