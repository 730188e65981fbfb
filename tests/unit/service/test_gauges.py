"""The gauges say how things stand: pods and why they wait, and when each side was last heard."""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import dataclass, field
from typing import Any

import pytest

from scheduler.core import pending_reasons
from scheduler.core.event_reasons import Reason
from scheduler.kube.store import Joined
from scheduler.kube.wire import ObjectMeta, Pod, PodStatus
from scheduler.observe.metrics import Metrics
from scheduler.observe.wake import WakeCause
from scheduler.reconcile.workqueue import WorkQueue
from scheduler.service.gauges import Gauges, observe_start
from scheduler.service.unit_counts import UnitCounts
from scheduler.state.member import Member, by_uid
from scheduler.state.pod_remains import Remains
from scheduler.state.seen import SeenOfPod
from scheduler.state.units import Placeholder, Unit, Units
from slurmapi import BaseState
from slurmapi.jwt import Lifetime
from tests.unit.core.things import record, state

NOW = 1000.0


@dataclass
class Watch:
    name: str
    last_event_at: float | None = None
    synced: asyncio.Event = field(default_factory=asyncio.Event)


class Scene:
    def __init__(self) -> None:
        self.metrics = Metrics()
        self.units = Units()
        self.pods = Joined[Pod]()
        self.store = self.pods.new()
        self.watches: list[Watch] = []
        self.queue = WorkQueue[str]()
        self.answered_at: float | None = None
        self.leads = True
        self.now = NOW
        self.gauges = Gauges(
            self.metrics,
            reflectors=lambda: self.watches,
            queue=self.queue.statistics,
            answered_at=lambda: self.answered_at,
            lifetime=lambda: Lifetime(issued_at=100.0, expires_at=700.0),
            unguarded=lambda: 7,
            ready=lambda: self.answered_at is not None,
            leads=lambda: self.leads,
            clock=lambda: self.now,
        )
        self.counts = UnitCounts(
            self.metrics,
            units=self.units,
            pods=self.pods,
            gpus=frozenset({"nvidia.com/gpu"}),
            leads=lambda: self.leads,
            clock=lambda: self.now,
        )

    def unit(self, key: str, *, namespace: str = "ns", **more: Any) -> Unit:
        self.pod(key)
        return self.units.add(Unit(key, namespace, "train", seen_at=0.0, **more))

    def pod(self, uid: str, *, phase: str = "Pending") -> Pod:
        pod = Pod(ObjectMeta(name=uid, namespace="ns", uid=uid), status=PodStatus(phase=phase))
        self.store.apply(pod)
        return pod

    def samples(self, name: str) -> dict[frozenset[tuple[str, str]], float]:
        """All values of a metric by their labels."""
        (family,) = self.metrics.registry.restricted_registry(
            [f"slurm_pod_scheduler_{name}"]
        ).collect()
        return {frozenset(it.labels.items()): it.value for it in family.samples}

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"slurm_pod_scheduler_{name}", labels)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def pending(reason: str, *, job_id: int = 7) -> Placeholder:
    return Placeholder(
        job_id,
        state=state(BaseState.PENDING),
        record=record(BaseState.PENDING, state_reason=reason),
        proven=True,
    )


async def test_pending_units_are_counted_by_slurms_reason(scene: Scene) -> None:
    for number, reason in enumerate(("Priority", "Priority", "QOSGrpCpuLimit", "Newest", "None")):
        scene.unit(f"uid-{number}", job=pending(reason, job_id=number + 1))
    scene.unit("unseen", job=Placeholder(9, state=state(BaseState.PENDING)))
    await scene.counts.count()
    assert scene.value("pods", state="pending", reason="Priority") == 2
    assert scene.value("pods", state="pending", reason="QOSGrp") == 1
    assert scene.value("pods", state="pending", reason="Other") == 1
    assert scene.value("pods", state="pending", reason="None") == 2
    assert (
        scene.value("namespace_pods", pod_namespace="ns", state="pending", reason="Priority") == 2
    )


async def test_former_names_tell_the_same_of_single_pods(scene: Scene) -> None:
    for number, reason in enumerate(("Priority", "Priority", "Resources")):
        scene.unit(f"uid-{number}", namespace=f"ns-{number}", job=pending(reason, job_id=number))
    await scene.counts.count()
    scene.units.remove("uid-2")
    await scene.counts.count()
    assert scene.samples("units") == scene.samples("pods")
    assert scene.samples("namespace_units") == scene.samples("namespace_pods")
    assert scene.value("pods", state="pending", reason="Resources") == 0


async def test_each_pod_of_a_gang_counts_and_its_former_name_counts_it_as_one(
    scene: Scene,
) -> None:
    members = [Member(f"rank-{number}", f"rank-{number}") for number in range(3)]
    scene.unit("gang", job=pending("Priority"), members=by_uid(members))
    await scene.counts.count()
    assert scene.value("pods", state="pending", reason="Priority") == 3
    assert scene.value("units", state="pending", reason="Priority") == 1


def test_interval_of_requests_for_job_states_has_its_former_name_too(scene: Scene) -> None:
    scene.metrics.polls_every(2.5)
    assert scene.value("slurm_poll_interval_seconds") == 2.5
    assert scene.value("pulse_interval_seconds") == 2.5


async def test_unit_without_a_job_tells_why(scene: Scene) -> None:
    refused = scene.unit("refused")
    refused.pods[0].said.reason = Reason.SLURM_REJECTED
    scene.unit("gated").waiting = False
    scene.unit("before").pods[0].said.condition = (Reason.SCHEDULING_FAILED, "cpu: missing")
    scene.unit("foreign").pods[0].said.condition = ("Unschedulable", "by another scheduler")
    scene.unit("again").pods[0].said.reason = Reason.SLURM_PENDING
    await scene.counts.count()
    assert scene.value("pods", state="none", reason="SlurmRejected") == 1
    assert scene.value("pods", state="none", reason="SchedulingFailed") == 1
    assert scene.value("pods", state="none", reason="") == 3


async def test_bound_unit_waits_for_nothing(scene: Scene) -> None:
    unit = scene.unit("uid", job=Placeholder(7, state=state(BaseState.RUNNING)))
    unit.waiting, unit.pods[0].said.reason = False, Reason.NODE_UNAVAILABLE
    await scene.counts.count()
    assert scene.value("pods", state="running", reason="") == 1


async def test_reason_that_is_gone_falls_to_zero_and_its_namespace_disappears(
    scene: Scene,
) -> None:
    scene.unit("uid", job=pending("Priority"))
    await scene.counts.count()
    scene.units.remove("uid")
    await scene.counts.count()
    assert scene.value("pods", state="pending", reason="Priority") == 0
    gone = scene.value("namespace_pods", pod_namespace="ns", state="pending", reason="Priority")
    assert gone is None


async def test_every_state_has_a_series_from_the_start(scene: Scene) -> None:
    assert scene.value("pods", state="in_doubt", reason="") == 0
    assert scene.value("pods", state="running", reason="") == 0


async def test_small_namespaces_beyond_the_largest_share_a_series(scene: Scene) -> None:
    for number in range(205):
        for copy in range(1 if number < 5 else 2):
            scene.unit(f"{number}-{copy}", namespace=f"ns-{number}")
    await scene.counts.count()
    assert scene.value("namespace_pods", pod_namespace="_other", state="none", reason="") == 5
    assert scene.value("namespace_pods", pod_namespace="ns-100", state="none", reason="") == 2


async def test_placeholders_that_stand_for_nobody_are_counted(scene: Scene) -> None:
    running = state(BaseState.RUNNING)
    scene.unit("wanted", job=Placeholder(1, state=running))
    scene.unit("done", job=Placeholder(2, state=running))
    scene.pod("done", phase="Succeeded")
    scene.unit("ended", job=Placeholder(3, state=state(BaseState.CANCELLED)))
    scene.pod("ended", phase="Failed")
    scene.unit("late").given_back = frozenset({4})
    scene.units.add(Unit("orphan", "ns", "gone", seen_at=0.0, job=Placeholder(5)))
    await scene.counts.count()
    assert scene.value("placeholders_without_pod") == 0  # their cancel may be on its way
    await scene.counts.count()
    assert scene.value("placeholders_without_pod") == 3


async def test_jobs_of_pods_that_come_and_go_are_no_leftovers(scene: Scene) -> None:
    for number in range(3):
        gone = Unit(f"gone-{number}", "ns", "gone", seen_at=0.0, job=Placeholder(number))
        scene.units.add(gone)
        await scene.counts.count()
        assert scene.value("placeholders_without_pod") == 0
        scene.units.remove(gone.key)


async def test_job_is_no_leftover_while_containers_of_its_pod_may_run(scene: Scene) -> None:
    remains = Remains("node", grace_seconds=30, gone_at=NOW)
    pod = Member("u", "gone", SeenOfPod(remains=remains))
    scene.units.add(Unit("u", "ns", "gone", seen_at=0.0, job=Placeholder(5), members=by_uid([pod])))
    await scene.counts.count()
    await scene.counts.count()
    assert scene.value("placeholders_without_pod") == 0
    scene.now = remains.until
    await scene.counts.count()
    await scene.counts.count()
    assert scene.value("placeholders_without_pod") == 1


async def test_job_that_slurm_has_just_taken_is_pending(scene: Scene) -> None:
    scene.unit("new", job=Placeholder(1, made_as="ns.train"))
    scene.unit("claimed", job=Placeholder(2, claimed=True))
    await scene.counts.count()
    assert scene.value("pods", state="pending", reason=pending_reasons.UNSAID) == 1
    assert scene.value("pods", state="unknown", reason="") == 1


async def test_last_answer_is_a_time_of_the_epoch_and_the_start_before_the_first(
    scene: Scene,
) -> None:
    scene.now = NOW + 30
    assert _ago(scene.value("slurm_last_answer_timestamp_seconds")) == pytest.approx(30, abs=1)
    assert scene.value("ready") == 0
    scene.answered_at = NOW + 28
    assert _ago(scene.value("slurm_last_answer_timestamp_seconds")) == pytest.approx(2, abs=1)
    assert scene.value("ready") == 1


async def test_watch_that_was_silent_for_longest_counts_for_its_kind(scene: Scene) -> None:
    scene.watches = [Watch("pods", NOW - 50), Watch("pods", NOW - 5), Watch("nodes")]
    scene.gauges.find_watches()
    ages = {
        name: _ago(scene.value("kube_watch_last_event_timestamp_seconds", resource=name))
        for name in ("pods", "nodes")
    }
    assert ages == {"pods": pytest.approx(50, abs=1), "nodes": pytest.approx(0, abs=1)}


async def test_watch_that_is_done_without_has_no_age(scene: Scene) -> None:
    nodes = Watch("nodes")
    scene.watches = [nodes]
    scene.gauges.find_watches()
    nodes.synced.set()
    told = scene.value("kube_watch_last_event_timestamp_seconds", resource="nodes")
    assert told is not None
    assert math.isnan(told)
    scene.gauges.find_watches()
    assert scene.value("kube_watch_last_event_timestamp_seconds", resource="nodes") is None


async def test_token_says_from_when_until_when_it_is_good(scene: Scene) -> None:
    assert scene.value("slurm_token_issued_timestamp_seconds") == 100
    assert scene.value("slurm_token_expiry_timestamp_seconds") == 700


async def test_loop_turns_while_many_units_are_counted(scene: Scene) -> None:
    for number in range(2000):
        scene.unit(f"uid-{number}", job=pending("Priority", job_id=number + 1))
    turns = 0
    counting = asyncio.create_task(scene.counts.count())
    while not counting.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 5


async def test_containers_that_start_are_observed_once(scene: Scene) -> None:
    unit = scene.unit("uid")
    unit.bindings.at = 10.0
    before, after = scene.pod("uid"), scene.pod("uid", phase="Running")
    for _ in range(2):
        observe_start(scene.metrics, scene.units, old=before, new=after, now=12.5)
    assert scene.value("stage_seconds_sum", stage="started") == 2.5
    assert scene.value("stage_seconds_count", stage="started") == 1


async def test_start_that_was_not_seen_to_happen_is_not_observed(scene: Scene) -> None:
    unit = scene.unit("uid")
    running, failed = scene.pod("uid", phase="Running"), scene.pod("uid", phase="Failed")
    observe_start(scene.metrics, scene.units, old=scene.pod("uid"), new=running, now=12.5)
    unit.bindings.at = 10.0
    observe_start(scene.metrics, scene.units, old=None, new=running, now=12.5)
    unit.bindings.at = 10.0
    observe_start(scene.metrics, scene.units, old=scene.pod("uid"), new=failed, now=12.5)
    observe_start(scene.metrics, scene.units, old=running, new=None, now=12.5)
    assert scene.value("stage_seconds_count", stage="started") == 0


def _ago(moment: float | None) -> float:
    assert moment is not None
    return time.time() - moment


async def test_who_stands_by_counts_nothing(scene):
    scene.leads = False
    scene.unit("u", job=Placeholder(7))
    await scene.counts.count()
    assert scene.metrics.registry.get_sample_value("slurm_pod_scheduler_leader") == 0
    value = scene.metrics.registry.get_sample_value
    assert value("slurm_pod_scheduler_pods", {"state": "unknown", "reason": ""}) == 0
    scene.leads = True
    await scene.counts.count()
    assert value("slurm_pod_scheduler_leader") == 1
    assert value("slurm_pod_scheduler_pods", {"state": "unknown", "reason": ""}) == 1


@pytest.mark.looptime
async def test_work_under_way_is_shown_when_it_is_asked_for(scene: Scene) -> None:
    for key in "ab":
        scene.queue.add(key, WakeCause.WATCH)
        await scene.queue.get()
        await asyncio.sleep(2)
    scene.queue.add("c", WakeCause.WATCH)
    assert scene.value("workqueue_depth") == 1
    assert scene.value("workqueue_unfinished_work_seconds") == pytest.approx(6)
    assert scene.value("workqueue_longest_running_processor_seconds") == pytest.approx(4)
    for key in "ab":
        scene.queue.done(key)
    assert scene.value("workqueue_unfinished_work_seconds") == 0
    assert scene.value("workqueue_longest_running_processor_seconds") == 0


@pytest.mark.looptime
@pytest.mark.parametrize(("units", "seconds"), [(1, 5.0), (40_000, 10.0)])
async def test_many_units_are_counted_less_often(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, units: int, seconds: float
) -> None:
    """So the count takes a bounded part of a core."""
    monkeypatch.setattr(Units, "__len__", lambda _units: units)
    counted_at: list[float] = []

    async def count() -> None:
        counted_at.append(asyncio.get_running_loop().time())

    monkeypatch.setattr(scene.counts, "count", count)
    running = asyncio.create_task(scene.counts.run())
    await asyncio.sleep(2 * seconds + 1)
    running.cancel()
    assert [at - counted_at[0] for at in counted_at] == [0, seconds, 2 * seconds]
