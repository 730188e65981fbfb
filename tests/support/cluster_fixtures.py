"""Whole clusters as pytest fixtures, each started once for the session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.cluster import Cluster
from tests.support.sandbox import SandboxCluster


@pytest.fixture(scope="session")
def sandbox_26() -> Iterator[Cluster]:
    """The model with Slurm 26.05 and 200 nodes."""
    with SandboxCluster("26.05") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def sandbox_24() -> Iterator[Cluster]:
    """The model with Slurm 24.11 and two nodes."""
    with SandboxCluster("24.11") as cluster:
        yield cluster
