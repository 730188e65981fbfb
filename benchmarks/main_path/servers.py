"""The servers of a run: the sandbox in a process of its own, or the real ones of the rigs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import urlsplit

from tests.rigs import kube_build, slurm_build
from tests.rigs.kube import KubeRig
from tests.rigs.node_sim import SimulatedNodes
from tests.rigs.simulator.nodes import NodeShape
from tests.rigs.slurm import SlurmRig
from tests.support.ports import free_ports

CPUS_PER_NODE: Final = 64
NODES: Final = {"26.05": 200, "24.11": 2}
MAX_JOB_COUNT: Final = 10_000
"""Slurm's default, and the sandbox's. It counts jobs that ended within the last minutes, too."""
_STOP_SECONDS: Final = 20.0


class ServersError(Exception):
    """The servers could not be started; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """Addresses and credentials. All `nodes` are empty and have 64 CPUs. The settings of Slurm's
    hooks go into `hooks_folder`, None without hooks; the hooks see it as `hooks_seen_as`.
    """

    name: str
    release: str
    nodes: int
    kubeconfig: Path
    kube_url: str
    kube_token: str
    kube_ca: Path | None
    slurm_url: str
    slurm_token_file: Path
    hooks_folder: Path | None = None
    hooks_seen_as: str = "/etc/slurm"

    @property
    def external(self) -> bool:
        """Whether Slurm has external jobs, which have no process."""
        return self.release != "24.11"


@contextmanager
def sandbox(release: str, nodes: int, *, jobs: int = MAX_JOB_COUNT) -> Iterator[Servers]:
    """`slurm-pod-scheduler sandbox` as its users run it, with room for so many `jobs`. Raises
    ServersError.
    """
    with TemporaryDirectory(prefix="main-path-") as name, ExitStack() as stack:
        folder = Path(name)
        slurm_port, kube_port = free_ports(2)
        flags = (
            *(f"--folder={folder}", f"--nodes={nodes}", f"--slurm-release={release}"),
            *(f"--cpus-per-node={CPUS_PER_NODE}", f"--slurm-port={slurm_port}"),
            *(f"--kube-port={kube_port}", f"--max-job-count={jobs}"),
        )
        process = subprocess.Popen(
            (sys.executable, "-m", "scheduler", "sandbox", *flags),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        stack.callback(_end, process)
        _wait_ready(process)
        yield _sandbox_servers(folder, release, nodes, slurm_port)


def _wait_ready(process: subprocess.Popen[str]) -> None:
    """Wait until the sandbox prints how to use it, which it does once everything listens."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("Ctrl-C"):
            return
    raise ServersError(f"the sandbox ended with status {process.wait()} before it was ready")


def _sandbox_servers(folder: Path, release: str, nodes: int, slurm_port: int) -> Servers:
    kubeconfig = folder / "kubeconfig"
    server = urlsplit(json.loads(kubeconfig.read_text())["clusters"][0]["cluster"]["server"])
    return Servers(
        name=f"sandbox-{release}",
        release=release,
        nodes=nodes,
        kubeconfig=kubeconfig,
        kube_url=f"http://{server.hostname}:{server.port}",
        kube_token=server.password or "",
        kube_ca=None,
        slurm_url=f"http://127.0.0.1:{slurm_port}",
        slurm_token_file=folder / "slurm-token",
    )


@contextmanager
def live(release: str, *, hooks: bool = False) -> Iterator[Servers]:
    """The rigs of the live tests: real kube-apiserver and Slurm, played kubelets. Needs root. With
    `hooks` Slurm runs our scripts when a job starts and ends, which cost a process for each job.
    """
    with ExitStack() as stack:
        slurm = stack.enter_context(SlurmRig(slurm_build.ensure(release)))
        if not hooks:
            stack.enter_context(slurm.without_hooks())
        kube = stack.enter_context(KubeRig(kube_build.ensure(), go={}))
        shapes = [NodeShape(name=name, cpus=CPUS_PER_NODE) for name in slurm.nodes]
        stack.enter_context(SimulatedNodes(kube, shapes))
        yield Servers(
            name=f"live-{release}",
            release=release,
            nodes=len(slurm.nodes),
            kubeconfig=kube.kubeconfig,
            kube_url=kube.url,
            kube_token=kube.token,
            kube_ca=kube.ca,
            slurm_url=slurm.url,
            slurm_token_file=slurm.token_file,
            hooks_folder=slurm.hooks_folder if hooks else None,
        )


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.communicate(timeout=_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
