"""A real API server and the real helm; no Slurm."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

from tests.support.kube import Kube, namespace_for

if TYPE_CHECKING:
    from tests.rigs.kube import KubeRig


@pytest.fixture
async def kube(live_kube: KubeRig) -> AsyncIterator[Kube]:
    """The API server, as its administrator sees it."""
    async with Kube(live_kube.url, token=live_kube.token, ca=live_kube.ca) as client:
        yield client


@pytest.fixture
async def home(kube: Kube) -> AsyncIterator[str]:
    """A namespace to install into."""
    async with namespace_for(kube, "chart") as name:
        yield name


@pytest.fixture
async def served(kube: Kube) -> AsyncIterator[str]:
    """A namespace whose pods are served."""
    async with namespace_for(kube, "served") as name:
        yield name
