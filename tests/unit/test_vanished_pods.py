"""What pods left that went by force: found by Node, forgotten in time, and bounded in bytes."""

from __future__ import annotations

import tracemalloc
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from scheduler.core.naming import JOB_NODES
from scheduler.kube.wire import (
    Container,
    ContainerState,
    ContainerStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    StateTerminated,
)
from scheduler.nodes.presence import CLAIM_SECONDS, LONGEST_DELETION_SECONDS, Presence
from scheduler.nodes.vanished_pods import MOST_BOUND, MOST_CLAIMED
from scheduler.state.pod_remains import KUBELET_SECONDS

_CENTURY = 3_000_000_000
_BYTES = 1536  # of one pod whose name is as long as a name may be


class Scene:
    """Pods that come to a Node and are deleted by force, and a clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.binding: dict[str, str] = {}
        self.presence = Presence(binding=self.binding, clock=lambda: self.now)

    def goes(
        self, uid: str, *, proven: bool, namespace: str = "ns", grace: int = 20, name: str = "train"
    ) -> None:
        if proven:
            self.binding[uid] = "n1"
        pod = Pod(
            ObjectMeta(
                name=name,
                namespace=namespace,
                uid=uid,
                annotations={JOB_NODES: "n1"},
                deletion_timestamp=datetime.now(UTC),
            ),
            PodSpec(node_name="n1", termination_grace_period_seconds=grace),
            PodStatus(phase="Running"),
        )
        self.presence.changed(None, pod)
        self.presence.changed(pod, None)

    def left(self) -> frozenset[str]:
        return frozenset(self.presence.on(["n1"], has_job=lambda _uid: False))

    def sweep(self) -> None:
        """Any news of any pod."""
        self.presence.changed(Pod(ObjectMeta(name="x", uid="x")), None)


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.mark.parametrize("proven", [True, False])
def test_pod_that_went_by_force_is_there_for_its_grace_and_30_s(scene, proven):
    scene.goes("a", proven=proven)
    scene.now = 20 + KUBELET_SECONDS - 0.1
    assert scene.left() == {"a"}
    assert scene.presence.node_of("a") == "n1"
    scene.now += 0.1
    assert scene.left() == frozenset()
    assert scene.presence.node_of("a") is None
    scene.sweep()
    assert not scene.presence._placed
    assert not scene.presence._parted


def test_grace_of_a_forged_pod_counts_no_longer_than_its_authors_word(scene):
    scene.goes("a", proven=False, grace=_CENTURY)
    scene.now = CLAIM_SECONDS + KUBELET_SECONDS
    assert scene.left() == frozenset()


@pytest.mark.parametrize(("proven", "most"), [(True, MOST_BOUND), (False, MOST_CLAIMED)])
def test_pods_of_one_namespace_that_go_without_end_take_bounded_memory(scene, proven, most):
    """However long their grace is; those that went first are forgotten."""
    scene.goes("another's", proven=proven, namespace="another", grace=_CENTURY)
    scene.goes("proven", proven=True, namespace="few", grace=_CENTURY)
    tracemalloc.start()
    for number in range(most + 1000):
        scene.goes(f"{number:036}", proven=proven, grace=_CENTURY, name=f"{number:0253}")
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert taken < most * _BYTES
    assert len(scene.left()) == most + 2
    assert {"another's", "proven"} <= scene.left()


def test_forged_pods_push_out_none_that_slurm_gave_a_node(scene):
    scene.goes("real", proven=True)
    for number in range(MOST_CLAIMED + 10):
        scene.goes(f"forged-{number}", proven=False)
    assert "real" in scene.left()


def seen_leaving(scene: Scene, *, proven: bool, grace: int) -> Pod:
    """A pod whose deletion gives it that grace period, as the watch has shown it."""
    if proven:
        scene.binding["a"] = "n1"
    meta = ObjectMeta(
        name="train",
        namespace="ns",
        uid="a",
        annotations={JOB_NODES: "n1"},
        deletion_timestamp=datetime.now(UTC),
        deletion_grace_period_seconds=grace,
    )
    pod = Pod(meta, PodSpec(node_name="n1", termination_grace_period_seconds=20))
    scene.presence.changed(None, pod)
    return replace(pod, metadata=replace(meta, deletion_grace_period_seconds=0))


@pytest.mark.parametrize(
    ("proven", "longest"), [(True, LONGEST_DELETION_SECONDS), (False, CLAIM_SECONDS)]
)
def test_grace_of_a_deletion_that_nobody_can_shorten_any_more_is_bounded(scene, proven, longest):
    final = seen_leaving(scene, proven=proven, grace=_CENTURY)
    scene.presence.changed(final, None)
    scene.now = longest + KUBELET_SECONDS - 0.1
    assert scene.left() == {"a"}
    scene.now += 0.1
    assert scene.left() == frozenset()


def stopped(pod: Pod) -> Pod:
    ended = ContainerStatus("c", ContainerState(terminated=StateTerminated(exit_code=1)))
    spec = replace(pod.spec, containers=(Container(name="c"),))
    return replace(pod, spec=spec, status=PodStatus(container_statuses=(ended,)))


def test_pod_that_had_stopped_while_it_was_being_deleted_leaves_nothing(scene):
    final = seen_leaving(scene, proven=True, grace=20)
    scene.presence.changed(stopped(final), None)
    assert scene.left() == frozenset()


def test_deletion_that_only_the_final_state_shows_was_by_force(scene):
    """Its containers had ended, but its kubelet may have started them again."""
    final = stopped(seen_leaving(scene, proven=True, grace=0))
    scene.presence.changed(final, None)
    assert scene.left() == {"a"}
