"""--grace-policy=auto: KillWait limits grace periods until the handover guard is known."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import structlog

from annotations.grace import USUAL_GRACE
from scheduler.core.event_reasons import Reason
from scheduler.facts.grace_rule import GraceSetting
from scheduler.hooks import heartbeat
from scheduler.kube.wire import Container, PodSpec, ResourceRequirements
from slurmapi import BaseState
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime
KILL_WAIT = 30


@asynccontextmanager
async def process(
    slurm: TinySlurm, kube: TinyKube, *, setting: GraceSetting = "auto"
) -> AsyncIterator[Service]:
    """A process at work, and Slurm has a prolog of which only a question shows what it asks."""
    slurm.prolog_slurmctld = "/opt/site.sh"
    kube.relist()
    service = Service(slurm, kube, grace_policy=setting)
    service.reader.use_kill_wait(KILL_WAIT)
    following = asyncio.create_task(service.heartbeat.follow(service.memory.news.guard_known))
    service.start()
    try:
        yield service
        service.unharmed()
    finally:
        following.cancel()
        await service.kill()


def create(
    kube: TinyKube,
    uid: str,
    *,
    grace: int = USUAL_GRACE,
    annotations: dict[str, str] | None = None,
) -> None:
    """Create a pod, by default with Kubernetes' default grace period."""
    requests: dict[str, str | int | float] = {"cpu": "1", "memory": "1Gi"}
    container = Container(name="c", resources=ResourceRequirements(requests=requests))
    spec = PodSpec(termination_grace_period_seconds=grace, containers=(container,))
    kube.create(uid, name=uid, spec=spec, annotations=annotations)


def refused(service: Service, uid: str) -> bool:
    return Reason.SCHEDULING_FAILED in service.recorder.reasons(uid)


async def test_pod_is_refused_until_the_guard_is_known(slurm: TinySlurm, kube: TinyKube) -> None:
    async with process(slurm, kube) as service:
        create(kube, "uid-0")
        await asyncio.sleep(5)
        assert refused(service, "uid-0")
        assert not slurm.jobs
        service.heartbeat.beat()
        await asyncio.sleep(5)
        assert slurm.live(1)
        assert service.reader.longest_grace == USUAL_GRACE


async def test_guard_allows_the_usual_grace_and_no_more(slurm: TinySlurm, kube: TinyKube) -> None:
    """How long Slurm waits for a node that it has taken is not for those who create pods to say."""
    async with process(slurm, kube) as service:
        service.heartbeat.beat()
        create(kube, "uid-0", grace=USUAL_GRACE + 1)
        await asyncio.sleep(5)
        assert not slurm.jobs
        (event,) = (it for it in service.recorder.events if it.reason == Reason.SCHEDULING_FAILED)
        assert "expected at most 30 (KillWait is 30s)" in event.message


async def test_next_process_keeps_the_job_although_it_does_not_know_the_guard_yet(
    slurm: TinySlurm, kube: TinyKube
) -> None:
    async with process(slurm, kube) as before:
        before.heartbeat.beat()
        create(kube, "uid-0")
        await asyncio.sleep(5)
    async with process(slurm, kube) as after:
        create(kube, "uid-1")
        await asyncio.sleep(400)
        assert slurm.live(1)
        assert list(slurm.jobs) == [1]
        assert refused(after, "uid-1")
        slurm.start(1)
        await asyncio.sleep(3)
        assert kube.bindings == [("uid-0", "n1")]


async def test_pod_that_joins_a_gang_with_a_job_has_no_longer_grace(
    slurm: TinySlurm, kube: TinyKube
) -> None:
    """The gang's job is there already; that makes nobody's grace period longer."""
    asks = {"sunk.coreweave.com/gang": "duo", "sunk.coreweave.com/gang-size": "2"}
    async with process(slurm, kube) as service:
        service.heartbeat.beat()
        for rank, uid in enumerate(("uid-0", "uid-1")):
            create(kube, uid, annotations=asks | {"sunk.coreweave.com/gang-rank": str(rank)})
        await asyncio.sleep(5)
        assert slurm.live(1)
        slurm.change(1, BaseState.RUNNING, nodes=("n1", "n2"), state_reason="None")
        await asyncio.sleep(5)
        assert len(kube.bindings) == 2
        kube.delete("uid-1", grace=0)
        again = asks | {"sunk.coreweave.com/gang-rank": "1"}
        create(kube, "uid-2", grace=USUAL_GRACE + 1, annotations=again)
        await asyncio.sleep(30)
        assert refused(service, "uid-2")
        assert len(kube.bindings) == 2


async def test_guard_that_asks_no_more_is_believed_in_no_longer(
    slurm: TinySlurm, kube: TinyKube, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "HEARD_SECONDS", 600.0)  # a day takes long, even a virtual one
    with structlog.testing.capture_logs() as logs:
        async with process(slurm, kube) as service:
            service.heartbeat.beat()
            create(kube, "uid-0")
            await asyncio.sleep(610)
            create(kube, "uid-1")
            await asyncio.sleep(5)
            assert slurm.live(1), "its pod was accepted before"
            assert list(slurm.jobs) == [1]
            assert refused(service, "uid-1")
    said = [it["event"] for it in logs if it["event"].startswith("the handover guard is")]
    assert said == [
        "the handover guard is known to be installed",
        "the handover guard is not known to be installed any more",
    ]


async def test_job_id_that_a_pods_author_writes_evades_no_grace_rule(
    slurm: TinySlurm, kube: TinyKube
) -> None:
    """Until the job is shown to be another's, the pod is not judged, and nothing is done for it."""
    other = slurm.add(admin_comment="")
    async with process(slurm, kube) as service:
        create(kube, "uid-0")
        kube.edit("uid-0", {"slurm-pod-scheduler/job-id": str(other)})
        await asyncio.sleep(120)
        assert refused(service, "uid-0")
        assert list(slurm.jobs) == [other]
        assert not kube.bindings


@pytest.mark.parametrize(("setting", "accepted"), [("strict", False), ("guarded", True)])
async def test_other_settings_do_not_ask_whether_the_guard_is_known(
    slurm: TinySlurm, kube: TinyKube, setting: GraceSetting, accepted: bool
) -> None:
    async with process(slurm, kube, setting=setting) as service:
        if not accepted:
            service.heartbeat.beat()
        create(kube, "uid-0")
        await asyncio.sleep(10)
        assert refused(service, "uid-0") is not accepted
        assert bool(slurm.jobs) is accepted
