"""On which clusters the stories of a module are told."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.support.cluster import Cluster

_FIXTURES: Final = {
    "sandbox-26.05": "sandbox_26",
    "sandbox-24.11": "sandbox_24",
    "live-26.05": "live_26",
    "live-24.11": "live_24",
}
LIVE: Final = ("live-26.05", "live-24.11")


def told_on(*names: str) -> Any:
    """The fixture `cluster` of a module: each of these in turn, each started once for the session.
    Or the one that `--cluster` tells of.
    """
    params = [
        pytest.param(_FIXTURES[name], id=name, marks=[pytest.mark.live] if name in LIVE else [])
        for name in names
    ]

    @pytest.fixture(params=params)
    def cluster(request: pytest.FixtureRequest) -> Cluster:
        outside = request.config.getoption("--cluster") is not None
        found: Cluster = request.getfixturevalue("outside_cluster" if outside else request.param)
        return found

    return cluster
