"""`slurm-pod-scheduler sandbox`: an embedded cluster to try things on, until it is interrupted."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from scheduler.sandbox.cluster import Sandbox, SandboxShape

MIB_PER_GIB = 1024
RELEASES = ("26.05", "24.11")

_EXAMPLE = """\
apiVersion: v1
kind: Pod
metadata:
  name: hello
  annotations:
    sandbox/run-seconds: "20"
spec:
  schedulerName: slurm-scheduler
  terminationGracePeriodSeconds: 10
  restartPolicy: Never
  containers:
    - name: main
      image: busybox
      resources:
        requests: {cpu: "4", memory: 8Gi}
        limits: {cpu: "4", memory: 8Gi}
"""

_READY = """\
Sandbox: {nodes} nodes with {cpus} CPUs, {memory} GiB and {gpus} GPUs each; Slurm {release}.

  Kubernetes   {kube_url}
  Slurm        {slurm_url}  (also unix:{socket})
  token file   {token_file}

Start the scheduler in another terminal:

  export KUBECONFIG={kubeconfig}
  slurm-pod-scheduler run --slurm-api-base={slurm_url} \\
    --slurm-auth-token-file={token_file}

and give it work in a third one:

  export KUBECONFIG={kubeconfig}
  kubectl apply -f {example}
  kubectl get pods -o wide -w

Ctrl-C ends the sandbox and removes its files.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The shape of the cluster, and where to listen."""
    shape = SandboxShape()
    _add_number(parser, "--nodes", shape.nodes)
    _add_number(parser, "--gpus-per-node", shape.gpus_per_node)
    _add_number(parser, "--cpus-per-node", shape.cpus_per_node)
    _add_number(parser, "--memory-gib", shape.memory_mib // MIB_PER_GIB)
    parser.add_argument("--slurm-release", default=shape.release, choices=RELEASES)
    parser.add_argument(
        "--no-quirks", action="store_true", help="a slurmrestd without its known faults"
    )
    _add_number(parser, "--kube-port", shape.kube_port)
    _add_number(parser, "--slurm-port", shape.slurm_port)
    parser.add_argument(
        "--folder", type=Path, help="where to put its files and keep them; default: a temporary one"
    )


def _add_number(parser: argparse.ArgumentParser, flag: str, default: int) -> None:
    shown = "any free one" if flag.endswith("port") else default
    parser.add_argument(flag, type=int, default=default, metavar="N", help=f"default: {shown}")


async def run(args: argparse.Namespace) -> int:
    """Run the cluster until SIGINT or SIGTERM; gives the exit status."""
    try:
        shape = shape_of(args)
    except ValueError as error:
        sys.stderr.write(f"sandbox: {error}\n")
        return 2
    if args.folder is not None:
        args.folder.mkdir(parents=True, exist_ok=True)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    async with Sandbox(shape, folder=args.folder) as sandbox:
        example = sandbox.folder / "pod.yaml"
        example.write_text(_EXAMPLE)
        sys.stdout.write(_ready(sandbox, example))
        sys.stdout.flush()
        await _until(ended, sandbox)
    return 0


def shape_of(args: argparse.Namespace) -> SandboxShape:
    """The cluster the arguments describe; raises ValueError."""
    return SandboxShape(
        nodes=args.nodes,
        gpus_per_node=args.gpus_per_node,
        cpus_per_node=args.cpus_per_node,
        memory_mib=args.memory_gib * MIB_PER_GIB,
        release=args.slurm_release,
        quirks=not args.no_quirks,
        kube_port=args.kube_port,
        slurm_port=args.slurm_port,
    )


async def _until(ended: asyncio.Event, sandbox: Sandbox) -> None:
    """Return when asked to end; raise when the cluster fails before that."""
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(sandbox.wait(), name="sandbox")
        await ended.wait()
        watching.cancel()


def _ready(sandbox: Sandbox, example: Path) -> str:
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
    )
