"""The model behind its slurmrestd, for both releases."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from scheduler.sandbox.slurm import Release, SlurmServer
from tests.unit.sandbox_slurm.harness import Lab, Wire, config


@pytest.fixture
def lab() -> Lab:
    """A controller of 26.05."""
    return Lab()


@pytest.fixture
def old_lab() -> Lab:
    """A controller of 24.11."""
    return Lab(config(Release.V24_11))


@pytest.fixture
async def wire(lab: Lab) -> AsyncIterator[Wire]:
    """slurmrestd 26.05 in front of `lab`."""
    async with _serving(lab) as client:
        yield client


@pytest.fixture
async def old_wire(old_lab: Lab) -> AsyncIterator[Wire]:
    """slurmrestd 24.11 in front of `old_lab`."""
    async with _serving(old_lab) as client:
        yield client.of(version="v0.0.42")


@asynccontextmanager
async def _serving(lab: Lab) -> AsyncIterator[Wire]:
    """The clock of a lab stands still, and tokens are dated by the real one."""
    lab.clock.now = time.time()
    server = SlurmServer(lab.model)
    port = await server.start(port=0)
    lab.model.detach()
    try:
        yield Wire(port, lab.model.key)
    finally:
        await server.stop()
