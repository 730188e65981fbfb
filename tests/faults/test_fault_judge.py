"""The judge of the fault matrix finds each evil deed when it is done by hand, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from scheduler.sandbox.kube.deletion import DeleteOptions
from scheduler.sandbox.kube.pods import bind
from scheduler.sandbox.kube.resources import PODS
from tests.crash.virtual_loop import VirtualLoop
from tests.faults.playground import NAMESPACE, Playground, playground

Deed = Callable[[Playground, str], Coroutine[Any, Any, None]]


async def nothing(ground: Playground, name: str) -> None:
    """As it should be."""


async def cancel(ground: Playground, name: str) -> None:
    """The job of a pod that runs."""
    for job in ground.jobs(ground.pod(name) or {}):
        ground.slurm.cancel(job.id, user="root")


async def delete(ground: Playground, name: str) -> None:
    """A pod that nobody wants to go."""
    ground.kube.delete(PODS, NAMESPACE, name, DeleteOptions())


async def place(ground: Playground, name: str) -> None:
    """A pod on a Node that no job holds for it."""
    other = ground.create(scheduler="another")
    bind(ground.kube, NAMESPACE, other, {"target": {"name": ground.sandbox.nodes[0]}})


async def run_twice(ground: Playground, name: str) -> None:
    """A second job for the same pod."""
    (job,) = ground.jobs(ground.pod(name) or {})
    fields = {**job.asked.described, "name": "another", "dependency": ""}
    ground.slurm.submit(fields, None, user="root")
    await asyncio.sleep(5)


async def end_foreign(ground: Playground, name: str) -> None:
    """A job that is none of ours."""
    (job,) = (it for it in ground.slurm.jobs() if it.name == "native")
    ground.slurm.cancel(job.id, user="root")


async def _judged(deed: Deed, folder: Path) -> list[str]:
    async with playground(folder) as ground:
        ground.start()
        name = ground.create()
        await ground.until("it runs", lambda: ground.running(name), seconds=30)
        await ground.kill()
        await deed(ground, name)
        ground.judge.look()
        return ground.judge.wrong


@pytest.mark.parametrize(
    ("deed", "told"),
    [
        (nothing, ""),
        (cancel, "which is not held for it"),
        (delete, "was ended without a reason"),
        (place, "bound to a node that its job does not hold"),
        (run_twice, "two jobs run"),
        (end_foreign, "of somebody else"),
    ],
)
def test_evil_deeds_are_found(deed: Deed, told: str, tmp_path: Path) -> None:
    loop = VirtualLoop()
    try:
        wrong = loop.run_until_complete(_judged(deed, tmp_path))
    finally:
        loop.close()
    assert [told in it for it in wrong[:1]] == ([True] if told else [])
