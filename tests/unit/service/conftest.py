"""A small cluster in memory, and settings of its own for the log."""

from __future__ import annotations

import pytest

from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_slurm import TinySlurm


@pytest.fixture
def slurm() -> TinySlurm:
    return TinySlurm()


@pytest.fixture
async def kube() -> TinyKube:
    return TinyKube()
