"""A pod cannot come back to its slot while others of its gang run: it waits, or all go."""

from __future__ import annotations

from typing import Any, Final

import pytest
from msgspec.structs import replace

from scheduler.core.actions import Action, Again, Bind, Cancel, DropJob, Evict, Reseat, Tell
from scheduler.core.decide import decide
from scheduler.core.event_reasons import Reason
from scheduler.core.evidence import is_weak
from scheduler.core.facts import PodStage, UnitFacts
from scheduler.core.node_suitability import Place, Unfit
from scheduler.core.owner_tag import read_tag
from scheduler.core.refused_bind import ALLOCATION_KEPT_SECONDS, RefusedBind
from scheduler.core.stuck import LOOK_SECONDS
from tests.unit.core.test_gang import HELD, NODES, OF_THREE, gang, gang_tag, running, waiting
from tests.unit.core.things import JOB, NOT_READY, NOW, TAINTED, places, pod, tracked

RELEASE: Final = replace(OF_THREE, on_lost_slot="release")
AGAIN: Final = pod(PodStage.WAITING, uid="anew", rank=1, name="trainer-1")
NAMED: Final = replace(HELD, admin_comment=gang_tag("uid-0", "anew", "uid-2"))
LESS: Final = replace(HELD, nodes=("n3", "n2"))


def of(kind: type[Action], actions: tuple[Action, ...]) -> list[Any]:
    return [it for it in actions if isinstance(it, kind)]


def slot_gone(**more: Any) -> UnitFacts:
    return gang(*running(0, 2), AGAIN, job=tracked(LESS), **more)


def node_unfit(unfit: Unfit, *, since: float | None, **more: Any) -> UnitFacts:
    nodes = places(*NODES) | {"n1": Place("kube-n1", unfit)}
    unit = gang(*running(0, 2), AGAIN, job=tracked(NAMED), nodes=nodes, **more)
    return replace(unit, unfit_since=since)


def bind_refused(since: float, **more: Any) -> UnitFacts:
    refused = RefusedBind(JOB, "a webhook says no", since=since, again_at=NOW + 7)
    return gang(*running(0, 2), AGAIN, job=tracked(NAMED), refused_bind=refused, **more)


LASTING: Final = {
    "slot gone": (slot_gone, Reason.GANG_SLOT_LOST, "has no node for rank 1 (trainer-1) any more"),
    "not ready": (
        lambda **more: node_unfit(NOT_READY, since=NOW - 60, **more),
        Reason.NODE_UNAVAILABLE,
        "Kubernetes Node kube-n1 (Slurm node n1) is not ready",
    ),
    "unfit": (
        lambda **more: node_unfit(TAINTED, since=NOW - 60, **more),
        Reason.NODE_UNAVAILABLE,
        "has the taint a:NoSchedule",
    ),
    "no Node": (
        lambda **more: node_unfit(Unfit("maps to no Kubernetes Node"), since=NOW - 60, **more),
        Reason.NODE_UNAVAILABLE,
        "maps to no Kubernetes Node",
    ),
    "refused": (
        lambda **more: bind_refused(NOW - ALLOCATION_KEPT_SECONDS, **more),
        Reason.BIND_REFUSED,
        "a webhook says no",
    ),
}


@pytest.mark.parametrize("cause", LASTING)
def test_pod_that_waits_says_what_is_wrong_and_what_to_do(cause):
    make, reason, text = LASTING[cause]
    actions = decide(make(), NOW)
    (tell,) = of(Tell, actions)
    assert (tell.pod, tell.reason) == (AGAIN, reason)
    assert text in tell.message
    assert "--gang-lost-slot is wait" in tell.message
    assert "annotate those that wait with sunk.coreweave.com/gang-lost-slot=release" in tell.message
    assert tell.message.endswith("set --gang-lost-slot=release")
    assert not of(Evict, actions)
    assert not of(Cancel, actions)
    assert min(it.seconds for it in of(Again, actions)) >= min(LOOK_SECONDS, 7)


@pytest.mark.parametrize("cause", LASTING)
def test_all_pods_of_a_gang_that_is_released_end_with_the_cause(cause):
    make, reason, text = LASTING[cause]
    actions = decide(make(of=RELEASE), NOW)
    evicts = of(Evict, actions)
    assert [it.pod.uid for it in evicts] == ["uid-0", "uid-2"]
    assert {it.reason for it in evicts} == {Reason.GANG_RELEASED}
    assert all(text in it.message for it in evicts)
    assert [it.reason for it in of(Tell, actions)] == [reason]
    assert not of(Cancel, actions)
    evict = evicts[0]
    assert is_weak(evict.evidence, evict.reason, seen_at=NOW, doubted_at=float("-inf"))


@pytest.mark.parametrize("setting", [OF_THREE, RELEASE])
@pytest.mark.parametrize(
    "young",
    [
        lambda **more: node_unfit(TAINTED, since=NOW - 59, **more),
        lambda **more: node_unfit(NOT_READY, since=None, **more),
        lambda **more: bind_refused(NOW - 59, **more),
    ],
)
def test_nothing_is_released_within_the_first_minute(young, setting):
    actions = decide(young(of=setting), NOW)
    (tell,) = of(Tell, actions)
    assert tell.pod == AGAIN
    assert "gang-lost-slot" not in tell.message
    assert not of(Evict, actions)


def test_others_that_come_again_are_bound_beside_one_whose_node_is_unfit():
    second = pod(PodStage.WAITING, uid="anew-2", rank=2)
    tag = gang_tag("uid-0", "anew", "anew-2")
    unit = node_unfit(NOT_READY, since=NOW - 60)
    named = tracked(replace(HELD, admin_comment=tag))
    actions = decide(replace(unit, pods=(*running(0), AGAIN, second), job=named), NOW)
    assert [it.pod for it in of(Bind, actions)] == [second]
    assert [it.pod for it in of(Tell, actions)] == [AGAIN]


def test_released_gang_asks_for_one_job_anew_once_no_pod_runs():
    unit = gang(*waiting(0, 2), AGAIN, of=RELEASE, job=tracked(LESS))
    actions = decide(unit, NOW)
    assert of(DropJob, actions)
    assert of(Cancel, actions)


def test_pod_is_told_that_its_slot_is_lost_once_the_tag_has_it_no_more():
    """The tag has two seats once another pod has come again."""
    tag = read_tag(gang_tag("uid-0", "uid-2", ranks=(0, 2)))
    assert tag is not None
    less = replace(LESS, admin_comment=tag.encode())
    unit = gang(*running(0, 2), AGAIN, job=tracked(less))
    actions = decide(unit, NOW)
    assert not of(Reseat, actions)
    assert not of(Bind, actions)
    assert [(it.pod, it.reason) for it in of(Tell, actions)] == [(AGAIN, Reason.GANG_SLOT_LOST)]
    alone = decide(replace(unit, pods=(*waiting(0, 2), AGAIN)), NOW)
    assert of(DropJob, alone)
