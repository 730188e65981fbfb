"""`kubectl describe pod` tells of an outage: one Event for each pod, at a bounded rate in all."""

from __future__ import annotations

import asyncio

import pytest
import structlog

from scheduler.core.event_reasons import Reason
from slurmapi import SlurmInvalid, SlurmUnreachable
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import TinySlurm

# An hour of virtual time takes 12 s of CPU, and more where the cores have other work.
pytestmark = [pytest.mark.looptime, pytest.mark.timeout(300)]

_UNAVAILABLE = str(Reason.SLURM_UNAVAILABLE)


def _told_of_outage(service: Service) -> dict[str, int]:
    found: dict[str, int] = {}
    for event in service.recorder.events:
        if event.reason == _UNAVAILABLE:
            found[event.uid] = found.get(event.uid, 0) + 1
    return found


async def test_each_pod_is_told_once_in_each_outage(
    service: Service, slurm: TinySlurm, kube: TinyKube
) -> None:
    for number in range(3):
        kube.create(f"uid-{number}", name=f"train-{number}")
    service.start()
    for outage in (1, 2):
        slurm.fail["submit"].extend(SlurmUnreachable("refused") for _ in range(1000))
        for job_id in list(slurm.jobs):
            slurm.forget(job_id)  # so that each pod asks for another
        await asyncio.sleep(300)
        assert sorted(_told_of_outage(service).values()) == [outage] * 3
        slurm.fail["submit"].clear()
        await asyncio.sleep(120)
        assert len(slurm.jobs) == 3


async def test_outage_of_many_pods_leaves_room_for_other_events(
    service: Service, slurm: TinySlurm, kube: TinyKube
) -> None:
    slurm.fail["submit"].extend(SlurmUnreachable("refused") for _ in range(10_000))
    for number in range(300):
        kube.create(f"uid-{number}", name=f"train-{number}")
    service.start()
    await asyncio.sleep(20)
    assert len(service.recorder.events) <= 20 + 20 * 5
    await asyncio.sleep(600)
    message = _told_of_outage(service)
    assert len(message) == 300, "each in its turn"
    assert set(message.values()) == {1}


async def test_refusal_is_logged_once_for_each_message(
    service: Service, slurm: TinySlurm, kube: TinyKube
) -> None:
    no = SlurmInvalid("Invalid account", error_number=2045)
    slurm.fail["submit"].extend([no, no, no, SlurmInvalid("Invalid qos", error_number=2066)])
    kube.create("uid-1")
    with structlog.testing.capture_logs() as lines:
        service.start()
        await asyncio.sleep(1200)
    refused = [line for line in lines if line["event"] == "pod refused"]
    assert [line["reason"] for line in refused] == ["SlurmRejected", "SlurmRejected"]
    assert refused[0]["namespace"]
    assert "Invalid account" in refused[0]["message"]
    assert "Invalid qos" in refused[1]["message"]


async def test_pod_that_cannot_be_served_leaves_a_line(service: Service, kube: TinyKube) -> None:
    kube.create("uid-1", cpu="")
    with structlog.testing.capture_logs() as lines:
        service.start()
        await asyncio.sleep(600)
    (refused,) = [line for line in lines if line["event"] == "pod refused"]
    assert refused["reason"] == "SchedulingFailed"
    assert refused["namespace"] == "ns"
    assert "cpu" in refused["message"]
