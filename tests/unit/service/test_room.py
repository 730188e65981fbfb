"""Pods that come and go give a pass to those pods alone that no Node could take because of pods."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from scheduler.kube.demands import depends_on_pods
from scheduler.nodes.fit import demands_of
from scheduler.nodes.neighbourhood import RoomChange
from tests.unit.service.test_requirements import PORT, SPREAD, ZONE, needs, pod
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime
# Longer than changes wait until they are reported, and shorter than a pod that fits nowhere waits
# until it is looked at without a change.
REPORTED_SECONDS = 5.0


def passes(service: Service) -> float:
    return service.metric("workqueue_adds_total")


def reason_of(kube: TinyKube, uid: str) -> str:
    condition = kube.condition_of(uid)
    return "" if condition is None else condition.reason


async def passes_while_others_come_and_go(service: Service, **spec: Any) -> float:
    before = passes(service)
    for number in range(20):
        service.kube.add_neighbour(pod(f"batch-{number}", node="n1", app="batch", **spec))
        await asyncio.sleep(REPORTED_SECONDS / 20)
        service.kube.remove_neighbour(f"batch-{number}")
    return passes(service) - before


async def test_pod_that_is_too_large_gets_no_pass_while_others_come_and_go(
    service: Service, kube: TinyKube
) -> None:
    for number in range(10):
        kube.create(f"uid-{number}", name=f"large-{number}", cpu="1000")
    service.start()
    await asyncio.sleep(5)
    assert {reason_of(kube, f"uid-{number}") for number in range(10)} == {"NoNodeFits"}
    assert await passes_while_others_come_and_go(service) == 0


async def test_pod_that_waits_for_a_port_is_served_once_it_is_free(
    service: Service, kube: TinyKube, slurm: TinySlurm
) -> None:
    service.start()
    for name in ("n1", "n2"):
        kube.add_neighbour(pod(f"web-{name}", node=name, **PORT))
    kube._put(pod("uid-1", **PORT))
    await asyncio.sleep(2)
    assert not slurm.jobs
    kube.remove_neighbour("web-n1")
    await asyncio.sleep(REPORTED_SECONDS)
    assert slurm.submissions[1].excluded_nodes == ("n2",)


@pytest.mark.parametrize("sooner", [0.2, 0.5, 0.9, 1.5, 2.5])
async def test_room_that_comes_right_after_a_survey_is_seen(
    service: Service, kube: TinyKube, slurm: TinySlurm, sooner: float
) -> None:
    """However long before the report of changes: the pass after it may still rely on the survey."""
    service.start()
    for name in ("n1", "n2"):
        kube.add_neighbour(pod(f"web-{name}", node=name, **PORT))
    await asyncio.sleep(6 - sooner - 0.1)
    kube._put(pod("uid-1", **PORT))
    await asyncio.sleep(0.3)
    kube.remove_neighbour("web-n1")
    await asyncio.sleep(2 * REPORTED_SECONDS)
    assert slurm.submissions[1].excluded_nodes == ("n2",)


async def test_pod_that_others_keep_away_is_served_once_they_have_gone(
    service: Service, kube: TinyKube, slurm: TinySlurm
) -> None:
    for name in ("n1", "n2"):
        kube.set_node(name, labels={ZONE: name})
    alone = needs("podAntiAffinity", labelSelector={"matchLabels": {"app": "train"}})
    for name in ("n1", "n2"):
        kube.add_neighbour(pod(f"alone-{name}", node=name, **alone))
    service.start()
    kube._put(pod("uid-1"))
    await asyncio.sleep(2)
    assert reason_of(kube, "uid-1") == "NoNodeFits"
    kube.remove_neighbour("alone-n2")
    await asyncio.sleep(REPORTED_SECONDS)
    assert slurm.submissions[1].excluded_nodes == ("n1",)


async def test_change_is_taken_twice_and_says_whom_it_concerns(
    service: Service, kube: TinyKube
) -> None:
    around = service.fit.around
    assert around.taken_change() is None
    kube.add_neighbour(pod("a", node="n1"))
    assert around.taken_change() is RoomChange.FOR_DEPENDENT
    assert around.taken_change() is RoomChange.FOR_DEPENDENT
    assert around.taken_change() is None
    kube.add_neighbour(pod("b", node="n1", **needs("podAntiAffinity")))
    assert around.taken_change() is RoomChange.FOR_DEPENDENT
    kube.remove_neighbour("b")
    kube.remove_neighbour("a")
    assert around.taken_change() is RoomChange.FOR_ALL
    assert around.taken_change() is RoomChange.FOR_ALL
    assert around.taken_change() is None


@pytest.mark.parametrize(
    "spec",
    [
        {},
        PORT,
        SPREAD,
        {"topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}]},
        needs("podAffinity"),
        needs("podAntiAffinity"),
        {"affinity": {"podAffinity": {}, "nodeAffinity": {}}},
        {"initContainers": [{"name": "i", "ports": [{"hostPort": 80}]}]},
        {"initContainers": [{"name": "i", "restartPolicy": "Always", "ports": [{"hostPort": 80}]}]},
    ],
)
def test_pod_depends_on_others_if_its_demands_do(spec: dict[str, Any]) -> None:
    assert depends_on_pods(pod("uid-1", **spec)) == demands_of(pod("uid-1", **spec)).special
