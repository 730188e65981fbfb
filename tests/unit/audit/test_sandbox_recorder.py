"""What the models do is recorded at the moment they do it, on their own clock."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from scheduler.sandbox.kube.model import KubeModel
from scheduler.sandbox.kube.server import KubeServer
from scheduler.sandbox.slurm import Release
from tests.audit.assemble import Scope, assemble
from tests.audit.history import LOST, NEVER, By, History, Owner, at
from tests.audit.judge import judge
from tests.audit.sandbox import SandboxRecorder
from tests.support import pods
from tests.support.kube import Kube, KubeAnswerError
from tests.unit.sandbox_slurm.harness import SLEEP, START, Lab, config

OURS = Owner("cluster-1", "slurm-scheduler")
SCOPE = Scope(frozenset({OURS}), frozenset({OURS.scheduler}))


@pytest.fixture
async def server() -> AsyncIterator[KubeServer]:
    """An API server of a cluster without kubelets."""
    server = KubeServer(KubeModel(), token="secret")
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
def lab() -> Lab:
    return Lab(config(Release.V24_11))


@pytest.fixture
def recorder(server: KubeServer, lab: Lab) -> SandboxRecorder:
    recorder = SandboxRecorder(server, lab.model)
    recorder.open()
    return recorder


def hand(server: KubeServer, *, agent: str = "tests") -> Kube:
    return Kube(server.url, token="secret", agent=agent)


def tagged() -> dict[str, Any]:
    tag = {"v": 1, "cluster": OURS.cluster, "scheduler": OURS.scheduler}
    encoded = msgspec.json.encode(tag | {"namespace": "default", "unit": "p", "uids": ["pod-1"]})
    return {"admin_comment": encoded.decode()}


def told(recorder: SandboxRecorder) -> History:
    return assemble(recorder.close(), SCOPE)


def test_job_from_its_submit_to_its_cancel(recorder: SandboxRecorder, lab: Lab) -> None:
    job = lab.submit(script=SLEEP, **tagged())
    lab.pass_time(2)
    lab.model.update(job.id, {"comment": "x"}, user="slurm")
    lab.clock.now += 8
    lab.model.cancel(job.id, user="root")
    (life,) = told(recorder).jobs
    (run,) = life.runs
    assert (life.owner, set(life.uids), life.submitted) == (OURS, {"pod-1"}, at(START))
    assert (run.span.start, run.ready, run.span.end) == (
        at(START + 2),
        at(START + 2),
        at(START + 10),
    )
    assert [(it.by, it.when) for it in life.kills] == [(By.US, at(START + 10))]
    assert [it.by for it in life.updates] == [By.OTHER]
    assert life.state == "CANCELLED"


@pytest.mark.parametrize(("looks", "broken"), [(True, []), (False, ["I14"])])
def test_cancel_without_a_look_is_found(
    recorder: SandboxRecorder, lab: Lab, *, looks: bool, broken: list[str]
) -> None:
    job = lab.submit(script=SLEEP, **tagged())
    lab.model.looked_at(job.id, user="root")
    lab.pass_time(60)
    if looks:
        lab.model.looked_at(job.id, user="root")
    lab.model.cancel(job.id, user="root")
    assert [it.rule for it in judge(told(recorder))] == broken


@pytest.mark.parametrize(("waited", "broken"), [(40.0, ["I14"]), (55.0, [])])
def test_cancel_that_waited_for_its_turn_is_as_old_as_it_may_be(
    server: KubeServer, lab: Lab, *, waited: float, broken: list[str]
) -> None:
    recorder = SandboxRecorder(server, lab.model, waited=lambda: waited)
    recorder.open()
    job = lab.submit(script=SLEEP, **tagged())
    lab.model.looked_at(job.id, user="root")
    lab.pass_time(60)
    lab.model.cancel(job.id, user="root")
    assert [it.rule for it in judge(told(recorder))] == broken


def test_requeue_is_seen(recorder: SandboxRecorder, lab: Lab) -> None:
    job = lab.submit(script=SLEEP)
    lab.pass_time(2)
    lab.model.requeue(job.id)
    (life,) = told(recorder).jobs
    assert [run.span.end for run in life.runs] == [at(START + 2)]
    assert [it.when for it in life.evidence] == [at(START + 2)]
    assert life.ended == NEVER


def test_job_that_a_crash_has_lost_is_another_than_the_next_of_its_id(
    recorder: SandboxRecorder, lab: Lab
) -> None:
    first = lab.submit(script=SLEEP, name="first")
    lab.clock.now += 1
    lab.model.crash()
    lab.clock.now += 5
    lab.model.start_controller()
    second = lab.submit(script=SLEEP, name="second")
    assert first.id == second.id
    lost, later = told(recorder).jobs
    assert (lost.state, lost.ended.earliest, lost.ended.latest) == (LOST, START, START + 6)
    assert (later.state, later.ended) == ("PENDING", NEVER)


def test_job_that_was_there_before_is_taken_up(server: KubeServer, lab: Lab) -> None:
    lab.submit(script=SLEEP)
    recorder = SandboxRecorder(server, lab.model)
    recorder.open()
    assert [job.state for job in told(recorder).jobs] == ["PENDING"]


def test_job_that_had_ended_before_is_not_taken_up(server: KubeServer, lab: Lab) -> None:
    job = lab.submit(script=SLEEP, **tagged())
    lab.pass_time(10)
    lab.model.cancel(job.id, user="root")
    assert job.completing
    recorder = SandboxRecorder(server, lab.model)
    recorder.open()
    lab.pass_time(120)
    assert not job.completing
    assert told(recorder).jobs == ()


async def test_pods_and_who_wrote_what_about_them(
    server: KubeServer, recorder: SandboxRecorder, lab: Lab
) -> None:
    async with hand(server) as user, hand(server, agent="slurm-pod-scheduler/1.0") as ours:
        await user.create("pods", pods.pod("train"), namespace="default")
        lab.clock.now += 1
        await ours.bind("train", "n1", namespace="default")
        with pytest.raises(KubeAnswerError, match="409"):
            await user.bind("train", "n1", namespace="default")
        lab.clock.now += 1
        await ours.delete("pods", "train", namespace="default")
        await user.delete("pods", "train", namespace="default", grace_seconds=0)
    found = told(recorder)
    (life,) = found.pods
    assert (life.node, life.placed, life.over) == ("n1", at(START + 1), at(START + 2))
    assert [(it.by, it.accepted) for it in life.binds] == [(By.US, True), (By.OTHER, False)]
    assert [it.by for it in life.deletions] == [By.US, By.OTHER]
    assert sorted(it.rule for it in judge(found)) == ["I2", "I6"]


async def test_nothing_is_recorded_once_it_is_closed(
    server: KubeServer, recorder: SandboxRecorder, lab: Lab
) -> None:
    records = recorder.close()
    lab.submit()
    async with hand(server) as user:
        await user.create("pods", pods.pod("train"), namespace="default")
    assert (records.jobs, records.pods, records.pods_asked) == ([], [], [])
