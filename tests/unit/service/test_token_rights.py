"""Whether the token's user has the right is settled at the start, by a job that cannot be made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest
import structlog

from scheduler.observe.metrics import Metrics
from scheduler.slurm.token_rights import TokenRights
from slurmapi import (
    SlurmBusy,
    SlurmClient,
    SlurmDenied,
    SlurmInvalid,
    SlurmUnreachable,
)
from tests.unit.service.tiny_service import OWNER, Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime

_DENIED = SlurmDenied("Access/permission denied", error_number=2002, status=500)
_NO_PARTITION = SlurmInvalid("Invalid partition name specified", error_number=2000, status=500)


@asynccontextmanager
async def _asking(slurm: TinySlurm, metrics: Metrics) -> AsyncIterator[TokenRights]:
    rights = TokenRights(
        cast("SlurmClient", slurm), owner=OWNER, namespace="ns", name="file /t", metrics=metrics
    )
    task = asyncio.create_task(rights.run())
    try:
        yield rights
    finally:
        assert not task.done()
        task.cancel()


def _shown(metrics: Metrics) -> float | None:
    labels = {"server": "slurm", "cause": "not_an_administrator"}
    return metrics.registry.get_sample_value("slurm_pod_scheduler_trouble", labels)


async def test_right_that_is_there_is_asked_for_once(slurm: TinySlurm) -> None:
    slurm.fail["submit"].append(_NO_PARTITION)
    async with _asking(slurm, Metrics()) as rights:
        await asyncio.sleep(3600)
        assert rights.missing == ""
    assert slurm.calls["submit"] == 1


async def test_right_that_is_missing_is_told_each_minute_until_it_is_there(
    slurm: TinySlurm,
) -> None:
    slurm.fail["submit"].extend([_DENIED, _DENIED, _DENIED, _NO_PARTITION])
    metrics = Metrics()
    with structlog.testing.capture_logs() as lines:
        async with _asking(slurm, metrics) as rights:
            await asyncio.sleep(150)
            assert "the user of the token of file /t may not write AdminComment" in rights.missing
            assert _shown(metrics) == 1
            await asyncio.sleep(3600)
            assert rights.missing == ""
    assert _shown(metrics) == 0
    events = [line["event"] for line in lines]
    assert events.count("the token's user is no administrator of Slurm") == 3
    assert events[-1] == "the token's user is an administrator of Slurm now"


async def test_slurm_that_is_away_settles_nothing(slurm: TinySlurm) -> None:
    slurm.fail["submit"].extend([SlurmUnreachable("refused")] * 10 + [_NO_PARTITION])
    async with _asking(slurm, Metrics()) as rights:
        await asyncio.sleep(3600)
        assert rights.missing == ""
    assert slurm.calls["submit"] == 11


async def test_job_that_a_plugin_has_made_nevertheless_is_cancelled(slurm: TinySlurm) -> None:
    async with _asking(slurm, Metrics()):
        await asyncio.sleep(60)
    assert slurm.calls["submit"] == 1
    assert [slurm.live(job_id) for job_id in slurm.jobs] == [False]


async def test_job_whose_cancel_fails_never_starts_and_ends_with_the_next_census(
    service: Service, slurm: TinySlurm
) -> None:
    service.start()
    await asyncio.sleep(5)
    slurm.fail["cancel"].append(SlurmBusy("later", status=429))
    with structlog.testing.capture_logs() as lines:
        async with _asking(slurm, Metrics()):
            await asyncio.sleep(1)
            assert slurm.live(1)
            assert slurm.submissions[1].held
            await asyncio.sleep(400)
    assert "trial job is left to the next census" in [line["event"] for line in lines]
    assert slurm.calls["submit"] == 1
    assert not slurm.live(1)


async def test_job_whose_answer_was_lost_ends_with_the_next_census(
    service: Service, slurm: TinySlurm
) -> None:
    service.start()
    await asyncio.sleep(5)
    slurm.lose_next_submit = True
    async with _asking(slurm, Metrics()):
        await asyncio.sleep(400)
    assert [slurm.live(job_id) for job_id in slurm.jobs] == [False, False]
