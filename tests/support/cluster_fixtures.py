"""Whole clusters as pytest fixtures, each started once for the session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.cluster import Cluster

if TYPE_CHECKING:
    from tests.rigs.kube import KubeRig
    from tests.rigs.node_real import RealNode
    from tests.rigs.slurm import SlurmRig


@pytest.fixture(scope="session")
def outside_cluster(request: pytest.FixtureRequest) -> Cluster:
    """The cluster that the option `--cluster` describes."""
    from tests.support.outside import read

    return read(request.config.getoption("--cluster"))


@pytest.fixture(scope="session")
def sandbox_26() -> Iterator[Cluster]:
    """The model with Slurm 26.05 and 200 nodes."""
    from tests.support.sandbox import SandboxCluster

    with SandboxCluster("26.05") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def sandbox_24() -> Iterator[Cluster]:
    """The model with Slurm 24.11 and two nodes."""
    from tests.support.sandbox import SandboxCluster

    with SandboxCluster("24.11") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def sandbox_24_wide() -> Iterator[Cluster]:
    """The model with Slurm 24.11 and ten nodes, more than the real rig has."""
    from tests.support.sandbox import SandboxCluster

    with SandboxCluster("24.11", nodes=10) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def sandbox_accounted_26() -> Iterator[Cluster]:
    """The model with Slurm 26.05, accounts and limits, and four nodes."""
    from tests.support.sandbox import SandboxCluster

    with SandboxCluster("26.05", nodes=4, accounting=True) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def sandbox_accounted_24() -> Iterator[Cluster]:
    """The model with Slurm 24.11, accounts and limits, and two nodes."""
    from tests.support.sandbox import SandboxCluster

    with SandboxCluster("24.11", accounting=True) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def live_26(live_kube: KubeRig, live_slurm_26: SlurmRig) -> Cluster:
    """Real servers, Slurm 26.05 and 200 simulated Nodes."""
    from tests.support.live import LiveCluster

    return LiveCluster(live_kube, live_slurm_26)


@pytest.fixture(scope="session")
def live_26_pod_groups(live_pod_group_nodes: KubeRig, live_slurm_26: SlurmRig) -> Cluster:
    """As live_26, with another API server, which has Kubernetes' own PodGroups."""
    from tests.support.live import LiveCluster

    return LiveCluster(live_pod_group_nodes, live_slurm_26)


@pytest.fixture(scope="session")
def live_24(live_kube: KubeRig, live_slurm_24: SlurmRig) -> Cluster:
    """Real servers, Slurm 24.11 and two simulated Nodes."""
    from tests.support.live import LiveCluster

    return LiveCluster(live_kube, live_slurm_24)


@pytest.fixture(scope="session")
def live_26_real(live_kube: KubeRig, live_slurm_26: SlurmRig, live_real_node: RealNode) -> Cluster:
    """As live_26, with one more Node that runs real containers."""
    from tests.support.live import LiveCluster

    return LiveCluster(live_kube, live_slurm_26, real_node=live_real_node.name)


@pytest.fixture(scope="session")
def live_accounted_26(live_kube: KubeRig, live_accounted_slurm_26: SlurmRig) -> Cluster:
    """Real servers, Slurm 26.05 with accounts and limits, and four simulated Nodes."""
    from tests.support.live import LiveCluster

    return LiveCluster(live_kube, live_accounted_slurm_26)


@pytest.fixture(scope="session")
def live_accounted_24(live_kube: KubeRig, live_accounted_slurm_24: SlurmRig) -> Cluster:
    """Real servers, Slurm 24.11 with accounts and limits, and two simulated Nodes."""
    from tests.support.live import LiveCluster

    return LiveCluster(live_kube, live_accounted_slurm_24)
