"""Which ends of pods count as too soon, and what is said to the next one."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from scheduler.core.crash_pause import TOO_SOON_SECONDS
from scheduler.facts.successors import Successors
from scheduler.kube.wire import (
    ContainerState,
    ContainerStatus,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodCondition,
    PodStatus,
    StateTerminated,
)
from scheduler.observe.metrics import Metrics
from scheduler.state.units import Unit

OWNER = OwnerReference("ReplicaSet", "web-1", "set-uid", "apps/v1", controller=True)
BYSTANDER = OwnerReference("ConfigMap", "notes", "notes-uid", "v1")
EXIT = ContainerStatus("main", ContainerState(terminated=StateTerminated(exit_code=3)))
FAILED = PodStatus(phase="Failed", container_statuses=(EXIT,))
EVICTED = PodStatus(
    phase="Running",
    conditions=(
        PodCondition("DisruptionTarget", "True", "Preempted", "Slurm job 7 was preempted"),
    ),
)
GOING = datetime(2026, 1, 1, tzinfo=UTC)


class Stage:
    """One pod after the other, on a clock that the test moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.metrics = Metrics()
        self.successors = Successors(metrics=self.metrics, clock=lambda: self.now)

    def lives(
        self, new: Pod, *, seconds: float = 1.0, status: PodStatus = FAILED, times: int = 1
    ) -> Unit:
        """A pod comes, lives for so long, and ends as `status` says, seen so many times."""
        meta = new.metadata
        unit = Unit(meta.uid, meta.namespace, meta.name, seen_at=self.now)
        unit.seen.forerunner = self.successors.take(new)
        unit.asked.tried_at = max(
            self.now, 0.0 if unit.seen.forerunner is None else unit.seen.forerunner.until
        )
        self.now = unit.asked.tried_at + seconds
        for _ in range(times):
            self.successors.saw(unit, msgspec.structs.replace(new, status=status))
        return unit

    def waits(self, new: Pod) -> float:
        found = self.successors.take(new)
        return 0.0 if found is None else found.until - self.now

    @property
    def counted(self) -> float | None:
        return self.metrics.registry.get_sample_value("slurm_pod_scheduler_early_ends_total")


def pod(
    *owners: OwnerReference, namespace: str = "ns", deleted: bool = False, **labels: str
) -> Pod:
    given = {name.replace("_", "-"): value for name, value in labels.items()}
    meta = ObjectMeta("web-1-abc", namespace, "uid", labels=given, owner_references=owners)
    return Pod(msgspec.structs.replace(meta, deletion_timestamp=GOING if deleted else None))


NEW = pod(BYSTANDER, OWNER)


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_second_early_end_in_a_row_holds_the_next_one_back(stage):
    stage.lives(NEW)
    assert stage.waits(NEW) == 0
    stage.lives(NEW)
    unit = stage.lives(NEW)
    assert unit.seen.forerunner is not None
    assert unit.seen.forerunner.times == 1
    assert 7.5 <= stage.waits(NEW) <= 10


@pytest.mark.parametrize("status", [FAILED, EVICTED])
def test_each_further_one_waits_longer(stage, status):
    pauses = []
    for _ in range(8):
        ended = stage.now
        unit = stage.lives(NEW, status=status)
        pauses.append((unit.asked.tried_at or 0.0) - ended)
    assert pauses[:2] == [0, 0]
    expected = (10, 20, 40, 80, 160, 300)
    assert all(0.75 * it <= pause <= it for pause, it in zip(pauses[2:], expected, strict=True))
    assert stage.counted == 8


def test_one_that_lives_long_enough_begins_a_new_count(stage):
    for _ in range(5):
        stage.lives(NEW)
    stage.lives(NEW, seconds=TOO_SOON_SECONDS + 0.1)
    assert stage.successors.take(NEW) is None


@pytest.mark.parametrize(
    ("new", "status"),
    [
        (pod(), FAILED),
        (pod(BYSTANDER), FAILED),
        (NEW, PodStatus(phase="Succeeded")),
        (NEW, PodStatus(phase="Running")),
        (pod(OWNER, deleted=True), PodStatus(phase="Running")),
        (pod(OWNER, deleted=True), FAILED),
    ],
    ids=["nobody's", "not controlled", "succeeded", "runs", "deleted", "deleted and stopped"],
)
def test_other_ends_hold_nobody_back(stage, new, status):
    for _ in range(3):
        stage.lives(new, status=status)
    assert stage.waits(new) == 0
    assert stage.counted == 0


def test_end_counts_once_however_often_it_is_seen(stage):
    stage.lives(NEW, times=3)
    assert stage.successors.take(NEW) is not None
    assert stage.successors.take(NEW) is None


def test_pod_that_another_process_started_is_not_judged(stage):
    unit = Unit("uid", "ns", "web-1-abc", seen_at=0.0)
    stage.successors.saw(unit, msgspec.structs.replace(NEW, status=FAILED))
    assert stage.successors.take(NEW) is None


def test_another_revision_of_a_stateful_set_is_tried_at_once(stage):
    old, new = (pod(OWNER, controller_revision_hash=it) for it in ("1", "2"))
    stage.lives(old)
    stage.lives(old)
    assert stage.waits(new) == 0
    assert stage.waits(old) > 0


def test_pods_of_another_namespace_hold_nobody_back_by_the_uid_of_a_controller(stage):
    """An owner reference is what a pod's author wrote, so it may have any uid."""
    hostile, victim = pod(OWNER, namespace="evil"), pod(OWNER, namespace="team-b")
    for _ in range(7):
        stage.lives(hostile)
    assert stage.successors.take(victim) is None
    assert stage.waits(hostile) > 0


@pytest.mark.parametrize(
    ("status", "how"),
    [
        (FAILED, "web-1-abc: pod Failed: container main exit 3"),
        (EVICTED, "web-1-abc: Preempted: Slurm job 7 was preempted"),
    ],
)
def test_next_one_is_told_of_whom_how_and_until_when(stage, status, how):
    stage.lives(NEW, status=status)
    stage.lives(NEW, status=status)
    found = stage.successors.take(NEW)
    assert found is not None
    assert found.message.startswith("The last 2 pods of ReplicaSet web-1, which this pod replaces")
    assert how in found.message
    until = datetime.strptime(
        found.message.partition("is submitted at ")[2][:20], "%Y-%m-%dT%H:%M:%S%z"
    )
    assert 0 < until.timestamp() - datetime.now(UTC).timestamp() <= 11
