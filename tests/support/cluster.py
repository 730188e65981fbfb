"""The seam of the story tests: a Kubernetes and a Slurm that are one cluster, modelled or real."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol

from tests.audit.records import Recorder


class Accounts(Protocol):
    """Accounts that root's jobs may name, and QoS; there is a limit only where one is given."""

    async def set_account(
        self, name: str, *, max_jobs: int | None = None, group_cpus: int | None = None
    ) -> None:
        """Make an account, or change its limits: running jobs of a user, CPUs of all its jobs."""

    async def set_qos(
        self, name: str, *, max_jobs_per_user: int | None = None, group_cpus: int | None = None
    ) -> None:
        """Make a QoS that no account may use yet, or change its limits."""

    async def allow(self, account: str, qos: str) -> None:
        """Let jobs of the account use the QoS."""


class Servers(Protocol):
    """Where a scheduler finds both servers, and as whom it comes."""

    @property
    def kubeconfig(self) -> Path:
        """Leads to the API server."""

    @property
    def slurm_token_file(self) -> Path:
        """A token of an operator of Slurm."""

    @property
    def slurm_url(self) -> str:
        """slurmrestd over TCP."""

    @property
    def placeholder_mode(self) -> str:
        """What stories expect of pods there, "external" or "script"."""


class Cluster(Protocol):
    """`name` is KIND-RELEASE, as in "live-24.11"; `placeholder_mode` is "external" or "script".

    `nodes` are names of a Node and a node each. `real_node`, where there is one, has a kubelet with
    real containers; pods get there through the partition `real_partition`. In `script_partition`,
    on `nodes_for_scripts`, both pods and batch scripts run. The settings of Slurm's hooks go into
    `hooks_folder`, which the hooks themselves know as `hooks_seen_as`. `accounts` are there
    where Slurm knows any, and enforces their limits. `container` are fields that the containers of
    pods need to run there, such as an image.
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
        """End "slurmctld", "slurmrestd" or "kube-apiserver"; with `kill` as a crash would."""

    async def start(self, component: str) -> None:
        """Start it again; returns when it answers."""

    async def save(self, job_id: int) -> None:
        """Return when slurmctld has written this job, and all that was before, to its disk."""

    async def lose_state(self) -> None:
        """Have slurmctld crash, and start with an empty state directory: it knows no job, and
        counts ids from 1.
        """

    async def purge(self) -> None:
        """Have slurmctld forget all jobs that have ended, as it does after MinJobAge."""

    async def hold(self, job_id: int, *, by_user: bool) -> None:
        """Hold a pending job, as `scontrol uhold` or, by an operator, `scontrol hold`."""

    async def suspend(self, job_id: int) -> None:
        """Stop a running job's clock, as `scontrol suspend`."""

    async def resume(self, job_id: int) -> None:
        """Let it run on, as `scontrol resume`."""

    async def requeue(self, job_id: int) -> None:
        """Put a batch job back into the queue, as `scontrol requeue` after `Requeue=1`."""

    async def reboot(self, node: str) -> None:
        """Have a node reboot once it is free, as `scontrol reboot ASAP`."""

    async def kill_script(self, job_id: int) -> None:
        """Have somebody kill (SIGKILL) a batch job's script on its node, as OverMemoryKill does."""

    def job_submit_plugin(self) -> AbstractAsyncContextManager[None]:
        """Slurm has the job_submit plugin of tests/support/job_submit.py."""

    def rebooting(self, node: str) -> AbstractAsyncContextManager[None]:
        """What `reboot` asks for happens after the block, in which the node becomes free."""

    async def power_cycle(self, node: str) -> None:
        """Have a node that jobs are on lose its power and come back."""

    async def set_instance_id(self, node: str, instance: str) -> None:
        """Say which instance of a cloud a Slurm node is, as `scontrol update`."""

    async def set_partition(
        self, name: str, *, state: str = "UP", max_minutes: int | None = None
    ) -> None:
        """Set a Slurm partition UP, DOWN or INACTIVE, with a longest time of jobs or without."""

    async def reserve(self, name: str, node: str, *, in_seconds: int) -> None:
        """Reserve a Slurm node for root, from `in_seconds` on for an hour."""

    async def begin_reservation(self, name: str) -> None:
        """Have a reservation of the future begin now."""

    async def unreserve(self, name: str) -> None:
        """Delete a reservation."""

    def recorder(self) -> Recorder | None:
        """What records both servers for the auditor; None where their own records are closed."""

    def slurm_token(self, user: str) -> str:
        """A Slurm token of "root" (an operator) or of an ordinary user, "alice" or "bob"."""


def release(cluster: Cluster) -> str:
    """The Slurm release of a cluster, as in "24.11"."""
    return cluster.name.partition("-")[2]
