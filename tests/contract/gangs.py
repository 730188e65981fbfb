"""Jobs of several nodes for contract tests, on the models and the real servers.

The pods of a gang share such a job. Each test is asked of external jobs (26.05) and of batch jobs
(both releases), whose script runs on the first node. Each peer has two nodes or more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from scheduler.sandbox.slurm import Release
from slurmapi import BaseState, FileToken, Job, SlurmClient
from tests.contract.conftest import (
    SlurmPeer,
    is_over,
    live_peer,
    live_script_peer,
    model_peer,
    model_script_peer,
)
from tests.contract.test_slurmrestd import SCRIPT, Jobs
from tests.contract.test_submit_fields import Fields
from tests.rigs.slurm import SlurmRig
from tests.support.slurm import SlurmHand

SECONDS: Final = 60.0
# KillWait in seconds of the models; the real ones have 30.
_KILL_WAIT: Final = 5
# As (kind, release, whether the jobs are external).
EXTERNAL: Final = (
    pytest.param(("model", "26.05", True), id="model-26.05"),
    pytest.param(("live", "26.05", True), id="live-26.05", marks=pytest.mark.live),
)
SCRIPTS_26: Final = (
    pytest.param(("model", "26.05", False), id="model-26.05-scripts"),
    pytest.param(("live", "26.05", False), id="live-26.05-scripts", marks=pytest.mark.live),
)
SCRIPTS_24: Final = (
    pytest.param(("model", "24.11", False), id="model-24.11"),
    pytest.param(("live", "24.11", False), id="live-24.11", marks=pytest.mark.live),
)
PEERS: Final = (*EXTERNAL, *SCRIPTS_26, *SCRIPTS_24)
WITH_SCRIPTS: Final = (*SCRIPTS_26, *SCRIPTS_24)
# The nodes for scripts of 26.05 have no partition of a higher tier.
WITH_TIERS: Final = (*EXTERNAL, *SCRIPTS_24)


@pytest.fixture(params=PEERS)
async def gang_peer(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SlurmPeer]:
    """A model or a real Slurm, with nodes of one kind."""
    kind, major, external = request.param
    if kind == "model":
        async with model_peer(Release(major), tmp_path, kill_wait=_KILL_WAIT) as (peer, _):
            yield peer if external == peer.external else model_script_peer(peer)
        return
    rig: SlurmRig = request.getfixturevalue(f"live_slurm_{major[:2]}")
    yield live_peer(rig) if external else live_script_peer(rig)


class Gangs(Fields):
    """Jobs of several nodes of one peer."""

    def __init__(self, jobs: Jobs, peer: SlurmPeer) -> None:
        super().__init__(jobs, peer)
        self.operator = SlurmHand(peer.url, major=peer.major, token=peer.token)
        self.all_gpus = f"gres/gpu:{peer.gpus_per_node}"

    @property
    def pair(self) -> tuple[str, str]:
        """Two nodes, in Slurm's order."""
        first, second = self.peer.nodes[:2]
        return first, second

    async def gang(self, **more: Any) -> Job:
        """A job that runs on `pair` with all their GPUs, by default with two CPUs on each."""
        await self.free(*self.pair)
        wanted: dict[str, Any] = {"nodes": 2, "required_nodes": self.pair, "gres": self.all_gpus}
        return await self.running(**wanted | more)

    async def shaped(self, **fields: Any) -> Job:
        """A job that runs with fields that the client does not send."""
        await self.free(*self.pair)
        plain: dict[str, Any] = {"partition": self.peer.partition, "memory_per_node": None}
        if not self.peer.external:
            plain |= {"flags": None, "script": SCRIPT}
        job_id = await self.operator.submit("gang", **plain | fields)
        return await self.jobs.running(self.jobs.keep(job_id))

    async def next_on(self, node: str) -> int:
        """Submit a job that can run only when all GPUs of this node are free."""
        return await self.submit(required_nodes=(node,), gres=self.all_gpus)

    async def holds(self, job: Job, node: str) -> None:
        """Wait until a process of the job on this node ignores all but SIGKILL."""
        variables = (f"SLURM_JOB_ID={job.job_id}", f"SLURMD_NODENAME={node}", "HOLDS=yes")
        async with asyncio.timeout(SECONDS):
            while True:
                if await asyncio.to_thread(self.peer.runs_with, *variables):
                    return
                await asyncio.sleep(0.05)

    async def lose(self, node: str, *, ends: Job | None = None) -> Job | None:
        """Let a node fail, and return it to service: at once, or once that job is over.

        On a very busy machine, 24.11 once never learned that the script had ended on a node that
        was in service again by then: the job went on without it, for ever.
        """
        await self.operator.set_node(node, "DOWN")
        try:
            return await self.jobs.until(ends.job_id, is_over) if ends else None
        finally:
            await self.operator.resume_node(node)

    async def on(self, job: Job, *nodes: str) -> Job:
        """The job once it runs on just these nodes."""
        async with asyncio.timeout(SECONDS):
            while True:
                now = await self.client.job(job.job_id)
                if now.nodes == nodes:
                    break
                await asyncio.sleep(0.05)
        assert now.state.base is BaseState.RUNNING
        assert (now.start_time, now.restart_count) == (job.start_time, job.restart_count)
        return now

    async def layout(self, job: Job) -> list[tuple[str, int, int]]:
        """Name, CPUs and memory in MiB of each node of a running job, in Slurm's order."""
        nodes = (await self.raw(job))["job_resources"]["nodes"]["allocation"]
        assert [it["index"] for it in nodes] == list(range(len(nodes)))
        return [(it["name"], it["cpus"]["count"], it["memory"]["allocated"]) for it in nodes]


@pytest.fixture
async def gangs(gang_peer: SlurmPeer) -> AsyncIterator[Gangs]:
    async with SlurmClient(gang_peer.url, token=FileToken(gang_peer.token_file)) as client:
        jobs = Jobs(client, gang_peer)
        yield Gangs(jobs, gang_peer)
        await jobs.cancel_all()
