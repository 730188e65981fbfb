"""The real Slurm clusters as pytest fixtures, each started once for the session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.rigs import slurm_conf
from tests.rigs.slurm import SlurmRig
from tests.rigs.slurm_build import ensure


@pytest.fixture(scope="session")
def live_slurm_26() -> Iterator[SlurmRig]:
    """Slurm 26.05: 200 nodes without slurmd, one for a real kubelet, three with slurmd."""
    with SlurmRig(ensure("26.05"), audited=True) as rig:
        yield rig


@pytest.fixture(scope="session")
def live_slurm_24() -> Iterator[SlurmRig]:
    """Slurm 24.11: two nodes with slurmd."""
    with SlurmRig(ensure("24.11"), audited=True) as rig:
        yield rig


@pytest.fixture(scope="session")
def live_accounted_slurm_26() -> Iterator[SlurmRig]:
    """Slurm 26.05 with slurmdbd and enforced limits: four nodes without slurmd, one with."""
    with SlurmRig(ensure("26.05"), shape=slurm_conf.ACCOUNTED["26.05"], audited=True) as rig:
        yield rig


@pytest.fixture(scope="session")
def live_accounted_slurm_24() -> Iterator[SlurmRig]:
    """Slurm 24.11 with slurmdbd and enforced limits: two nodes with slurmd."""
    with SlurmRig(ensure("24.11"), shape=slurm_conf.ACCOUNTED["24.11"], audited=True) as rig:
        yield rig
