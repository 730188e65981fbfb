"""Pods of one template share the request that was read of the first, and no other pods do."""

from __future__ import annotations

import asyncio

import pytest

from annotations import JobRequest, Problem
from scheduler.kube.wire import Container, PodSpec, ResourceRequirements
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime

ACCOUNT = "sunk.coreweave.com/account"


def spec(cpu: str = "1", *, grace: int = 20, seconds: int | None = None) -> PodSpec:
    requests: dict[str, str | int | float] = {"cpu": cpu, "memory": "1Gi"}
    container = Container(name="c", resources=ResourceRequirements(requests=requests))
    return PodSpec(
        containers=(container,),
        termination_grace_period_seconds=grace,
        active_deadline_seconds=seconds,
    )


async def read(service: Service, uid: str) -> JobRequest | tuple[Problem, ...]:
    unit = service.newcomers.unit(uid)
    assert unit is not None
    return service.gatherer.facts(unit).request


async def test_pods_of_one_template_share_one_request(slurm: TinySlurm, kube: TinyKube):
    service = Service(slurm, kube)
    kube.create("uid-0", name="a", spec=spec(), annotations={ACCOUNT: "a"})
    kube.create("uid-1", name="b", spec=spec(), annotations={ACCOUNT: "a"})
    await asyncio.sleep(1)
    first = await read(service, "uid-0")
    assert isinstance(first, JobRequest)
    assert await read(service, "uid-1") is first


@pytest.mark.parametrize(
    ("other", "account"),
    [
        (spec(), "b"),
        (spec("2"), "a"),
        (spec(seconds=600), "a"),
        (spec(grace=10_000), "a"),
    ],
    ids=["annotation", "resources", "deadline", "grace"],
)
async def test_pods_that_differ_in_anything_are_read_apart(
    slurm: TinySlurm, kube: TinyKube, other: PodSpec, account: str
):
    service = Service(slurm, kube)
    kube.create("uid-0", name="a", spec=spec(), annotations={ACCOUNT: "a"})
    kube.create("uid-1", name="b", spec=other, annotations={ACCOUNT: account})
    await asyncio.sleep(1)
    assert await read(service, "uid-0") != await read(service, "uid-1")


async def test_what_was_read_by_other_rules_is_not_shared(slurm: TinySlurm, kube: TinyKube):
    service = Service(slurm, kube)
    kube.create("uid-0", name="a", spec=spec())
    kube.create("uid-1", name="b", spec=spec())
    await asyncio.sleep(1)
    assert isinstance(await read(service, "uid-0"), JobRequest)
    service.reader.use_kill_wait(10)
    assert not isinstance(await read(service, "uid-1"), JobRequest)
