"""The embedded cluster: the Kubernetes model and the Slurm model, with the same nodes."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from types import MappingProxyType, TracebackType
from typing import Any, Self

from scheduler.sandbox.kube import KubeCluster, NodeShape, Timing
from scheduler.sandbox.slurm import (
    AccountConfig,
    Gres,
    NodeConfig,
    PartitionConfig,
    Release,
    SlurmConfig,
    SlurmModel,
    SlurmServer,
    mint_token,
)

GPU_RESOURCE = "nvidia.com/gpu"
GPU_TYPE = "h100"
KILL_WAIT_SECONDS = 30
GRACE_SECONDS = 15
TOKEN_SECONDS = 365 * 86400.0
USERS = MappingProxyType({"root": 0, "slurm": 64030, "alice": 2001, "bob": 2002})

KUBE_APISERVER = "kube-apiserver"
SLURMCTLD = "slurmctld"
SLURMRESTD = "slurmrestd"
# the longest path that fits into sun_path of unix(7) with its terminating zero byte
_LONGEST_SOCKET_PATH = 107
COMPONENTS = (KUBE_APISERVER, SLURMCTLD, SLURMRESTD)


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxShape:
    """The size and the settings of the cluster.

    `quirks` turns on the known faults of slurmrestd. Port 0 means any free port. `licenses` maps
    each license name to a count. `accounts` None means a Slurm without slurmdbd; otherwise a user's
    first account is its default. `prolog_slurmctld` is a program that Slurm runs for each job
    before its script, and `hook_environment` is added to the environment of that program.
    """

    nodes: int = 4
    gpus_per_node: int = 8
    cpus_per_node: int = 64
    memory_mib: int = 256 * 1024
    release: str = "26.05"
    quirks: bool = True
    kube_port: int = 0
    slurm_port: int = 0
    max_job_count: int = 10_000
    licenses: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    accounts: tuple[AccountConfig, ...] | None = None
    pod_timing: Timing = field(default_factory=Timing)
    prolog_slurmctld: str = ""
    hook_environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        known = [release.value for release in Release]
        if self.release not in known:
            raise ValueError(
                f"release: {self.release!r} is not known; there are {', '.join(known)}"
            )
        for name in ("nodes", "cpus_per_node", "memory_mib", "max_job_count"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: {getattr(self, name)} must be 1 or more")
        if self.gpus_per_node < 0:
            raise ValueError(f"gpus_per_node: {self.gpus_per_node} must be 0 or more")

    def names(self) -> tuple[str, ...]:
        """Return the nodes' names, which are the same in Kubernetes and in Slurm."""
        width = max(2, len(str(self.nodes - 1)))
        return tuple(f"node-{index:0{width}}" for index in range(self.nodes))


class Sandbox:
    """A Kubernetes and a Slurm with the same nodes; an async context manager.

    The addresses and the files `kubeconfig` and `slurm_token_file` exist once it is entered. Files
    go into `folder`, or into a temporary folder that is removed at the end. Slurm's partitions are
    `main`, `grace`, whose jobs get GRACE_SECONDS to leave when preempted, and `high`, which
    preempts both.
    """

    kube_ca: Path | None = None  # none: plain HTTP on the loopback address
    real_node: str | None = None
    partition = "main"
    high_partition = "high"
    grace_partition = "grace"
    real_partition = partition

    def __init__(self, shape: SandboxShape | None = None, *, folder: Path | None = None) -> None:
        self.shape = shape or SandboxShape()
        self.name = f"sandbox-{self.shape.release}"
        self.nodes = self.shape.names()
        self.gpus_per_node = self.shape.gpus_per_node
        self.placeholder_mode = "external" if self.shape.release == "26.05" else "script"
        self.kube_token = secrets.token_urlsafe(24)
        self.kube = KubeCluster(
            token=self.kube_token,
            nodes=[_node_shape(name, self.shape) for name in self.nodes],
            port=self.shape.kube_port,
            timing=self.shape.pod_timing,
        )
        self.slurm = SlurmModel(_slurm_config(self.nodes, self.shape))
        self._slurmrestd = SlurmServer(self.slurm)
        self._slurm_port = self.shape.slurm_port
        self._given_folder = folder
        self.folder = self._socket_folder = folder or Path()
        self._stack = AsyncExitStack()

    def objects(self) -> int:
        """How many objects of Kubernetes, former states of them and jobs are kept."""
        return self.kube.model.store.kept() + len(self.slurm.cluster.jobs)

    @property
    def kube_url(self) -> str:
        """The URL of the API server."""
        return self.kube.server.url

    @property
    def kubeconfig(self) -> Path:
        """The path of the cluster administrator's kubeconfig."""
        return self.folder / "kubeconfig"

    @property
    def slurm_url(self) -> str:
        """The URL of slurmrestd over TCP."""
        return f"http://127.0.0.1:{self._slurm_port}"

    @property
    def slurm_socket(self) -> Path:
        """The path of slurmrestd's unix socket."""
        return self._socket_folder / "slurmrestd.socket"

    @property
    def slurm_token_file(self) -> Path:
        """The path of the file with a token of Slurm's root."""
        return self.folder / "slurm-token"

    def slurm_token(self, user: str) -> str:
        """Return a Slurm token of the user root, slurm, alice or bob; raises ValueError."""
        if user not in USERS:
            raise ValueError(f"user: {user!r} is not known to Slurm; there are {', '.join(USERS)}")
        return mint_token(self.slurm.key, user, TOKEN_SECONDS)

    async def stop(self, component: str, *, kill: bool = False) -> None:
        """Stop "kube-apiserver", "slurmctld" or "slurmrestd"; with `kill` as a crash would.

        Raises ValueError for another component.
        """
        match component:
            case "kube-apiserver":
                await self.kube.server.stop(kill=kill)
            case "slurmctld":
                (self.slurm.crash if kill else self.slurm.stop_controller)()
            case "slurmrestd":
                await self._slurmrestd.stop()
            case _:
                raise _unknown(component)

    async def start(self, component: str) -> None:
        """Start a stopped component at the same address; it answers once this returns."""
        match component:
            case "kube-apiserver":
                await self.kube.server.start()
            case "slurmctld":
                self.slurm.start_controller()
            case "slurmrestd":
                await self._start_slurmrestd()
            case _:
                raise _unknown(component)

    async def kill(self, component: str) -> None:
        """Stop a component as a crash would."""
        await self.stop(component, kill=True)

    async def wait(self) -> None:
        """Wait for ever; raise the error if the kubelets or the controllers fail."""
        await self.kube.wait()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            if self._given_folder is None:
                self.folder = Path(mkdtemp(prefix="slurm-pod-scheduler-sandbox-"))
                stack.callback(rmtree, self.folder, ignore_errors=True)
            self._socket_folder = self.folder
            if len(os.fsencode(self.slurm_socket)) > _LONGEST_SOCKET_PATH:
                self._socket_folder = Path(mkdtemp(prefix="slurmrestd-", dir="/tmp"))
                stack.callback(rmtree, self._socket_folder, ignore_errors=True)
            await stack.enter_async_context(self.kube)
            stack.push_async_callback(self.slurm.close)
            stack.push_async_callback(self._slurmrestd.stop)
            await self._start_slurmrestd()
            self._write_files()
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def _start_slurmrestd(self) -> None:
        self._slurm_port = await self._slurmrestd.start(
            port=self._slurm_port, unix=self.slurm_socket
        )

    def _write_files(self) -> None:
        for path, text in (
            (self.kubeconfig, json.dumps(self._kubeconfig(), indent=2)),
            (self.slurm_token_file, self.slurm_token("root")),
        ):
            path.touch(mode=0o600)
            path.write_text(text + "\n")

    def _kubeconfig(self) -> dict[str, Any]:
        # Over plain HTTP kubectl does not send the token of a kubeconfig. It does send the user and
        # the password in the URL.
        server = self.kube_url.replace("://", f"://sandbox:{self.kube_token}@")
        context = {"cluster": "sandbox", "user": "sandbox", "namespace": "default"}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "sandbox", "cluster": {"server": server}}],
            "users": [{"name": "sandbox", "user": {}}],
            "contexts": [{"name": "sandbox", "context": context}],
            "current-context": "sandbox",
        }


def _unknown(component: str) -> ValueError:
    return ValueError(f"component: {component!r} is none of {', '.join(COMPONENTS)}")


def _node_shape(name: str, shape: SandboxShape) -> NodeShape:
    return NodeShape(
        name=name,
        cpus=shape.cpus_per_node,
        memory_mib=shape.memory_mib,
        devices={GPU_RESOURCE: shape.gpus_per_node} if shape.gpus_per_node else {},
    )


def _slurm_config(names: tuple[str, ...], shape: SandboxShape) -> SlurmConfig:
    gres = (Gres("gpu", shape.gpus_per_node, GPU_TYPE),) if shape.gpus_per_node else ()
    nodes = tuple(
        NodeConfig(name=name, cpus=shape.cpus_per_node, memory_mib=shape.memory_mib, gres=gres)
        for name in names
    )
    partitions = (
        PartitionConfig(name=Sandbox.partition, default=True, priority_tier=1),
        PartitionConfig(name=Sandbox.high_partition, priority_tier=2),
        PartitionConfig(name=Sandbox.grace_partition, priority_tier=1, grace_time=GRACE_SECONDS),
    )
    return SlurmConfig(
        cluster_name=f"sandbox-{shape.release}",
        nodes=nodes,
        partitions=partitions,
        release=Release(shape.release),
        kill_wait=KILL_WAIT_SECONDS,
        max_job_count=shape.max_job_count,
        licenses=shape.licenses,
        accounts=shape.accounts,
        prolog_slurmctld=shape.prolog_slurmctld,
        hook_environment=shape.hook_environment,
        users=USERS,
        double_error_answers=None if shape.quirks else False,
    )
