"""A gang ends as one: the brake decides once about all its pods, and the log has one line."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest
from structlog.testing import capture_logs

from scheduler.core.brake import BrakeLimits
from slurmapi import BaseState
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime
PREFIX: Final = "sunk.coreweave.com/"
LIMITS: Final = BrakeLimits()
SOON: Final = 10.0


def members(kube: TinyKube, gang: str, size: int, *, per_node: int) -> list[str]:
    """Pods of a gang; their uids."""
    said = {
        f"{PREFIX}gang": gang,
        f"{PREFIX}gang-size": str(size),
        f"{PREFIX}pods-per-node": str(per_node),
    }
    uids = [f"{gang}-uid-{rank}" for rank in range(size)]
    for rank, uid in enumerate(uids):
        kube.create(uid, name=f"{gang}-{rank}", cpu="1", annotations=said)
    return uids


async def gangs_run(
    slurm: TinySlurm, kube: TinyKube, service: Service, *, gangs: int, size: int
) -> list[list[str]]:
    """Gangs whose pods share two nodes, and run; the uids of each."""
    service.start()
    made = [members(kube, f"g{number}", size, per_node=size // 2) for number in range(gangs)]
    await asyncio.sleep(5)
    for job_id in list(slurm.jobs):
        slurm.change(job_id, BaseState.RUNNING, nodes=("n1", "n2"), start_time=1)
    await asyncio.sleep(5)
    assert len(slurm.jobs) == gangs
    assert len(kube.bindings) == gangs * size
    return made


async def test_log_lines_of_a_pass_name_the_gang(slurm, kube, service):
    await gangs_run(slurm, kube, service, gangs=1, size=2)
    (unit,) = service.units
    assert service.newcomers.names(unit.key) == {"namespace": "ns", "pod": "g0"}
    kube.create("alone", name="alone")
    await asyncio.sleep(2 * kube.lag)
    assert service.newcomers.names("alone") == {"namespace": "ns", "pod": "alone"}
    assert service.newcomers.names("unknown") == {}


async def test_end_of_a_large_gang_is_one_case_for_the_brake(slurm, kube, service):
    """It has more pods than the brake lets go at once."""
    ((*uids,),) = await gangs_run(slurm, kube, service, gangs=1, size=LIMITS.minimum + 2)
    with capture_logs() as logs:
        slurm.end(1, BaseState.NODE_FAIL)
        await asyncio.sleep(SOON)
    assert sorted(kube.deleted) == sorted(uids)
    assert service.own_events == []
    told = [it for it in logs if it["event"] in {"gang evicted", "pod evicted"}]
    assert [(it["event"], it["gang"], it["pods"]) for it in told] == [
        ("gang evicted", "g0", len(uids))
    ]
    for uid in uids:
        assert service.recorder.reasons(uid).count("NodeFailed") == 1


async def test_many_gangs_are_held_and_each_says_so_on_its_pods(slurm, kube, service):
    made = await gangs_run(slurm, kube, service, gangs=LIMITS.minimum + 1, size=2)
    for job_id in list(slurm.jobs):
        slurm.end(job_id, BaseState.NODE_FAIL)
    await asyncio.sleep(LIMITS.pause_seconds - 5)
    assert kube.deleted == []
    assert service.brake.trouble == "the brake holds the ending of pods: 11 that run"
    for uid in (uid for uids in made for uid in uids):
        assert service.recorder.reasons(uid).count("BrakeEngaged") == 1
    await asyncio.sleep(5 + SOON)
    assert sorted(kube.deleted) == sorted(uid for uids in made for uid in uids)
    assert service.brake.trouble == ""


async def test_gang_of_which_another_job_holds_one_node_goes_whole(slurm, kube, service):
    made = await gangs_run(slurm, kube, service, gangs=LIMITS.minimum + 1, size=2)
    for job_id in list(slurm.jobs):
        slurm.end(job_id, BaseState.NODE_FAIL)
    slurm.allocated["n2"] = TinySlurm.CPUS
    await asyncio.sleep(LIMITS.pause_seconds - 5)
    assert sorted(kube.deleted) == sorted(uid for uids in made for uid in uids)


async def test_pods_of_a_gang_that_end_again_in_its_next_job_count_again(slurm, kube, service):
    """What the brake has allowed for one job says nothing about the next one."""
    await gangs_run(slurm, kube, service, gangs=LIMITS.minimum, size=2)
    for job_id in list(slurm.jobs):
        slurm.end(job_id, BaseState.NODE_FAIL)
    await asyncio.sleep(SOON)
    assert len(kube.deleted) == 2 * LIMITS.minimum
    for uid in list(kube.pods):
        kube.end_containers(uid)
    former = set(slurm.jobs)
    for number in range(LIMITS.minimum):
        said = {f"{PREFIX}gang": f"g{number}", f"{PREFIX}gang-size": "2"}
        for rank in (0, 1):
            kube.create(
                f"g{number}-anew-{rank}", name=f"g{number}-{rank}", cpu="1", annotations=said
            )
    await asyncio.sleep(20)
    again = set(slurm.jobs) - former
    assert len(again) == LIMITS.minimum
    for job_id in again:
        slurm.change(job_id, BaseState.RUNNING, nodes=("n1", "n2"), start_time=1)
    await asyncio.sleep(5)
    for job_id in again:
        slurm.end(job_id, BaseState.NODE_FAIL)
    await asyncio.sleep(SOON)
    assert not [it for it in kube.deleted if "anew" in it]
