"""What pods hold and wait for is counted by namespace and partition, in a bounded number of
series.
"""

from __future__ import annotations

from time import thread_time
from typing import Any

import pytest

from scheduler.kube.store import Joined
from scheduler.kube.wire import Pod
from scheduler.observe import place_series
from scheduler.observe.metrics import Metrics
from scheduler.observe.place_series import MOST_PLACES, SERIES_KEPT_SECONDS
from scheduler.service import place_counts
from scheduler.service.place_counts import partition_of
from scheduler.service.unit_counts import UnitCounts
from scheduler.state.member import Member, by_uid
from scheduler.state.units import Placeholder, Unit, Units
from slurmapi import BaseState
from tests.support.loop_turns import beside
from tests.unit.core.things import record, state
from tests.unit.view.pods import decoded, pod

GPU = "nvidia.com/gpu"
P = "slurm_pod_scheduler_"


class Scene:
    def __init__(self) -> None:
        self.metrics = Metrics()
        self.units = Units()
        self.pods = Joined[Pod]()
        self.store = self.pods.new()
        self.now = 1000.0
        self.counts = UnitCounts(
            self.metrics,
            units=self.units,
            pods=self.pods,
            gpus=frozenset({GPU}),
            leads=lambda: True,
            clock=lambda: self.now,
        )

    def unit(
        self,
        name: str,
        *,
        base: BaseState | None = BaseState.PENDING,
        partition: str = "gpu",
        namespace: str = "team",
        created: str = "2026-01-01T00:00:00Z",
        gpus: int = 2,
        **spec: Any,
    ) -> Unit:
        container = {"name": "main", "resources": {"requests": {GPU: str(gpus)}}}
        meta = {"namespace": namespace, "creationTimestamp": created, "uid": f"uid-{name}"}
        made = decoded(pod(name, meta=meta, containers=[container], **spec))
        self.store.apply(made)
        number = len(self.units) + 1
        job = None
        if base is not None:
            known = record(base, partition=partition) if partition else None
            job = Placeholder(number, state=state(base), record=known)
        return self.units.add(Unit(made.metadata.uid, namespace, name, seen_at=0.0, job=job))

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(P + name, labels)

    def gpus(self, which: str, *, namespace: str = "team", partition: str = "gpu") -> float | None:
        return self.value("gpus", pod_namespace=namespace, partition=partition, state=which)

    def series(self, name: str) -> int:
        families = {it.name: it for it in self.metrics.registry.collect()}
        return len(families[P + name].samples)


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def test_gpus_are_held_by_pods_with_a_running_job_or_a_node_and_waited_for_by_others(
    scene: Scene,
) -> None:
    scene.unit("waits")
    scene.unit("allocated", base=BaseState.RUNNING)
    scene.unit("bound", base=BaseState.RUNNING, nodeName="node-1", gpus=4)
    scene.unit("gated", base=None, schedulingGates=[{"name": "example.com/gate"}])
    scene.unit("refused", base=None, gpus=8)
    await scene.counts.count()
    assert (scene.gpus("held"), scene.gpus("waiting")) == (6, 2)
    assert scene.gpus("waiting", partition=place_series.NO_PARTITION) == 8


async def test_pod_of_a_gang_that_runs_waits_until_it_has_a_node(scene: Scene) -> None:
    """Its job may have no slot for it."""
    scene.units.remove(scene.unit("first", nodeName="node-1").key)
    scene.units.remove(scene.unit("second").key)
    members = by_uid([Member("uid-first", "first"), Member("uid-second", "second")])
    job = Placeholder(9, state=state(BaseState.RUNNING), record=record(BaseState.RUNNING))
    gang = Unit("gang", "team", "gang", seen_at=0.0, job=job, members=members)
    place = partition_of(scene.units.add(gang))
    await scene.counts.count()
    found = [scene.gpus(which, partition=place) for which in ("held", "waiting")]
    assert found == [2, 2]


async def test_pod_whose_job_waits_in_several_partitions_is_counted_as_such(scene: Scene) -> None:
    scene.unit("waits", partition="gpu,cpu")
    await scene.counts.count()
    assert scene.gpus("waiting", partition=place_series.SEVERAL_PARTITIONS) == 2


async def test_resized_pod_counts_with_what_it_has_now_and_none_after_its_end(scene: Scene) -> None:
    scene.unit("waits")
    await scene.counts.count()
    meta = {"namespace": "team", "uid": "uid-waits"}
    container = {"name": "main", "resources": {"requests": {GPU: "3"}}}
    scene.store.apply(decoded(pod("waits", meta=meta, containers=[container])))
    await scene.counts.count()
    assert scene.gpus("waiting") == 3
    scene.units.remove("uid-waits")
    await scene.counts.count()
    assert scene.gpus("waiting") is None


async def test_oldest_pod_that_waits_is_told_by_when_it_was_created(scene: Scene) -> None:
    scene.unit("runs", base=BaseState.RUNNING, created="1970-01-01T00:00:10Z")
    scene.unit("older", created="1970-01-01T00:01:00Z")
    scene.unit("younger", created="1970-01-01T00:02:00Z")
    await scene.counts.count()
    place = {"pod_namespace": "team", "partition": "gpu"}
    assert scene.value("oldest_waiting_pod_timestamp_seconds", **place) == 60


async def test_partition_tells_how_many_of_its_pods_wait_and_why(scene: Scene) -> None:
    scene.unit("one", namespace="a")
    scene.unit("two", namespace="b")
    await scene.counts.count()
    labels = {"partition": "gpu", "state": "pending", "reason": "None"}
    assert scene.value("partition_pods", **labels) == 2


async def test_namespaces_and_partitions_without_end_share_a_series(scene: Scene) -> None:
    for number in range(MOST_PLACES + 50):
        scene.unit(f"pod-{number}", namespace=f"ns-{number}", partition=f"p-{number}")
    await scene.counts.count()
    assert scene.series("gpus") == MOST_PLACES + 1
    assert scene.gpus("waiting", namespace="_other", partition="_other") == 2 * 50
    assert scene.series("oldest_waiting_pod_timestamp_seconds") == MOST_PLACES + 1
    assert scene.series("partition_pods") == 101


def test_wait_is_observed_at_its_place(scene: Scene) -> None:
    scene.metrics.queue_waits.observe(("team", "gpu"), 3.5, now=0.0)
    place = {"pod_namespace": "team", "partition": "gpu"}
    assert scene.value("queue_wait_seconds_sum", **place) == 3.5


async def test_place_where_pods_wait_has_a_series_before_the_first_of_them_starts(
    scene: Scene,
) -> None:
    scene.unit("waits")
    await scene.counts.count()
    place = {"pod_namespace": "team", "partition": "gpu"}
    assert scene.value("queue_wait_seconds_count", **place) == 0


def test_waits_in_places_without_end_share_a_series_until_others_are_idle_for_an_hour(
    scene: Scene,
) -> None:
    waits = scene.metrics.queue_waits
    for number in range(MOST_PLACES):
        waits.observe((f"ns-{number}", "gpu"), 1.0, now=float(number))
    waits.observe(("ns-0", "gpu"), 1.0, now=500.0)
    waits.observe(("late", "gpu"), 1.0, now=501.0)
    rest = {"pod_namespace": "_other", "partition": "_other"}
    assert scene.value("queue_wait_seconds_count", **rest) == 1
    waits.observe(("late", "gpu"), 1.0, now=1.0 + SERIES_KEPT_SECONDS)
    names = ("late", "ns-0", "ns-1")
    counts = [
        scene.value("queue_wait_seconds_count", pod_namespace=it, partition="gpu") for it in names
    ]
    assert counts == [1, 2, None]
    assert scene.series("queue_wait_seconds") == 2 * (MOST_PLACES + 1)


async def test_pods_of_a_gang_are_counted_with_pauses(scene, monkeypatch):
    """What 1024 pods with many containers ask for took 470 ms in one turn of the loop."""

    def dear(pod: Pod) -> dict[str, int]:
        until = thread_time() + 0.003
        while thread_time() < until:
            pass
        return {GPU: 2}

    monkeypatch.setattr(place_counts, "requests_of", dear)
    gang = scene.unit("g0", gpus=2)
    for number in range(1, 20):
        gang.members |= scene.unit(f"g{number}").members
    scene.units = Units()
    scene.units.add(Unit("gang", "team", "gang", seen_at=0.0, job=gang.job, members=gang.members))
    scene.counts._units = scene.units
    async with beside() as turns:
        await scene.counts.count()
    assert scene.gpus("waiting") == 40
    assert turns.count >= 10
