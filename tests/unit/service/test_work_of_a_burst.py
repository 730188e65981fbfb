"""What a burst of pods costs this process, counted in calls of Python functions: that number does
not depend on the machine or on its load.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

import pytest
import structlog

from tests.support.costs import calls
from tests.unit.service.bursts import burst
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime
# Python 3.11 makes 1570 to 1580, by the order in which random pauses end; newer ones make fewer.
# The doubles of the two servers, asyncio and the log are counted, too; the requests of the two
# clients are not (slurmapi/test_slurm_http1_cost.py).
CALLS_PER_POD: Final = 1630


@pytest.fixture
def _log_of_a_process() -> Iterator[None]:
    """A process logs no debug lines by default."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))
    yield
    structlog.configure(**before)


async def calls_of_burst(count: int) -> int:
    """Calls of a process until so many pods are bound, which come at once."""
    slurm, kube = TinySlurm(), TinyKube()
    service = Service(slurm, kube)
    with calls() as made:
        await burst(service, slurm, kube, count=count, after=0.1)
    service.unharmed()
    await service.kill()
    return made[0]


@pytest.mark.usefixtures("_log_of_a_process")
async def test_pod_of_a_burst_costs_a_bounded_number_of_calls() -> None:
    few, many = await calls_of_burst(20), await calls_of_burst(40)
    assert (many - few) / 20 < CALLS_PER_POD
