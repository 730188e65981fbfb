"""Jobs that Slurm has started and that cannot be used yet: many of them cost Slurm no more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from slurmapi import BaseState
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime
COUNT = 40


@pytest.fixture
def in_way() -> set[str]:
    """Pods on whose Node another one still stops."""
    return set()


@pytest.fixture
async def service(slurm: TinySlurm, kube: TinyKube, in_way: set[str]) -> AsyncIterator[Service]:
    service = Service(slurm, kube, left_over=lambda uid, _nodes: int(uid in in_way))
    yield service
    service.unharmed()
    await service.kill()


async def start_all(service: Service, in_way: set[str], *flags: str) -> None:
    """Pods whose jobs Slurm has started, each in another's way."""
    for number in range(COUNT):
        service.kube.create(f"uid-{number}", name=f"train-{number}")
    service.start()
    await asyncio.sleep(10)
    in_way.update(service.kube.pods)
    for job_id in service.slurm.jobs:
        service.slurm.start(job_id, *flags, node="n1")
    await asyncio.sleep(5)


@pytest.mark.parametrize("flags", [("CONFIGURING",), ()], ids=["made ready", "one still stops"])
async def test_crowd_that_is_held_up_is_not_looked_at_one_by_one(
    slurm, kube, service, in_way, flags
):
    await start_all(service, in_way, *flags)
    slurm.calls.clear()
    await asyncio.sleep(60)
    assert slurm.calls["job"] <= COUNT
    assert kube.bindings == []
    in_way.clear()
    for job_id in slurm.jobs:
        slurm.change(job_id, BaseState.RUNNING)
    await asyncio.sleep(10)
    assert sorted(kube.bindings) == sorted((uid, "n1") for uid in kube.pods)


async def test_job_that_starts_elsewhere_after_a_requeue_is_not_held_up_there(
    slurm, kube, service, in_way
):
    await start_all(service, in_way)
    slurm.requeue(1)
    await asyncio.sleep(5)
    slurm.start(1, node="n2")
    slurm.calls.clear()
    await asyncio.sleep(5)
    assert slurm.asked.count(("job", (1,))) > 0
    in_way.clear()
    await asyncio.sleep(5)
    assert ("uid-0", "n2") in kube.bindings


@pytest.mark.parametrize("base", [BaseState.PREEMPTED, BaseState.NODE_FAIL, BaseState.CANCELLED])
async def test_end_of_a_job_that_is_held_up_is_seen(slurm, kube, service, in_way, base):
    await start_all(service, in_way)
    slurm.end(1, base)
    await asyncio.sleep(10)
    new = len(slurm.jobs) > COUNT
    assert new or kube.deleted == ["uid-0"]
    assert kube.bindings == []
