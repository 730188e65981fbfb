"""`python -m tests.rigs`: the real clusters, up until Ctrl-C, to try things on by hand."""

from __future__ import annotations

import argparse
import signal
from contextlib import ExitStack, suppress

from tests.rigs import fixtures, slurm_conf
from tests.rigs.kube import KubeRig
from tests.rigs.kube_build import ensure as ensure_kube
from tests.rigs.node_real import RealNode
from tests.rigs.node_sim import SimulatedNodes
from tests.rigs.simulator.nodes import NodeShape
from tests.rigs.slurm import SlurmRig
from tests.rigs.slurm_build import ensure as ensure_slurm

_READY = """\
Kubernetes with {nodes} played Nodes, {real}, and Slurm {release} are up.

  export KUBECONFIG={kubeconfig}
  slurm-pod-scheduler run --slurm-api-base={url} --slurm-auth-token-file={token}

The image on {real_name} is {image}; pods get there through the partition {partition}.
Logs: {logs}
Ctrl-C ends all of it.
"""


def main() -> None:
    """Start them, say where they are, and wait for SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m tests.rigs", description=__doc__)
    parser.add_argument("--release", choices=sorted(slurm_conf.SHAPES), default="26.05")
    release = parser.parse_args().release
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt), ExitStack() as stack:
        kube = stack.enter_context(KubeRig(ensure_kube(), kubelets=(fixtures.REAL,)))
        names = slurm_conf.SHAPES[release].schedulable
        devices = {"nvidia.com/gpu": slurm_conf.GPUS_PER_NODE}
        shapes = [NodeShape(name=name, devices=devices) for name in names]
        stack.enter_context(SimulatedNodes(kube, shapes))
        node = stack.enter_context(RealNode(kube, fixtures.REAL))
        slurm = stack.enter_context(SlurmRig(ensure_slurm(release)))
        ready = _READY.format(
            nodes=len(names),
            real=f"a real one ({node.name})",
            real_name=node.name,
            release=release,
            kubeconfig=kube.kubeconfig,
            url=slurm.url,
            token=slurm.token_file,
            image=node.image,
            partition=slurm_conf.REAL_PARTITION,
            logs=slurm.log_directory,
        )
        print(ready, flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
