"""Chooses the clusters on which the stories of a module run."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.support.cluster import Cluster

_FIXTURES: Final = {
    "sandbox-26.05": "sandbox_26",
    "sandbox-24.11": "sandbox_24",
    "sandbox-24.11-wide": "sandbox_24_wide",
    "live-26.05": "live_26",
    "live-24.11": "live_24",
    "live-26.05-pod-groups": "live_26_pod_groups",
}
LIVE: Final = ("live-26.05", "live-24.11")


def told_on(*names: str) -> Any:
    """The fixture `cluster` of a module: each of these clusters in turn. Each is started once for
    the session. With `--cluster`, the fixture is the cluster described there instead.
    """
    params = [
        pytest.param(
            _FIXTURES[name], id=name, marks=[pytest.mark.live] if name.startswith("live") else []
        )
        for name in names
    ]

    @pytest.fixture(params=params)
    def cluster(request: pytest.FixtureRequest) -> Cluster:
        outside = request.config.getoption("--cluster") is not None
        found: Cluster = request.getfixturevalue("outside_cluster" if outside else request.param)
        return found

    return cluster
