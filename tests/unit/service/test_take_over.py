"""A process begins to lead: each pod that is there gets a pass."""

from __future__ import annotations

import asyncio

import pytest

from tests.support import loop_turns

pytestmark = pytest.mark.looptime
PODS = 10_000


async def test_other_work_goes_on_while_very_many_pods_are_taken_over(kube, service):
    for number in range(PODS):
        kube.create(f"uid-{number:05}", name=f"pod-{number:05}")
    await asyncio.sleep(1)
    async with loop_turns.beside() as turns:
        await service.parts.take_over()
    assert turns.count > 2
    assert len(service.memory.queue) == PODS
