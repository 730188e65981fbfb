"""A change of a pod that no decision reads brings no pass."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from annotations import PREFIX
from scheduler.core.naming import JOB_ID
from scheduler.kube.wire import PodCondition, PodStatus
from scheduler.reconcile.workqueue import WorkQueue
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime
UID = "01234567-89ab"


def passes(service: Service) -> float:
    """How many were asked for."""
    return service.metric("workqueue_adds_total")


async def shown(kube: TinyKube) -> None:
    await asyncio.sleep(2 * kube.lag)


async def passes_after(change: Callable[[], object], service: Service, kube: TinyKube) -> float:
    """How many are asked for as soon as the watch shows this change."""
    before = passes(service)
    change()
    await shown(kube)
    return passes(service) - before


async def waits(service: Service, kube: TinyKube) -> None:
    """Start the service, with a pod whose job waits. (In a fixture, time would be real.)"""
    service.start()
    kube.create(UID)
    await asyncio.sleep(1)


async def just_bound(service: Service, kube: TinyKube, slurm: TinySlurm) -> None:
    """The same, and return at the moment at which the pod is bound."""
    await waits(service, kube)
    slurm.start(max(slurm.jobs))
    async with asyncio.timeout(10):
        while not kube.bindings:  # noqa: ASYNC110 - a mere list
            await asyncio.sleep(kube.lag)


async def runs(service: Service, kube: TinyKube, slurm: TinySlurm) -> None:
    """The same, and return after the pass that comes 5 s after the binding."""
    await just_bound(service, kube, slurm)
    await asyncio.sleep(9)


async def test_report_of_a_kubelet_on_a_pod_that_goes_on_brings_no_pass(
    service: Service, kube: TinyKube, slurm: TinySlurm
) -> None:
    await runs(service, kube, slurm)
    before = passes(service)
    for ready in ("False", "True"):
        condition = PodCondition(type="PodScheduled", status=ready)
        kube.report(UID, PodStatus(phase="Running", conditions=(condition,)))
        await shown(kube)
    assert passes(service) == before


async def test_end_edit_and_deletion_of_a_running_pod_bring_a_pass(
    service: Service, kube: TinyKube, slurm: TinySlurm
) -> None:
    await runs(service, kube, slurm)
    changes: list[Callable[[], None]] = [
        partial(kube.edit, UID, {f"{PREFIX}comment": "another"}),
        partial(kube.edit, UID, {JOB_ID: "4711"}),
        partial(kube.delete, UID, grace=20),
        partial(kube.report, UID, PodStatus(phase="Failed")),
    ]
    for change in changes:
        assert await passes_after(change, service, kube) == 1


async def test_foreign_annotation_of_a_waiting_pod_brings_no_pass(
    service: Service, kube: TinyKube
) -> None:
    await waits(service, kube)
    change = partial(kube.edit, UID, {"example.com/of-others": "x" * 1000})
    assert await passes_after(change, service, kube) == 0


async def test_own_binding_brings_its_pass_seconds_later(
    service: Service, kube: TinyKube, slurm: TinySlurm
) -> None:
    """In a burst, other pods wait for their binding meanwhile."""
    await just_bound(service, kube, slurm)
    unit, before = service.units.get(UID), passes(service)
    assert unit is not None
    await asyncio.sleep(4)
    assert passes(service) == before
    assert not unit.waiting
    await asyncio.sleep(2)
    assert passes(service) == before + 1


async def test_the_more_units_wait_the_later_is_the_pass_after_a_binding(
    service: Service, kube: TinyKube, slurm: TinySlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WorkQueue, "__len__", lambda _self: 2000)
    await just_bound(service, kube, slurm)
    before = passes(service)
    await asyncio.sleep(24)
    assert passes(service) == before
    await asyncio.sleep(2)
    assert passes(service) == before + 1


async def test_edit_of_a_pod_that_was_just_bound_brings_a_pass_at_once(
    service: Service, kube: TinyKube, slurm: TinySlurm
) -> None:
    await just_bound(service, kube, slurm)
    await asyncio.sleep(1)
    change = partial(kube.edit, UID, {f"{PREFIX}comment": "another"})
    assert await passes_after(change, service, kube) == 1


async def test_binding_by_another_hand_brings_a_pass_at_once(
    service: Service, kube: TinyKube
) -> None:
    await waits(service, kube)
    pod, before = kube.store.get(UID), passes(service)
    assert pod is not None
    await kube.bind(pod.metadata.namespace, pod.metadata.name, UID, node="n2", annotations={})
    await shown(kube)
    assert passes(service) == before + 1
