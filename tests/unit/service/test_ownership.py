"""A tag that is not this very pod's, and ours, lets nothing be done to its job (I8, I14)."""

from __future__ import annotations

from typing import cast

import pytest

from scheduler.core.actions import Readmit
from scheduler.core.owner_tag import Owner
from scheduler.execute.avoid import Avoidance
from scheduler.observe.metrics import Metrics
from scheduler.slurm.given_back import mark_given_back
from scheduler.slurm.ownership import own_job
from scheduler.state.units import Unit
from slurmapi import BaseState, JobState, SlurmClient, SlurmDenied, SlurmRefused
from tests.unit.core.things import KEY, OURS
from tests.unit.core.things import tag as tag_of
from tests.unit.service.tiny_slurm import TinySlurm

RUNNING = JobState(BaseState.RUNNING)
UNIT = Unit(KEY, "ns", "train", seen_at=0.0)
OTHERS = {
    "a native one": "",
    "another pod's": tag_of(uids=("another-uid",)),
    "another cluster's": tag_of(owner=Owner("another", OURS.scheduler)),
    "another scheduler's": tag_of(owner=Owner(OURS.cluster, "another")),
}


def client(slurm: TinySlurm) -> SlurmClient:
    return cast("SlurmClient", slurm)


async def mark(slurm: TinySlurm, job_id: int) -> bool:
    return await mark_given_back(client(slurm), job_id, unit=UNIT, owner=OURS) is not None


@pytest.mark.parametrize("comment", OTHERS.values(), ids=OTHERS)
async def test_job_of_others_is_neither_ours_nor_marked_nor_readmitted(slurm, comment):
    job_id = slurm.add(admin_comment=comment, state=RUNNING)
    before = slurm.jobs[job_id]
    assert await own_job(client(slurm), job_id, unit=UNIT, owner=OURS) is None
    assert not await mark(slurm, job_id)
    avoidance = Avoidance(
        client(slurm),
        owner=OURS,
        warn=lambda _unit, _reason, _message: None,
        metrics=Metrics(),
        clock=lambda: 0.0,
    )
    await avoidance.readmit(UNIT, Readmit(job_id, ("n2",)))
    assert slurm.jobs[job_id] == before
    assert slurm.calls["update"] == 0


async def test_own_job_is_marked_once_and_then_to_be_cancelled(slurm):
    job_id = slurm.add(admin_comment=tag_of(), state=RUNNING)
    assert await mark(slurm, job_id)
    assert slurm.jobs[job_id].admin_comment == tag_of(given_back=True)
    assert await mark(slurm, job_id)
    assert slurm.calls["update"] == 1


async def test_own_job_that_has_ended_is_not_to_be_cancelled(slurm):
    job_id = slurm.add(admin_comment=tag_of(), state=JobState(BaseState.TIMEOUT))
    assert not await mark(slurm, job_id)
    assert slurm.calls["update"] == 0


async def test_job_whose_mark_is_refused_is_cancelled_all_the_same(slurm):
    """By a job_submit plugin, for instance; a token that is no good says nothing of the job."""
    job_id = slurm.add(admin_comment=tag_of(), state=RUNNING)
    slurm.fail["update"] += [SlurmRefused("no changes", error_number=-1, status=500)]
    assert await mark(slurm, job_id)
    slurm.fail["update"] += [SlurmDenied("Access denied", error_number=2002, status=500)]
    with pytest.raises(SlurmDenied):
        await mark(slurm, job_id)
