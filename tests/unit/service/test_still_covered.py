"""What is remembered of the pods on a Node changes no answer about who is in the way there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from datetime import UTC, datetime
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.in_the_way import InWay
from scheduler.core.naming import JOB_NODES
from scheduler.core.owner_tag import Owner
from scheduler.kube.wire import ObjectMeta, Pod, PodSpec, PodStatus
from scheduler.nodes.coverage import Coverage
from scheduler.nodes.presence import Presence
from scheduler.state.units import Placeholder, Unit, Units
from slurmapi import BaseState
from tests.support.costs import calls
from tests.unit.core.things import OURS, record, state, tag

NEW: Final = "new"
OTHERS: Final = ("a", "b", "c")
NODES: Final = ("n1", "n2")


class _Forgetful(Coverage):
    """Judges each pod on the Node anew."""

    def _still_covered(
        self, _nodes: Iterable[str], _kube_node: Callable[[str], str], *, beside: Placeholder
    ) -> Set[str]:
        del beside
        return frozenset()


class Side:
    """What one of the two knows of the pods."""

    def __init__(self, kind: type[Coverage], scene: Scene) -> None:
        self.binding: dict[str, str] = {}
        self.presence = Presence(binding=self.binding, clock=lambda: scene.now)
        self.coverage = kind(
            units=scene.units,
            presence=self.presence,
            owner=OURS,
            kube_node=lambda node: scene.behind.get(node, node),
            keeps_suspended=False,
            clock=lambda: scene.now,
            epoch=lambda: scene.now,
        )


class Scene:
    """Three pods, and a fourth that has got n1 and n2."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.units = Units()
        self.behind: dict[str, str] = {}
        self.there: dict[str, Pod] = {}
        self.sides = [Side(kind, self) for kind in (Coverage, _Forgetful)]
        self.new = self.units.add(Unit(NEW, "ns", NEW, seen_at=0.0, job=Placeholder(1)))
        self.set_runs_from()
        for number, uid in enumerate(OTHERS):
            self.add_unit(uid, number)
            self.shown(uid, "n1")

    def set_runs_from(self) -> None:
        assert self.new.job is not None
        self.new.job.runs_from = self.now

    def add_unit(self, uid: str, number: int) -> None:
        self.units.remove(uid)
        job = Placeholder(number + 2)
        self.units.add(Unit(uid, "ns", uid, seen_at=0.0, job=job))
        self.looked(uid, ("n1",), OURS, BaseState.RUNNING)
        self.asked(uid)

    def job(self, uid: str) -> Placeholder:
        unit = self.units.get(uid)
        return Placeholder(99) if unit is None or unit.job is None else unit.job

    def looked(
        self, uid: str, nodes: tuple[str, ...], owner: Owner | None, base: BaseState
    ) -> None:
        comment = "" if owner is None else tag(uids=(uid,), owner=owner)
        found = record(base, nodes=nodes, admin_comment=comment, name=uid, submit_time=1)
        at = self.now
        self.job(uid).saw(found, asked=at, at=at, answered_at=at)

    def asked(self, uid: str) -> None:
        self.job(uid).asked_at = self.now

    def shown(self, uid: str, node: str) -> None:
        meta = ObjectMeta(name=uid, namespace="ns", uid=uid, annotations={JOB_NODES: node})
        self.change(uid, Pod(meta, PodSpec(node_name=node), PodStatus(phase="Running")))

    def gone(self, uid: str) -> None:
        self.change(uid, None)

    def change(self, uid: str, pod: Pod | None) -> None:
        old = self.there.pop(uid, None)
        if pod is not None:
            self.there[uid] = pod
        for side in self.sides:
            side.presence.changed(old, pod)

    def sent(self, uid: str) -> None:
        if uid not in self.there:
            for side in self.sides:
                side.binding[uid] = "n1"

    def answers(self) -> list[InWay | None]:
        return [side.coverage.in_way(self.new, NODES) for side in self.sides]

    def do(self, step: str, uid: str, node: str) -> None:
        """One thing that may happen."""
        self.now += 1.0
        unit, number = self.units.get(uid), OTHERS.index(uid)
        match step:
            case "question":
                self.answers()
            case "asked":
                self.asked(uid)
            case "new run":
                self.set_runs_from()
            case "runs" | "waits" | "ends" | "suspended":
                self.job(uid).enter(
                    state(_STATES[step]), at=self.now, asked=self.now, answered=self.now
                )
            case "missing":
                self.job(uid).missing = 1
            case "found":
                self.job(uid).missing = 0
            case "looked":
                self.looked(uid, (node,), OURS, BaseState.RUNNING)
            case "looked at two nodes":
                self.looked(uid, ("n3", node), OURS, BaseState.RUNNING)
            case "overwritten":
                self.looked(uid, (node,), None, BaseState.RUNNING)
            case "another's":
                self.looked(uid, (node,), Owner("cluster-2", "other"), BaseState.RUNNING)
            case "recognised":
                self.job(uid).recognise(record(name="another", submit_time=2))
            case "written":
                self.job(uid).wrote(record(nodes=(node,), admin_comment=tag(uids=(uid,))))
            case "lost" if unit is not None:
                self.units.set_job(unit, None)
            case "forgotten":
                self.units.remove(uid)
            case "anew":
                self.add_unit(uid, number)
            case "silent":
                self.units.silent = not self.units.silent
            case "moved":
                self.behind[node] = "n1" if self.behind.get(node) == "n2" else "n2"
            case "shown" if uid not in self.there:
                self.shown(uid, node)
            case "gone":
                self.gone(uid)
            case "sent":
                self.sent(uid)
            case "a minute":
                self.now += 60.0
            case _:
                pass


_STATES: Final = {
    "runs": BaseState.RUNNING,
    "waits": BaseState.PENDING,
    "ends": BaseState.PREEMPTED,
    "suspended": BaseState.SUSPENDED,
}
_STEPS: Final = (
    *_STATES,
    "question",
    "asked",
    "new run",
    "missing",
    "found",
    "looked",
    "looked at two nodes",
    "overwritten",
    "another's",
    "recognised",
    "written",
    "lost",
    "forgotten",
    "anew",
    "silent",
    "moved",
    "shown",
    "gone",
    "sent",
    "a minute",
)


@given(
    st.lists(
        st.tuples(st.sampled_from(_STEPS), st.sampled_from(OTHERS), st.sampled_from(NODES)),
        max_size=20,
    )
)
def test_whatever_happens_the_answer_is_that_of_one_who_remembers_nothing(steps):
    scene = Scene()
    scene.answers()
    for step in steps:
        scene.do(*step)
    remembered, anew = scene.answers()
    assert remembered == anew


@pytest.mark.parametrize("step", [it for it in _STEPS if it != "question"])
def test_each_single_thing_is_noticed(step):
    scene = Scene()
    assert scene.answers() == [None, None]
    scene.do(step, "a", "n1")
    remembered, anew = scene.answers()
    assert remembered == anew


def test_pods_that_are_covered_as_before_are_not_judged_again():
    """Whether one or forty of them share the Node."""
    found = list[int]()
    for pods in (1, 40):
        scene = Scene()
        for number in range(pods):
            scene.add_unit(f"more-{number}", 10 + number)
            scene.shown(f"more-{number}", "n1")
        coverage = scene.sides[0].coverage
        coverage.in_way(scene.new, NODES)
        with calls() as made:
            coverage.in_way(scene.new, NODES)
        found += made
    few, many = found
    assert many == few


def test_nothing_is_kept_of_a_pod_that_is_gone():
    scene = Scene()
    scene.answers()
    assert all(side.presence.covers for side in scene.sides)
    for uid in OTHERS:
        finished = Pod(
            ObjectMeta(uid=uid, deletion_timestamp=datetime.now(UTC)),
            PodSpec(node_name="n1"),
            PodStatus(phase="Succeeded"),
        )
        scene.change(uid, finished)
    assert not any(side.presence.covers or side.presence.covers._on for side in scene.sides)
