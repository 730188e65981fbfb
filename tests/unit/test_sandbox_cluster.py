"""The embedded cluster as a whole."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest

from scheduler.sandbox.cluster import Sandbox, SandboxShape
from tests.support import pods
from tests.support.kube import Kube, KubeAnswerError


async def test_folder_too_deep_for_a_socket_gets_one_elsewhere(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    async with Sandbox(SandboxShape(nodes=1, quirks=False), folder=folder) as sandbox:
        socket = sandbox.slurm_socket
        connector = aiohttp.UnixConnector(str(socket))
        async with aiohttp.ClientSession(connector=connector) as session:
            answer = await session.get("http://localhost/openapi/v3")
            assert answer.status == 401
    assert not socket.exists()


async def test_log_of_a_played_container_says_that_there_is_none() -> None:
    async with (
        Sandbox(SandboxShape(nodes=1)) as sandbox,
        Kube(sandbox.kube_url, token=sandbox.kube_token) as kube,
    ):
        await kube.create("pods", pods.pod("played"), namespace="default")
        assert "only played" in await kube.log("played", namespace="default")
        with pytest.raises(KubeAnswerError, match="not found"):
            await kube.log("absent", namespace="default")
