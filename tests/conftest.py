"""The clusters, at hand for every test that asks for them by name."""

from __future__ import annotations

import asyncio

import pytest

pytest_plugins = [
    "tests.rigs.fixtures",
    "tests.rigs.slurm_fixtures",
    "tests.support.cluster_fixtures",
]


@pytest.fixture(scope="session", autouse=True)
def no_implicit_event_loop() -> None:
    """Below 3.14 asking for the loop makes one, and looptime asks before each sync test: a loop
    that nobody closes would fail some later test.
    """
    asyncio.set_event_loop(None)
