"""A small cluster in memory, and settings of its own for the log."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import TinySlurm


@pytest.fixture
def slurm() -> TinySlurm:
    return TinySlurm()


@pytest.fixture
async def service(slurm: TinySlurm, kube: TinyKube) -> AsyncIterator[Service]:
    """All parts of one process; its end checks that none has ended before."""
    service = Service(slurm, kube)
    yield service
    service.unharmed()
    await service.kill()


@pytest.fixture
async def kube() -> TinyKube:
    return TinyKube()
