"""The clusters of the stories, for measurements that are written as stories."""

from __future__ import annotations

from contextlib import ExitStack

from tests.rigs import kube_build, slurm_build
from tests.rigs.kube import KubeRig
from tests.rigs.node_sim import SimulatedNodes
from tests.rigs.simulator.nodes import NodeShape
from tests.rigs.slurm import SlurmRig
from tests.support.cluster import Cluster
from tests.support.live import LiveCluster
from tests.support.sandbox import SandboxCluster


def cluster_on(stack: ExitStack, on: str, major: str, *, nodes: int | None = None) -> Cluster:
    """The "sandbox" with `nodes` nodes, or real servers (as root); they end with `stack`."""
    if on == "sandbox":
        return stack.enter_context(SandboxCluster(major, nodes=nodes))
    slurm = stack.enter_context(SlurmRig(slurm_build.ensure(major)))
    kube = stack.enter_context(KubeRig(kube_build.ensure(), go={}))
    shapes = [NodeShape(name=name) for name in slurm.nodes]
    stack.enter_context(SimulatedNodes(kube, shapes))
    return LiveCluster(kube, slurm)
