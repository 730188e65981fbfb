"""`slurm-pod-scheduler sandbox`: runs an embedded cluster to try things on, until interrupted."""

from __future__ import annotations

import argparse
import asyncio
import errno
import shlex
import signal
import socket
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from groundwork.garbage import tended
from scheduler.sandbox.cluster import GPU_RESOURCE, Sandbox, SandboxShape
from scheduler.sandbox.folder import FolderError, claimed

MIB_PER_GIB = 1024
RELEASES = ("26.05", "24.11")
PROGRAM = "slurm-pod-scheduler"
# One process plays all nodes; with more of them it would no longer behave like a real cluster.
MOST_NODES = 10_000
MOST_JOBS = 1_000_000

_EXAMPLE = """\
apiVersion: v1
kind: Pod
metadata:
  name: hello
  annotations:
    sandbox/run-seconds: "600"  # the sandbox has no real containers: this one ends by itself
spec:
  schedulerName: slurm-scheduler
  terminationGracePeriodSeconds: 10
  restartPolicy: Never
  containers:
    - name: main
      image: busybox
      resources:
        limits: {resources}
"""

COMMANDS = ("sbatch", "scancel", "sinfo", "squeue")
_OWN_COMMANDS = {PROGRAM: "main", "kubectl-slurm": "plugin"}
_ROOT = Path(__file__).parents[2]
_COMMAND = """\
#!/bin/sh
PYTHONPATH={root}${{PYTHONPATH:+:$PYTHONPATH}} exec {program} "$@"
"""

_READY = """\
Sandbox: {nodes} nodes with {cpus} CPUs, {memory} GiB and {gpus} GPUs each; Slurm {release}.

  Kubernetes   {kube_url}
  Slurm        {slurm_url}  (also unix:{socket})
  token file   {token_file}

No scheduler runs yet. Start it in a second terminal:

  export KUBECONFIG={kubeconfig}
  {command} run --slurm-api-base={slurm_url} \\
    --slurm-auth-token-file={token_file} \\
    --page-bind-address=127.0.0.1:{page} --page-access=open

In a third terminal, create a pod and look at it:

  export KUBECONFIG={kubeconfig}
  export PATH="{commands}:$PATH"
  export KUBECTL_SLURM_PAGE_URL=http://127.0.0.1:{page}
  kubectl apply -f {example}
  kubectl slurm queue            # the pods, as squeue lists jobs
  kubectl slurm explain hello    # what the pod asks for, why it waits, what helps
  kubectl slurm partitions       # what a pod may ask for, and what would start now
  squeue                         # Slurm's side; there are sinfo, scancel and sbatch too

Once the scheduler runs (it logs "ready"), its live page is at http://127.0.0.1:{page}/
For operators there are `slurm-pod-scheduler nodes` and `slurm-pod-scheduler doctor`, with the
flags of `run` that stand above.

Ctrl-C ends the sandbox{files}.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags for the shape of the cluster, the ports and the folder."""
    shape = SandboxShape()
    _add_number(parser, "--nodes", shape.nodes, within=(1, MOST_NODES))
    _add_number(parser, "--gpus-per-node", shape.gpus_per_node, within=(0, 1024))
    _add_number(parser, "--cpus-per-node", shape.cpus_per_node, within=(1, 4096))
    _add_number(parser, "--memory-gib", shape.memory_mib // MIB_PER_GIB, within=(1, 65536))
    _add_number(parser, "--max-job-count", shape.max_job_count, within=(1, MOST_JOBS))
    parser.add_argument(
        "--slurm-release",
        default=shape.release,
        choices=RELEASES,
        help=f"which Slurm to play; default: {shape.release}",
    )
    parser.add_argument(
        "--no-quirks", action="store_true", help="a slurmrestd without its known faults"
    )
    _add_number(parser, "--kube-port", shape.kube_port, within=(0, 65535))
    _add_number(parser, "--slurm-port", shape.slurm_port, within=(0, 65535))
    parser.add_argument(
        "--folder",
        type=Path,
        help="where to put its files and keep them: a new or empty folder, or that of a former "
        "sandbox; default: a temporary one",
    )


def _add_number(
    parser: argparse.ArgumentParser, flag: str, default: int, *, within: tuple[int, int]
) -> None:
    low, high = within

    def number(text: str) -> int:
        if not (text.isascii() and text.isdigit() and low <= int(text) <= high):
            raise argparse.ArgumentTypeError(f"{text!r}: expected a number of {low} to {high}")
        return int(text)

    shown = "any free one" if flag.endswith("port") else default
    parser.add_argument(flag, type=number, default=default, metavar="N", help=f"default: {shown}")


async def run(args: argparse.Namespace) -> int:
    """Run the cluster until SIGINT, SIGTERM or SIGHUP.

    Returns the exit status: 0, or 2 if the cluster cannot start.
    """
    ended = set_by_signals()
    async with AsyncExitStack() as stack:
        try:
            folder = None if args.folder is None else stack.enter_context(claimed(args.folder))
            sandbox = await stack.enter_async_context(Sandbox(shape_of(args), folder=folder))
            example = _write_example(sandbox)
            commands = write_commands(sandbox)
            sys.stdout.write(_ready(sandbox, example, commands, kept=folder is not None))
            sys.stdout.flush()
        except FolderError as error:
            sys.stderr.write(f"{PROGRAM} sandbox: --folder: {error}\n")
            return 2
        except OSError as error:  # the port is in use, or a file or the output cannot be written
            sys.stderr.write(f"{PROGRAM} sandbox: {_told(error)}\n")
            return 2
        # With 18 000 jobs a full collection of garbage held up all answers for 450 ms (measured).
        await tended(_until(ended, sandbox), objects=sandbox.objects)
    return 0


def _told(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    taken = error.errno == errno.EADDRINUSE
    helps = "; perhaps another sandbox runs: --kube-port and --slurm-port choose ports"
    return f"{where}{error.strerror or error}{helps if taken else ''}"


def shape_of(args: argparse.Namespace) -> SandboxShape:
    """Return the cluster that the arguments describe; raises ValueError."""
    return SandboxShape(
        nodes=args.nodes,
        gpus_per_node=args.gpus_per_node,
        cpus_per_node=args.cpus_per_node,
        memory_mib=args.memory_gib * MIB_PER_GIB,
        max_job_count=args.max_job_count,
        release=args.slurm_release,
        quirks=not args.no_quirks,
        kube_port=args.kube_port,
        slurm_port=args.slurm_port,
    )


async def _until(ended: asyncio.Event, sandbox: Sandbox) -> None:
    """Return once `ended` is set; raise the cluster's error if it fails before that."""
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(sandbox.wait(), name="sandbox")
        await ended.wait()
        watching.cancel()


def _write_example(sandbox: Sandbox) -> Path:
    """Write the manifest of a pod that fits on a node, and return its path; raises OSError."""
    shape = sandbox.shape
    limits = {"cpu": '"1"', "memory": "1Gi"}
    if shape.gpus_per_node:
        limits[GPU_RESOURCE] = '"1"'
    resources = ", ".join(f"{name}: {quantity}" for name, quantity in limits.items())
    path = sandbox.folder / "pod.yaml"
    path.write_text(_EXAMPLE.replace("{resources}", f"{{{resources}}}"))
    return path


def set_by_signals() -> asyncio.Event:
    """Return an event that SIGINT, SIGTERM and SIGHUP set, instead of ending the process at once.

    A terminal that is closed sends SIGHUP. `nohup` ignores it, and it stays ignored then.
    """
    received = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, received.set)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGHUP, received.set)
    return received


def write_commands(sandbox: Sandbox) -> Path:
    """Write a script for each of Slurm's commands and of our own; returns their folder. Raises
    OSError.
    """
    programs = {name: ["-c", _call(function)] for name, function in _OWN_COMMANDS.items()}
    for name in COMMANDS:
        where = (sandbox.slurm_url, str(sandbox.slurm_token_file))
        programs[name] = ["-m", "scheduler.sandbox.tools", *where, name]
    folder = sandbox.folder / "bin"
    folder.mkdir(exist_ok=True)
    for name, words in programs.items():
        program = shlex.join([sys.executable, *words])
        path = folder / name
        path.write_text(_COMMAND.format(root=shlex.quote(str(_ROOT)), program=program))
        path.chmod(0o755)
    return folder


def _call(function: str) -> str:
    """The Python program that is one of our commands."""
    return f"import sys; from scheduler.__main__ import {function}; sys.exit({function}())"


def _ready(sandbox: Sandbox, example: Path, commands: Path, *, kept: bool) -> str:
    shape = sandbox.shape
    return _READY.format(
        nodes=shape.nodes,
        cpus=shape.cpus_per_node,
        memory=shape.memory_mib // MIB_PER_GIB,
        gpus=shape.gpus_per_node,
        release=shape.release,
        kube_url=sandbox.kube_url,
        slurm_url=sandbox.slurm_url,
        socket=sandbox.slurm_socket,
        token_file=sandbox.slurm_token_file,
        kubeconfig=sandbox.kubeconfig,
        example=example,
        command=command(),
        commands=commands,
        page=_free_port(),
        files=f"; its files stay in {sandbox.folder}" if kept else " and removes its files",
    )


def _free_port() -> int:
    """Return a port of 127.0.0.1 that nobody uses now."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def command() -> str:
    """Return the command that starts this program in another terminal.

    It has an absolute path, because the virtual environment may not be active there.
    """
    called = Path(sys.argv[0])
    return str(called.absolute()) if called.name == PROGRAM else f"{sys.executable} -m scheduler"
