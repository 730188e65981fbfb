"""A setting that contradicts Slurm: Slurm's KillWait, if known, counts, and there is a warning."""

from __future__ import annotations

import pytest

from tests.support import pods
from tests.support.cluster import release
from tests.support.kube import Object
from tests.support.world import World

_OWN_POD = "scheduler-0"


@pytest.fixture
def scheduler_flags(monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """A KillWait setting of 120 s, while Slurm has 30 s, for a scheduler that knows its own pod."""
    monkeypatch.setenv("POD_NAME", _OWN_POD)
    monkeypatch.setenv("POD_NAMESPACE", "default")
    monkeypatch.setenv("POD_UID", "11111111-2222-3333-4444-555555555555")
    return ("--slurm-kill-wait=120s",)


async def test_slurms_own_kill_wait_counts_where_slurm_tells_it(world: World) -> None:
    if release(world.cluster) == "24.11":
        await world.create(grace=60)
        await world.bound()
        assert _mismatch(world) == 0
        return
    # If Slurm is slow at the start, it is asked again later, and no grace is judged until then.
    await world.until("Slurm has told its KillWait", lambda: _is_known(world))
    await world.create(grace=60)
    pod = await world.pod_that("is rejected", lambda it: _reason(it) == "SchedulingFailed")
    scheduled = pods.condition(pod, "PodScheduled")
    assert scheduled is not None
    assert "KillWait is 30s" in scheduled["message"]
    assert _mismatch(world) == 1
    (event,) = await world.until("it is told", lambda: _mismatches(world))
    assert event["type"] == "Warning"
    assert "Slurm's KillWait is 30 s, --slurm-kill-wait says 120 s" in event["message"]


def _mismatch(world: World) -> float:
    return world.scheduler.metric("slurm_pod_scheduler_kill_wait_mismatch", {})


async def _is_known(world: World) -> bool:
    told = {"source": "slurm"}
    return world.scheduler.metric("slurm_pod_scheduler_kill_wait_seconds", told) > 0


def _reason(pod: Object) -> str:
    scheduled = pods.condition(pod, "PodScheduled")
    return "" if scheduled is None else str(scheduled.get("reason", ""))


async def _mismatches(world: World) -> list[Object]:
    events = await world.kube.events_of(_OWN_POD, namespace="default")
    return [it for it in events if it["reason"] == "KillWaitMismatch"][:1]
