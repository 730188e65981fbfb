"""Many pods are about to end by weak evidence: all stay, all say so, and a later look decides. What
is strong is acted upon at once.
"""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from scheduler.core.brake import BrakeLimits
from scheduler.core.event_reasons import Reason
from scheduler.core.evidence import SETTLING_SECONDS
from slurmapi import (
    BaseState,
    Job,
    SlurmDenied,
    SlurmError,
    SlurmGarbled,
    SlurmNoApi,
    SlurmUnreachable,
)
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import WITHOUT_CONF, TinySlurm
from tests.unit.service.twenty_pods import PODS, fill

pytestmark = pytest.mark.looptime
PAUSE = BrakeLimits().pause_seconds
# A pulse, a full look at each, and the time between two questions.
SOON = 10.0


def end_all(slurm: TinySlurm, base: BaseState = BaseState.NODE_FAIL) -> dict[int, Job]:
    before = dict(slurm.jobs)
    for job_id in slurm.jobs:
        slurm.end(job_id, base)
    return before


async def test_all_pods_stay_and_say_so(slurm, kube, service):
    await fill(slurm, kube, service)
    end_all(slurm)
    await asyncio.sleep(PAUSE - 5)
    assert kube.deleted == []
    assert not [it for _, told in kube.patches for it in told if it.type == "DisruptionTarget"]
    assert {
        event.uid for event in service.recorder.events if event.reason == "BrakeEngaged"
    } == set(PODS)
    assert service.recorder.reasons().count("BrakeEngaged") == 20
    ((reason, told),) = service.own_events
    assert reason == Reason.BRAKE_ENGAGED
    assert "20" in told
    assert service.brake.trouble == "the brake holds the ending of pods: 20 that run"
    assert service.metric("brake_held_pods") == 20
    assert service.metric("brake_engaged_total", pods="run") == 1


async def test_nodes_that_are_lost_one_after_the_other_are_held_together(slurm, kube, service):
    """The first answer shows only some of the losses."""
    await fill(slurm, kube, service)
    for job_id in list(slurm.jobs)[:3]:
        slurm.end(job_id, BaseState.NODE_FAIL)
    await service.pulse.look_now(list(slurm.jobs))
    await asyncio.sleep(0.3)
    end_all(slurm)
    await asyncio.sleep(PAUSE - 5)
    assert kube.deleted == []


async def test_nodes_whose_loss_hooks_report_one_after_the_other_are_held(slurm, kube, service):
    service.start()
    for number in range(40):
        kube.create(f"{number:08}-uid", name=f"train-{number}")
    await asyncio.sleep(5)
    for job_id in slurm.jobs:
        slurm.start(job_id, node="n1")
    await asyncio.sleep(5)
    assert len(kube.bindings) == 40
    asked = slurm.calls["states"]
    for job_id in list(slurm.jobs):
        slurm.end(job_id, BaseState.NODE_FAIL)
        service.pulse.hint(job_id)
        await asyncio.sleep(0.005)
    assert slurm.calls["states"] - asked > 4, "one answer did not show all of them"
    await asyncio.sleep(PAUSE - 5)
    assert kube.deleted == []
    assert service.brake.trouble == "the brake holds the ending of pods: 40 that run"


async def test_hints_let_no_more_pods_end_after_a_boot_than_the_brake_allows(slurm, kube, service):
    await fill(slurm, kube, service)
    slurm.boot_time = 2000
    await asyncio.sleep(60)  # slurmctld is asked each minute whether it has restarted
    for job_id in list(slurm.jobs):
        slurm.end(job_id, BaseState.CANCELLED)
        service.pulse.hint(job_id)
        await asyncio.sleep(0.005)
    await asyncio.sleep(PAUSE - 5)
    assert len(kube.deleted) <= BrakeLimits().minimum


async def test_later_look_that_confirms_it_ends_all(slurm, kube, service):
    await fill(slurm, kube, service)
    end_all(slurm)
    await asyncio.sleep(PAUSE + SOON)
    assert sorted(kube.deleted) == PODS
    looked = [it for it in service.units if it.job is not None and it.job.record is not None]
    assert all(it.job.record_at >= PAUSE for it in looked)
    assert service.brake.trouble == ""
    assert service.metric("brake_held_pods") == 0
    assert [reason for reason, _ in service.own_events] == [
        Reason.BRAKE_ENGAGED,
        Reason.BRAKE_RELEASED,
    ]


async def test_later_look_that_does_not_confirm_it_ends_none(slurm, kube, service):
    await fill(slurm, kube, service)
    before = end_all(slurm)
    await asyncio.sleep(PAUSE / 2)
    slurm.jobs = before
    await asyncio.sleep(PAUSE + SOON + 60)
    assert kube.deleted == []
    assert service.brake.trouble == ""
    assert service.own_events[-1][0] == Reason.BRAKE_RELEASED


async def test_look_of_before_the_pause_does_not_confirm_it(slurm, kube, service):
    """The pulse goes on as it was, but what became of each job cannot be read any more."""
    await fill(slurm, kube, service)
    end_all(slurm)
    await asyncio.sleep(PAUSE / 2)
    slurm.fail["job"].extend([SlurmUnreachable("away")] * 10_000)
    await asyncio.sleep(PAUSE * 2)
    assert kube.deleted == []
    slurm.fail["job"].clear()
    await asyncio.sleep(PAUSE * 4)
    assert sorted(kube.deleted) == PODS


async def test_controller_that_is_silent_confirms_nothing(slurm, kube, service):
    await fill(slurm, kube, service)
    end_all(slurm)
    slurm.fail["ping"].extend([SlurmUnreachable("away")] * 10_000)
    await asyncio.sleep(PAUSE * 3)
    assert kube.deleted == []


@pytest.mark.parametrize("base", [BaseState.PREEMPTED, BaseState.CANCELLED, BaseState.TIMEOUT])
async def test_ends_that_a_settled_slurm_records_are_acted_upon_at_once(slurm, kube, service, base):
    """The preemptor runs already: 12 of 20 pods that stay would compute beside it."""
    await fill(slurm, kube, service)
    for job_id in list(slurm.jobs)[:12]:
        slurm.end(job_id, base)
    await asyncio.sleep(5)
    assert sorted(kube.deleted) == PODS[:12]
    assert service.own_events == []
    slurm.end(13, BaseState.NODE_FAIL)
    await asyncio.sleep(5)
    assert len(kube.deleted) == 13, "they do not count"


async def test_ends_soon_after_a_boot_are_held(slurm, kube, service):
    """A slurmctld that came back with an old state."""
    await fill(slurm, kube, service)
    slurm.boot_time = 2000
    end_all(slurm, BaseState.CANCELLED)
    await asyncio.sleep(PAUSE - 5)
    assert kube.deleted == []
    await asyncio.sleep(5 + SOON)
    assert sorted(kube.deleted) == PODS


async def test_ends_after_a_silence_are_held_where_no_boot_is_told(slurm, kube, service):
    await fill(slurm, kube, service)
    slurm.version = WITHOUT_CONF
    await asyncio.sleep(2 * SETTLING_SECONDS)
    slurm.fail["states"].append(SlurmUnreachable("away"))
    await asyncio.sleep(5)
    end_all(slurm, BaseState.PREEMPTED)
    await asyncio.sleep(PAUSE - 10)
    assert kube.deleted == []
    await asyncio.sleep(10 + SOON)
    assert sorted(kube.deleted) == PODS


async def test_pods_whose_node_another_job_holds_are_not_held(slurm, kube, service):
    await fill(slurm, kube, service)
    end_all(slurm)
    slurm.allocated["n1"] = TinySlurm.CPUS - 3
    await asyncio.sleep(SOON)
    assert sorted(kube.deleted) == PODS
    assert slurm.calls["node"] <= 4, "one look serves all pods of the node"


async def test_controller_that_was_started_anew_is_given_the_whole_pause(slurm, kube, service):
    await fill(slurm, kube, service)
    end_all(slurm)
    await asyncio.sleep(PAUSE - 8)
    slurm.boot_time = 2000
    await asyncio.sleep(PAUSE - 8)
    assert kube.deleted == []
    await asyncio.sleep(16 + SOON)
    assert sorted(kube.deleted) == PODS


async def test_controller_that_tells_no_start_is_believed(slurm, kube, service):
    await fill(slurm, kube, service)
    slurm.version = WITHOUT_CONF
    end_all(slurm)
    await asyncio.sleep(PAUSE + SOON)
    assert sorted(kube.deleted) == PODS


async def test_few_pods_end_at_once(slurm, kube, service):
    await fill(slurm, kube, service)
    for job_id in list(slurm.jobs)[:10]:
        slurm.end(job_id, BaseState.NODE_FAIL)
    await asyncio.sleep(SOON)
    assert len(kube.deleted) == 10
    assert service.own_events == []


async def test_pods_that_slurm_warns_are_counted_too(slurm, kube, service):
    """A preemption with GraceTime: no job has ended yet, and the looks come one by one."""
    slurm.boot_time = slurm.now()
    await fill(slurm, kube, service)
    for job_id, job in slurm.jobs.items():
        slurm.jobs[job_id] = replace(job, start_time=4000, preempt_time=5000, end_time=9000)
    await asyncio.sleep(PAUSE)
    assert len(kube.deleted) == 10
    await asyncio.sleep(PAUSE * 2)
    assert sorted(kube.deleted) == PODS


async def test_next_process_begins_the_pause_anew(slurm, kube):
    former = Service(slurm, kube)
    await fill(slurm, kube, former)
    end_all(slurm)
    await asyncio.sleep(PAUSE - 2)
    await former.kill()
    kube.relist()
    successor = Service(slurm, kube)
    successor.start()
    await asyncio.sleep(PAUSE - 2)
    assert kube.deleted == []
    await asyncio.sleep(2 + SOON)
    assert sorted(kube.deleted) == PODS
    successor.unharmed()
    await successor.kill()


async def test_waiting_pods_are_held_apart_from_those_that_run(slurm, kube, service):
    slurm.boot_time = slurm.now()
    await fill(slurm, kube, service)
    waiting = [f"{number:08}-uid" for number in range(20, 40)]
    for uid in waiting:
        kube.create(uid, name=uid)
    await asyncio.sleep(5)
    for job_id in list(slurm.jobs)[20:]:
        slurm.end(job_id, BaseState.CANCELLED)
    slurm.end(1, BaseState.CANCELLED)
    await asyncio.sleep(PAUSE / 2)
    assert kube.deleted == PODS[:1]
    assert service.brake.trouble == "the brake holds the ending of pods: 20 that wait"
    await asyncio.sleep(PAUSE)
    assert sorted(kube.deleted) == [PODS[0], *waiting]


async def test_pods_that_go_meanwhile_are_held_no_longer(slurm, kube, service):
    await fill(slurm, kube, service)
    end_all(slurm)
    await asyncio.sleep(5)
    for uid in PODS:
        kube.delete(uid)
    await asyncio.sleep(45)
    assert service.brake.trouble == ""
    assert kube.deleted == []


WITHHELD = [
    SlurmDenied("not here", status=403),
    SlurmNoApi("no such path (HTTP 404)"),
    SlurmGarbled("too large"),
]


@pytest.mark.parametrize("error", WITHHELD, ids=lambda it: type(it).__name__)
async def test_ends_of_many_are_acted_upon_where_nobody_may_read_slurms_configuration(
    slurm: TinySlurm, kube, service, error: SlurmError
):
    """A gateway lets through what the scheduler needs, and `/conf` is not among it."""
    slurm.fail["config"].extend([error] * 10_000)
    await fill(slurm, kube, service)
    end_all(slurm)
    await asyncio.sleep(PAUSE + SOON)
    assert sorted(kube.deleted) == PODS
    assert service.pulse.failed_at is None
