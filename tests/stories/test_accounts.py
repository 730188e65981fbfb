"""Pods on a Slurm that knows accounts and QoS, and enforces their limits.

Each story makes an account and a QoS of its own, by the name of its namespace.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import pytest

from scheduler.core.pending_reasons import why
from tests.support.cluster import Cluster
from tests.support.kube import Object
from tests.support.world import World

pytestmark = [pytest.mark.live_on("26.05"), pytest.mark.xdist_group("accounts")]

_CPUS: Final = 2


@pytest.fixture(
    params=[
        pytest.param("sandbox_accounted_26", id="sandbox-26.05"),
        pytest.param("sandbox_accounted_24", id="sandbox-24.11"),
        pytest.param("live_accounted_26", id="live-26.05", marks=pytest.mark.live),
        pytest.param("live_accounted_24", id="live-24.11", marks=pytest.mark.live),
    ]
)
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """A cluster of each Slurm release that knows accounts."""
    found: Cluster = request.getfixturevalue(request.param)
    return found


@dataclass(frozen=True)
class Limit:
    """A limit. `lower` sets it so that only one pod of the story can run; `lift` removes it."""

    reason: str
    lower: Callable[[World], Awaitable[None]]
    lift: Callable[[World], Awaitable[None]]


LIMITS: Final = (
    Limit(
        "QOSMaxJobsPerUserLimit",
        lambda world: world.accounts.set_qos(world.namespace, max_jobs_per_user=1),
        lambda world: world.accounts.set_qos(world.namespace),
    ),
    Limit(
        "QOSGrpCpuLimit",
        lambda world: world.accounts.set_qos(world.namespace, group_cpus=_CPUS),
        lambda world: world.accounts.set_qos(world.namespace, group_cpus=2 * _CPUS),
    ),
    Limit(
        "AssocMaxJobsLimit",
        lambda world: world.accounts.set_account(world.namespace, max_jobs=1),
        lambda world: world.accounts.set_account(world.namespace, max_jobs=2),
    ),
    Limit(
        "AssocGrpCpuLimit",
        lambda world: world.accounts.set_account(world.namespace, group_cpus=_CPUS),
        lambda world: world.accounts.set_account(world.namespace),
    ),
)


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.reason)
async def test_pod_at_a_limit_is_told_so_and_runs_once_it_is_raised(
    world: World, limit: Limit
) -> None:
    mine = await _account_and_qos(world)
    await limit.lower(world)
    await world.create("first", slurm=mine)
    await world.running("first")
    await world.create(slurm=mine)

    message = await world.message_with(f"is pending: {limit.reason}")
    known = why(limit.reason)
    assert known is not None
    assert known.meaning in message
    assert known.remedy in message

    await limit.lift(world)
    await world.running()
    await world.running("first")


@pytest.mark.slow
async def test_unknown_account_is_told_and_its_making_is_noticed(world: World) -> None:
    await world.create(slurm={"account": world.namespace})
    event = await world.event("SlurmRejected")
    for word in ("nvalid account", "account", world.namespace, "sacctmgr show assoc"):
        assert word in event["message"], event

    await world.accounts.set_account(world.namespace)
    await world.submitted()  # sooner than the pause of 30 s would end
    job = await world.placeholder(await world.running())
    assert job.raw["account"] == world.namespace


@pytest.mark.slow
@pytest.mark.live_on("neither")
async def test_qos_that_is_not_allowed_is_told_and_its_permission_is_noticed(world: World) -> None:
    await world.accounts.set_account(world.namespace)
    await world.accounts.set_qos(world.namespace)
    await world.create(slurm={"account": world.namespace, "qos": world.namespace})
    event = await world.event("SlurmRejected")
    for word in ("nvalid qos", "qos", world.namespace, "sacctmgr show qos"):
        assert word in event["message"], event

    await world.accounts.allow(world.namespace, world.namespace)
    await world.submitted()  # sooner than the pause of 30 s would end
    job = await world.placeholder(await world.running())
    assert job.raw["qos"] == world.namespace


async def test_edited_account_and_qos_stand_on_the_job_which_keeps_its_place(
    world: World,
) -> None:
    await world.fill()
    await world.create(slurm={"account": "root"})
    await world.message_with("is pending: Resources")
    job = await world.placeholder(await world.waiting())
    mine = await _account_and_qos(world)

    await world.edit(**mine)
    await world.until("the pending job has both", lambda: _charged(world, job.job_id, mine))
    await world.edit(account=None, qos=None)
    first = {"account": "root", "qos": "normal"}
    await world.until("it has those of a new job", lambda: _charged(world, job.job_id, first))

    assert [it.job_id for it in await world.slurm.live_placeholders(world.namespace)] == [
        job.job_id
    ]


@pytest.mark.slow
@pytest.mark.live_on("neither")
async def test_edit_gets_no_qos_that_a_new_pod_would_be_refused(world: World) -> None:
    """Slurm lets an operator, such as the scheduler, put any QoS on a pending job (measured)."""
    await world.accounts.set_account(world.namespace)
    await world.accounts.set_qos(world.namespace)
    filler = await world.fill()
    await world.create(slurm={"account": world.namespace})
    await world.message_with("is pending: Resources")
    job = await world.placeholder(await world.waiting())

    await world.edit(qos=world.namespace)
    await world.message_with("nvalid qos", world.namespace)
    assert not [it for it in await _jobs(world) if it["qos"] == world.namespace]

    await world.accounts.allow(world.namespace, world.namespace)
    wanted = {"qos": world.namespace}
    await world.until(
        "a later try has it taken", lambda: _charged(world, job.job_id, wanted), seconds=60
    )
    await world.end_native(filler)
    assert (await world.placeholder(await world.running())).job_id == job.job_id


async def _charged(world: World, job_id: int, wanted: dict[str, str]) -> bool:
    record = await world.slurm.job(job_id)
    assert record is not None
    assert record.raw["job_state"] == ["PENDING"], "it is no longer the same job"
    return {key: record.raw[key] for key in wanted} == wanted


async def _account_and_qos(world: World) -> dict[str, str]:
    """Make an account and a QoS. Returns the annotations that name them."""
    await world.accounts.set_account(world.namespace)
    await world.accounts.set_qos(world.namespace)
    await world.accounts.allow(world.namespace, world.namespace)
    return {"account": world.namespace, "qos": world.namespace}


async def _jobs(world: World) -> list[Object]:
    return [it.raw for it in await world.slurm.placeholders(world.namespace)]
