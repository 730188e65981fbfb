"""The real Kubernetes cluster, and Prometheus, as pytest fixtures, started once for the session.

Plain synchronous fixtures, so that tests in any event loop share them. Nothing starts, and nothing
big is imported, before a test asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.rigs import slurm_conf
from tests.rigs.slurm_conf import SHAPES

if TYPE_CHECKING:
    from tests.rigs.helm import Helm
    from tests.rigs.kube import KubeRig
    from tests.rigs.kube_build import KubeBinaries
    from tests.rigs.node_real import RealNode
    from tests.rigs.node_sim import SimulatedNodes
    from tests.rigs.prometheus import PrometheusBinaries
    from tests.rigs.simulator.nodes import NodeShape

# Both Slurm rigs share one Kubernetes, so it has a Node for each of their nodes.
SIMULATED: Final = tuple(
    dict.fromkeys(name for shape in SHAPES.values() for name in (*shape.schedulable, *shape.slurmd))
)
REAL: Final = SHAPES["26.05"].real[0]


@pytest.fixture(scope="session")
def live_kube_binaries() -> KubeBinaries:
    """The binaries, for tests that start a rig of their own."""
    from tests.rigs.kube_build import ensure

    return ensure()


@pytest.fixture(scope="session")
def live_control_plane(live_kube_binaries: KubeBinaries) -> Iterator[KubeRig]:
    """A cluster without a Node."""
    from tests.rigs.kube import KubeRig

    with KubeRig(live_kube_binaries, kubelets=(REAL,), audited=True) as rig:
        yield rig


@pytest.fixture(scope="session")
def live_nodes(live_control_plane: KubeRig) -> Iterator[SimulatedNodes]:
    """A simulated, Ready Node for each schedulable node of the Slurm rigs."""
    from tests.rigs.node_sim import SimulatedNodes

    with SimulatedNodes(live_control_plane, _shapes()) as nodes:
        yield nodes


@pytest.fixture(scope="session")
def live_kube(live_control_plane: KubeRig, live_nodes: SimulatedNodes) -> KubeRig:
    """The cluster with its Nodes."""
    return live_control_plane


@pytest.fixture(scope="session")
def live_real_node(live_kube: KubeRig) -> Iterator[RealNode]:
    """The Node of the cluster whose containers are real."""
    from tests.rigs.node_real import RealNode

    with RealNode(live_kube, REAL) as node:
        yield node


@pytest.fixture(scope="session")
def live_pod_groups(live_kube_binaries: KubeBinaries) -> Iterator[KubeRig]:
    """A cluster of its own, without a Node, that has Kubernetes' PodGroups."""
    from tests.rigs.kube import KubeRig

    with KubeRig(live_kube_binaries, pod_groups=True) as rig:
        yield rig


@pytest.fixture(scope="session")
def live_pod_group_nodes(live_kube_binaries: KubeBinaries) -> Iterator[KubeRig]:
    """Another one, with the Nodes of the Slurm rigs."""
    from tests.rigs.kube import KubeRig
    from tests.rigs.node_sim import SimulatedNodes

    with (
        KubeRig(live_kube_binaries, audited=True, pod_groups=True) as rig,
        SimulatedNodes(rig, _shapes()),
    ):
        yield rig


@pytest.fixture(scope="session")
def live_group_controllers(live_pod_groups: KubeRig) -> Iterator[KubeRig]:
    """That cluster with the controllers of groups of pods."""
    from tests.rigs import group_build
    from tests.rigs.group_controllers import GroupControllers

    built = map(group_build.ensure, group_build.SOURCES)
    with GroupControllers(live_pod_groups, *built):
        yield live_pod_groups


@pytest.fixture(scope="session")
def prometheus_binaries() -> PrometheusBinaries:
    """The real Prometheus and promtool."""
    from tests.rigs.prometheus import ensure

    return ensure()


@pytest.fixture(scope="session")
def live_clock() -> Path:
    """The library that gives a process a clock of its own."""
    from tests.rigs.faketime import ensure

    return ensure()


@pytest.fixture(scope="session")
def live_image(live_real_node: RealNode) -> str:
    """The name of the scheduler's image on the real Node, built from its Dockerfile."""
    from tests.rigs import image

    live_real_node.load(image.ensure())
    return image.NAME


@pytest.fixture(scope="session")
def live_helm(live_kube: KubeRig, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """helm, acting on the cluster as its administrator."""
    from tests.rigs.helm import Helm, helm_program

    home = tmp_path_factory.mktemp("helm")
    return Helm(helm_program(), home=home, kubeconfig=live_kube.kubeconfig)


def _shapes() -> list[NodeShape]:
    from tests.rigs.simulator.nodes import NodeShape

    devices = {"nvidia.com/gpu": slurm_conf.GPUS_PER_NODE}
    return [NodeShape(name=name, devices=devices) for name in SIMULATED]
