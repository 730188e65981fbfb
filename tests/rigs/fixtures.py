"""The real Kubernetes cluster as pytest fixtures, started once for the session.

Plain synchronous fixtures, so that tests in any event loop share them. Nothing starts, and nothing
big is imported, before a test asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pytest

from tests.rigs import slurm_conf
from tests.rigs.slurm_conf import SHAPES

if TYPE_CHECKING:
    from tests.rigs.kube import KubeRig
    from tests.rigs.kube_build import KubeBinaries
    from tests.rigs.node_real import RealNode

# Both Slurm rigs use the one Kubernetes, so their nodes are its Nodes.
SIMULATED: Final = tuple(
    dict.fromkeys(name for shape in SHAPES.values() for name in (*shape.schedulable, *shape.slurmd))
)
REAL: Final = SHAPES["26.05"].real[0]


@pytest.fixture(scope="session")
def live_kube_binaries() -> KubeBinaries:
    """The servers, to start a rig of one's own."""
    from tests.rigs.kube_build import ensure

    return ensure()


@pytest.fixture(scope="session")
def live_kube(live_kube_binaries: KubeBinaries) -> Iterator[KubeRig]:
    """A cluster with a played, Ready Node for each schedulable node of the Slurm rigs."""
    from tests.rigs.kube import KubeRig
    from tests.rigs.node_sim import SimulatedNodes
    from tests.rigs.simulator.nodes import NodeShape

    devices = {"nvidia.com/gpu": slurm_conf.GPUS_PER_NODE}
    shapes = [NodeShape(name=name, devices=devices) for name in SIMULATED]
    with KubeRig(live_kube_binaries, kubelets=(REAL,)) as rig, SimulatedNodes(rig, shapes):
        yield rig


@pytest.fixture(scope="session")
def live_real_node(live_kube: KubeRig) -> Iterator[RealNode]:
    """The Node of the cluster whose containers are real."""
    from tests.rigs.node_real import RealNode

    with RealNode(live_kube, REAL) as node:
        yield node
