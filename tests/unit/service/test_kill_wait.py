"""KillWait: what Slurm says counts, and a setting that says otherwise is not overlooked."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import cast

import pytest
import structlog

from annotations import JobRequest
from scheduler.core.event_reasons import Reason
from scheduler.kube.wire import Container, PodSpec, ResourceRequirements
from scheduler.observe.metrics import Metrics
from scheduler.service.own_events import own_pod
from scheduler.slurm.kill_wait import KillWait
from slurmapi import (
    KNOWN_VERSIONS,
    ApiVersion,
    SlurmClient,
    SlurmConfig,
    SlurmDenied,
    SlurmError,
    SlurmGarbled,
    SlurmNoApi,
    SlurmRefused,
    SlurmUnreachable,
)
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime


class Scene:
    """A slurm.conf that changes from one look to the next; the last value stays."""

    def __init__(self, *told: int | SlurmError | None) -> None:
        self.told = deque(told)
        self.served = True
        self.changes: list[int | None] = []
        self.warnings: list[tuple[Reason, str]] = []
        self.metrics = Metrics()
        self.kill_wait = KillWait(
            cast("SlurmClient", self),
            setting_seconds=30,
            on_change=self.changes.append,
            warn=lambda reason, text: self.warnings.append((reason, text)),
            metrics=self.metrics,
        )

    async def negotiate(self) -> ApiVersion:
        if not self.served:
            raise SlurmNoApi("the server has none of the versions")
        return KNOWN_VERSIONS[0]

    async def config(self) -> SlurmConfig | None:
        told = self.told.popleft() if len(self.told) > 1 else self.told[0]
        if isinstance(told, SlurmError):
            raise told
        return None if told is None else SlurmConfig(kill_wait=told)

    async def play(self, minutes: float) -> None:
        await self.kill_wait.first()
        task = asyncio.create_task(self.kill_wait.run())
        await asyncio.sleep(60 * minutes + 1)
        task.cancel()

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(
            f"slurm_pod_scheduler_kill_wait_{name}", labels
        )


async def test_equal_values_are_nothing_to_speak_of():
    scene = Scene(30)
    await scene.play(5)
    assert not scene.changes
    assert not scene.warnings
    assert scene.value("seconds", source="slurm") == 30
    assert scene.value("mismatch") == 0


async def test_disagreement_is_used_warned_about_and_measured_once():
    scene = Scene(60)
    with structlog.testing.capture_logs() as logs:
        await scene.play(5)
    assert scene.changes == [60]
    ((reason, text),) = scene.warnings
    assert reason is Reason.KILL_WAIT_MISMATCH
    assert "KillWait is 60 s, --slurm-kill-wait says 30 s" in text
    assert [it["log_level"] for it in logs if it["log_level"] == "warning"] == ["warning"]
    assert scene.value("mismatch") == 1
    assert scene.value("seconds", source="setting") == 30


async def test_reconfigured_slurm_is_followed():
    scene = Scene(60, 60, 90, 30)
    await scene.play(5)
    assert scene.changes == [60, 90, 30]
    assert len(scene.warnings) == 2
    assert scene.value("mismatch") == 0


async def test_without_a_word_of_it_the_setting_stays():
    scene = Scene(None)
    await scene.play(5)
    assert not scene.changes
    assert not scene.warnings
    assert scene.value("mismatch") == 0


@pytest.mark.parametrize(("told", "counts"), [(None, 30), (30, 30), (90, 90)])
async def test_setting_counts_only_once_slurm_has_answered(told, counts):
    """A slurm.conf with another KillWait may have let pods in that the setting would refuse."""
    away = SlurmUnreachable("down")
    scene = Scene(away, away, told)
    await scene.play(0.5)
    assert scene.changes == [None, counts]
    assert scene.kill_wait.seconds == counts
    silent = Scene(away)
    await silent.play(5)
    assert silent.changes == [None]
    assert not silent.warnings


WITHHELD = [
    SlurmDenied("no", status=403),
    SlurmRefused("no", status=404),
    SlurmNoApi("no such path (HTTP 404)"),
    SlurmGarbled("a page for people"),
]


@pytest.mark.parametrize("refusal", WITHHELD, ids=lambda it: type(it).__name__)
async def test_setting_counts_where_slurms_own_is_withheld_and_that_is_told_once(refusal):
    """A gateway may refuse `/conf`: no pod's grace was judged then, for ever, and one was bound
    that Slurm's KillWait does not cover.
    """
    scene = Scene(refusal)
    with structlog.testing.capture_logs() as logs:
        await scene.play(5)
    assert scene.changes == [None, 30]
    ((reason, text),) = scene.warnings
    assert reason is Reason.KILL_WAIT_WITHHELD
    assert f"({refusal}): grace periods of pods are checked against 30 s" in text
    assert [it["event"] for it in logs].count("slurm's KillWait is withheld") == 1


async def test_what_slurm_told_before_it_was_withheld_counts_on():
    scene = Scene(90, *[SlurmDenied("no", status=403)] * 3, 90, SlurmDenied("no", status=403))
    await scene.play(8)
    assert scene.changes == [90]
    assert [reason for reason, _ in scene.warnings] == [
        Reason.KILL_WAIT_MISMATCH,
        *[Reason.KILL_WAIT_WITHHELD] * 2,
    ]


@pytest.mark.parametrize("once", WITHHELD, ids=lambda it: type(it).__name__)
async def test_one_such_answer_says_nothing(once):
    scene = Scene(once, 90)
    await scene.play(5)
    assert scene.changes == [None, 90]


async def test_where_no_path_is_served_or_the_token_is_bad_nothing_is_withheld():
    elsewhere = Scene(SlurmNoApi("no such path (HTTP 404)"))
    elsewhere.served = False
    denied = Scene(SlurmDenied("token expired", status=401))
    for scene in (elsewhere, denied):
        await scene.play(5)
        assert scene.changes == [None]
        assert not scene.warnings


async def test_pods_are_judged_by_the_new_value(slurm: TinySlurm, kube: TinyKube):
    service = Service(slurm, kube)
    kube.create("uid-0")  # with a grace of 20 s
    await asyncio.sleep(1)
    unit = service.newcomers.unit("uid-0")
    assert unit is not None
    assert isinstance(service.gatherer.facts(unit).request, JobRequest)
    service.reader.use_kill_wait(20)
    request = service.gatherer.facts(unit).request
    assert not isinstance(request, JobRequest)
    assert "KillWait is 20s" in str(request[0])


async def test_pod_that_waits_keeps_its_job_while_kill_wait_is_not_known(
    slurm: TinySlurm, kube: TinyKube
):
    before = Service(slurm, kube)
    before.reader.use_kill_wait(90)
    before.start()
    kube.create("uid-0", spec=long_grace())
    await asyncio.sleep(5)
    assert slurm.live(1)
    await before.kill()

    kube.relist()
    after = Service(slurm, kube)
    after.reader.use_kill_wait(None)
    after.start()
    await asyncio.sleep(60)
    after.reader.use_kill_wait(90)
    await asyncio.sleep(400)
    assert slurm.live(1)
    assert list(slurm.jobs) == [1]
    await after.kill()


async def test_pod_that_runs_is_asked_for_anew_whatever_kill_wait_has_become(
    slurm: TinySlurm, kube: TinyKube, service: Service
):
    service.reader.use_kill_wait(90)
    service.start()
    kube.create("uid-0", spec=long_grace())
    await asyncio.sleep(3)
    slurm.start(1)
    await asyncio.sleep(3)
    assert kube.bindings == [("uid-0", "n1")]
    service.reader.use_kill_wait(30)
    slurm.forget(1)
    await asyncio.sleep(30)
    assert slurm.submissions[2].required_nodes == ("n1",)


def long_grace() -> PodSpec:
    requests: dict[str, str | int | float] = {"cpu": "1", "memory": "1Gi"}
    container = Container(name="c", resources=ResourceRequirements(requests=requests))
    return PodSpec(termination_grace_period_seconds=60, containers=(container,))


def test_own_pod_is_what_the_downward_api_says():
    found = own_pod({"POD_NAME": "s-0", "POD_NAMESPACE": "slurm", "POD_UID": "u"})
    assert found is not None
    assert (found.kind, found.namespace, found.name, found.uid) == ("Pod", "slurm", "s-0", "u")
    assert own_pod({"POD_NAME": "s-0"}) is None
    assert own_pod({}) is None
