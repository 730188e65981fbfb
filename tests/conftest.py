"""The clusters, at hand for every test that asks for them by name."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

# The first live test of a session has whole clusters started within its own time.
_LIVE_SECONDS: Final = 120.0

# How long an example takes says more of the machine than of the code.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

pytest_plugins = [
    "tests.rigs.fixtures",
    "tests.rigs.slurm_fixtures",
    "tests.support.cluster_fixtures",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give live tests the time they need, unless they say it themselves."""
    for item in items:
        if item.get_closest_marker("live") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(_LIVE_SECONDS))


@pytest.fixture(scope="session", autouse=True)
def no_implicit_event_loop() -> None:
    """Below 3.14 asking for the loop makes one, and looptime asks before each sync test: a loop
    that nobody closes would fail some later test.
    """
    asyncio.set_event_loop(None)
