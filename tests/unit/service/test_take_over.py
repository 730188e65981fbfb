"""A process begins to lead: each pod that is there gets a pass."""

from __future__ import annotations

import asyncio

import pytest

from annotations import PREFIX
from tests.support import loop_turns
from tests.support.costs import calls

pytestmark = pytest.mark.looptime
PODS = 10_000
GANGS = 4
# Calls of functions for each pod that is taken over.
CALLS_FOR_EACH = 40


async def test_other_work_goes_on_while_very_many_pods_are_taken_over(kube, service):
    for number in range(PODS):
        kube.create(f"uid-{number:05}", name=f"pod-{number:05}")
    await asyncio.sleep(1)
    async with loop_turns.beside() as turns:
        await service.parts.take_over()
    assert turns.count > 2
    assert len(service.memory.queue) == PODS


@pytest.mark.parametrize("size", [32, 256])
async def test_take_over_of_a_pod_costs_the_same_in_gangs_of_any_size(kube, service, size):
    """Each pod of a gang went through all others: 10 000 pods of five gangs took 18 s, and nothing
    was served before that.
    """
    for gang in range(GANGS):
        said = {f"{PREFIX}gang": f"g{gang}", f"{PREFIX}gang-size": str(size)}
        for rank in range(size):
            kube.create(f"uid-{gang}-{rank}", name=f"g{gang}-{rank}", annotations=said)
    await asyncio.sleep(1)
    for pod in kube.store:
        service.memory.gangs.came(pod)
    with calls() as made:
        await service.parts.take_over()
    assert len(service.memory.queue) == GANGS
    assert made[0] < CALLS_FOR_EACH * GANGS * size
