"""Twenty pods that run, as many as the brake counts."""

from __future__ import annotations

import asyncio

from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import TinySlurm

PODS = [f"{number:08}-uid" for number in range(20)]


async def fill(slurm: TinySlurm, kube: TinyKube, service: Service) -> None:
    """Have them run on one node."""
    service.start()
    for number, uid in enumerate(PODS):
        kube.create(uid, name=f"train-{number}")
    await asyncio.sleep(5)
    for job_id in list(slurm.jobs):
        slurm.start(job_id, node="n1")
    await asyncio.sleep(5)
    assert sorted(uid for uid, _ in kube.bindings) == PODS
