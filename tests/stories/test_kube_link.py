"""A start while the API server is away or refuses the credentials says so, also on /readyz."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import yaml

from tests.stories.clusters import told_on
from tests.support.ports import free_ports
from tests.support.world import World

cluster = told_on("sandbox-26.05", "live-26.05")

# As long as a start may take.
_SECONDS: Final = 60.0


@asynccontextmanager
async def _launched_with(world: World, kubeconfig: Path) -> AsyncIterator[None]:
    """Within the block the scheduler runs with that kubeconfig, and afterwards as before."""
    await asyncio.to_thread(world.scheduler.stop)
    world.scheduler.add_flags(f"--kubeconfig={kubeconfig}")
    world.scheduler.launch()
    try:
        yield
    finally:
        if world.scheduler.running:
            await asyncio.to_thread(world.scheduler.stop)
        world.scheduler.add_flags(f"--kubeconfig={world.cluster.kubeconfig}")
        await asyncio.to_thread(world.scheduler.start)


def _changed(world: World, folder: Path, *, server: str = "", token: str = "") -> Path:
    config = yaml.safe_load(world.cluster.kubeconfig.read_text(encoding="utf-8"))
    if server:
        config["clusters"][0]["cluster"]["server"] = server
    if token:
        config["users"][0]["user"] = {"token": token}
    path = folder / "other-kubeconfig"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


async def test_start_without_an_api_server_says_so_and_goes_on_waiting(
    world: World, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    server = f"https://127.0.0.1:{port}"
    # Before and after, the API server may be late on a crowded machine, and the log says that too.
    before = len(_log(world))
    async with _launched_with(world, _changed(world, tmp_path, server=server)):

        async def said() -> bool:
            role = await asyncio.to_thread(lambda: world.scheduler.role)
            return f"nothing listens at {server}" in role

        await world.until("/readyz says it", said)
        labels = {"server": "kubernetes", "cause": "refused"}
        assert world.scheduler.metric("slurm_pod_scheduler_trouble", labels) == 1
        log = _log(world)[before:]
    assert log.count('"event": "the kubernetes API server does not answer"') == 1


async def test_start_with_refused_credentials_ends_and_says_so(
    world: World, tmp_path: Path
) -> None:
    token = f"planted-{time.time_ns()}"
    async with _launched_with(
        world, _changed(world, tmp_path, server=world.cluster.kube_url, token=token)
    ):
        status = await asyncio.to_thread(lambda: world.scheduler.ended(seconds=_SECONDS))
    log = _log(world)
    assert status == 1
    assert "refuses the credentials of the kubeconfig" in log
    assert token not in log


async def test_line_of_a_ready_process_says_as_what_it_serves(world: World) -> None:
    async def line() -> str:
        lines = _log(world).splitlines()
        return next((it for it in lines if '"event": "ready"' in it), "")

    said = await world.until("it is said", line)
    for key in ("version", "kubernetes_cluster", "slurm_cluster", "placeholder_mode", "scope"):
        assert f'"{key}": ' in said
    assert re.search(r'"nodes_mapped": "[1-9]\d* of [1-9]\d*"', said)
    assert '"role": "leads' in said


def _log(world: World) -> str:
    return world.scheduler.log.read_text(encoding="utf-8")
