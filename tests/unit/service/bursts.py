"""Pods that come at once, as of a large array, and a Slurm that starts them all."""

from __future__ import annotations

import asyncio
from functools import partial

from slurmapi import JobSubmission
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import NODES, TinySlurm


async def burst(
    service: Service, slurm: TinySlurm, kube: TinyKube, *, count: int, after: float
) -> None:
    """Start the service, create so many pods once it knows Slurm's jobs, as a process does before
    its first pass, and return when all are bound. Slurm starts each job so many seconds after its
    submit.
    """

    def started_later(_submission: JobSubmission) -> None:
        job_id = slurm.next_id
        start = partial(slurm.start, job_id, node=NODES[job_id % len(NODES)])
        asyncio.get_running_loop().call_later(after, start)

    def bound(_uid: str, _node: str) -> None:
        if len(kube.bindings) + 1 == count:
            asyncio.get_running_loop().call_later(0.1, all_bound.set)

    all_bound = asyncio.Event()
    slurm.job_submit, kube.on_bind = started_later, bound
    service.start()
    async with asyncio.timeout(60):
        while service.census.completed_at is None:  # noqa: ASYNC110 - a mere number
            await asyncio.sleep(kube.lag)
        for number in range(count):
            kube.create(f"uid-{number}", name=f"train-{number}")
        await all_bound.wait()
