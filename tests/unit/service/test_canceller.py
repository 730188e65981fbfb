from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest

from scheduler.canceller import Canceller
from slurmapi import BaseState, SlurmBusy, SlurmClient
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime


@pytest.fixture
async def canceller(slurm: TinySlurm) -> AsyncIterator[Canceller]:
    canceller = Canceller(cast("SlurmClient", slurm))
    task = asyncio.create_task(canceller.run())
    yield canceller
    task.cancel()


async def test_what_is_asked_for_together_goes_in_one_request(slurm, canceller):
    ids = [slurm.add() for _ in range(500)]
    await asyncio.gather(*map(canceller.cancel, ids))
    assert slurm.calls["cancel"] == 1
    assert all(job.state.base is BaseState.CANCELLED for job in slurm.jobs.values())


async def test_job_asked_for_twice_is_sent_once(slurm, canceller):
    job_id = slurm.add()
    await asyncio.gather(canceller.cancel(job_id), canceller.cancel(job_id))
    assert [ids for operation, ids in slurm.asked if operation == "cancel"] == [(job_id,)]


async def test_what_comes_while_a_batch_is_sent_goes_in_the_next(slurm, canceller):
    first, second = slurm.add(), slurm.add()
    async with asyncio.TaskGroup() as group:
        group.create_task(canceller.cancel(first))
        await asyncio.sleep(0.021)  # sent, and not answered
        group.create_task(canceller.cancel(second))
    sent = [ids for operation, ids in slurm.asked if operation == "cancel"]
    assert sent == [(first,), (second,)]


async def test_each_who_asked_gets_the_error_and_may_ask_again(slurm, canceller):
    ids = [slurm.add(), slurm.add()]
    slurm.fail["cancel"].append(SlurmBusy("later"))
    results = await asyncio.gather(*map(canceller.cancel, ids), return_exceptions=True)
    assert [type(result) for result in results] == [SlurmBusy, SlurmBusy]
    await asyncio.gather(*map(canceller.cancel, ids))
    assert not any(map(slurm.live, ids))


async def test_one_who_gave_up_does_not_take_the_others_along(slurm, canceller):
    ids = [slurm.add(), slurm.add()]
    impatient = asyncio.create_task(canceller.cancel(ids[0]))
    patient = asyncio.create_task(canceller.cancel(ids[1]))
    await asyncio.sleep(0.001)
    impatient.cancel()
    await patient
    assert not any(map(slurm.live, ids))
