from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest

from scheduler.execute.cancel_batches import Canceller
from scheduler.slurm.ownership import soon
from slurmapi import BaseState, SlurmBusy, SlurmClient, SlurmUnreachable
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime


@pytest.fixture
async def canceller(slurm: TinySlurm) -> AsyncIterator[Canceller]:
    canceller = Canceller(cast("SlurmClient", slurm))
    task = asyncio.create_task(canceller.run())
    yield canceller
    task.cancel()


async def end(canceller: Canceller, job_id: int) -> None:
    """By an owner tag that was read just now."""
    await canceller.cancel(job_id, send_by=soon())


async def test_what_is_asked_for_together_goes_in_one_request(slurm, canceller):
    ids = [slurm.add() for _ in range(500)]
    await asyncio.gather(*(end(canceller, it) for it in ids))
    assert slurm.calls["cancel"] == 1
    assert all(job.state.base is BaseState.CANCELLED for job in slurm.jobs.values())


async def test_job_asked_for_twice_is_sent_once(slurm, canceller):
    job_id = slurm.add()
    await asyncio.gather(end(canceller, job_id), end(canceller, job_id))
    assert [ids for operation, ids in slurm.asked if operation == "cancel"] == [(job_id,)]


async def test_what_comes_while_a_batch_is_sent_goes_in_the_next(slurm, canceller):
    first, second = slurm.add(), slurm.add()
    async with asyncio.TaskGroup() as group:
        group.create_task(end(canceller, first))
        await asyncio.sleep(0.021)  # sent, and not answered
        group.create_task(end(canceller, second))
    sent = [ids for operation, ids in slurm.asked if operation == "cancel"]
    assert sent == [(first,), (second,)]


async def test_each_who_asked_gets_the_error_and_may_ask_again(slurm, canceller):
    ids = [slurm.add(), slurm.add()]
    slurm.fail["cancel"].append(SlurmBusy("later", status=429))
    results = await asyncio.gather(*(end(canceller, it) for it in ids), return_exceptions=True)
    assert [type(result) for result in results] == [SlurmBusy, SlurmBusy]
    await asyncio.gather(*(end(canceller, it) for it in ids))
    assert not any(map(slurm.live, ids))


async def test_one_who_gave_up_does_not_take_the_others_along(slurm, canceller):
    ids = [slurm.add(), slurm.add()]
    impatient = asyncio.create_task(end(canceller, ids[0]))
    patient = asyncio.create_task(end(canceller, ids[1]))
    await asyncio.sleep(0.001)
    impatient.cancel()
    await patient
    assert not any(map(slurm.live, ids))


async def test_batch_that_hangs_keeps_back_no_other(slurm, canceller):
    hangs, other = slurm.add(), slurm.add()
    slurm.seconds["cancel"] = 30.0
    hanging = asyncio.create_task(end(canceller, hangs))
    await asyncio.sleep(1)
    slurm.seconds["cancel"] = 0.002
    async with asyncio.timeout(0.1):
        await end(canceller, other)
    assert slurm.live(hangs)
    await hanging


async def test_cancel_that_waited_for_others_is_not_sent_by_an_old_look_at_its_job(
    slurm, canceller
):
    """Whoever asks has read the owner tag; a slurmctld that lost its state may have come since."""
    slurm.seconds["cancel"] = 30.0
    hanging = []
    for _ in range(4):
        hanging.append(asyncio.create_task(end(canceller, slurm.add())))
        await asyncio.sleep(0.1)
    late = slurm.add()
    with pytest.raises(SlurmUnreachable):
        await end(canceller, late)
    assert slurm.live(late)
    await end(canceller, late)
    assert not slurm.live(late)
    await asyncio.gather(*hanging)
