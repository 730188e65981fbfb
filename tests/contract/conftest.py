"""Gives each contract test a Slurm: the sandbox's models and the real servers in turn.

A contract test takes `slurm_peer` and checks what must be true of all four. Names differ between
them (the real 26.05 has 200 nodes, the model a few), so tests ask the peer for nodes and partition.
Every node has `FEATURE`, the last one also `SPECIAL_FEATURE`, and there are `LICENSES`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from scheduler.sandbox.slurm import (
    AccountConfig,
    Gres,
    NodeConfig,
    PartitionConfig,
    Release,
    SlurmConfig,
    SlurmModel,
    SlurmServer,
    mint_token,
)
from slurmapi import BaseState, JobState, SlurmClient
from tests.rigs.slurm import SlurmRig
from tests.rigs.slurm_conf import (
    FEATURE,
    GRACE_PARTITION,
    GRACE_SECONDS,
    HIGH_PARTITION,
    LICENSES,
    PARTITION,
    SLURMD_PARTITION,
    SPECIAL_FEATURE,
)

_GPUS = 8
_NODES = 4
_SCRIPT_NODES = ("s1", "s2", "s3")
_MODEL = {"26.05": "model_slurm_26", "24.11": "model_slurm_24"}
_LIVE = {"26.05": "live_slurm_26", "24.11": "live_slurm_24"}
# A batch job that is cancelled before its script runs is COMPLETING for KillWait, 30 s. Meanwhile
# its node accepts no other job (measured on 24.11.5).
COMPLETING_SECONDS: Final = 80.0
# Parameters of fixtures: a model and a real Slurm of each release, as (kind, release).
EACH_SLURM: Final = (
    pytest.param(("model", "26.05"), id="model-26.05"),
    pytest.param(("model", "24.11"), id="model-24.11"),
    pytest.param(("live", "26.05"), id="live-26.05", marks=pytest.mark.live),
    pytest.param(("live", "24.11"), id="live-24.11", marks=pytest.mark.live),
)


def second_of_slurm() -> int:
    """The earliest time in Unix seconds that Slurm may write from now on.

    C's time() returns the time of the kernel's last tick, up to 10 ms behind Python's clock. So it
    may still be in the previous second.
    """
    return int(time.time() - 0.01)


def is_over(state: JobState) -> bool:
    """Whether the job has ended and its nodes are free."""
    return state.ended and not state.completing


def is_running(state: JobState) -> bool:
    """Whether the job has its nodes, and they are ready for it."""
    return state.base is BaseState.RUNNING and not state.configuring


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmPeer:
    """A slurmrestd to talk to. `token_file` holds an operator's (root's) token. Jobs on these nodes
    are `external`, or batch jobs. `script_runs` returns whether a running job's script runs; true
    for a job without a script. `runs_with` returns whether some process on the nodes has all these
    environment variables; true for a model, which has no processes.
    """

    url: str
    socket: Path | None
    token_file: Path
    major: str
    nodes: tuple[str, ...]
    partition: str
    external: bool
    gpus_per_node: int
    token: Callable[[str], str]
    script_runs: Callable[[int], bool]
    runs_with: Callable[..., bool]
    restart: Callable[[], Awaitable[None]]

    @property
    def special_node(self) -> str:
        """The one node that has the special feature."""
        return self.nodes[-1]


async def scripts_run(
    client: SlurmClient, script_runs: Callable[[int], bool], job_ids: Iterable[int]
) -> None:
    """Wait until the scripts of the running jobs run, so that a cancel ends the jobs at once."""
    async with asyncio.timeout(COMPLETING_SECONDS):
        for job_id in job_ids:
            while True:
                state = (await client.job_states([job_id])).get(job_id)
                starts = state is not None and state.base is BaseState.RUNNING
                if not starts or await asyncio.to_thread(script_runs, job_id):
                    break
                await asyncio.sleep(0.05)


@pytest.fixture
async def model_slurm_26(tmp_path: Path) -> AsyncIterator[SlurmPeer]:
    """The model of 26.05, in this process."""
    async with model_peer(Release.V26_05, tmp_path) as (peer, _):
        yield peer


@pytest.fixture
async def model_slurm_24(tmp_path: Path) -> AsyncIterator[SlurmPeer]:
    """The model of 24.11, in this process."""
    async with model_peer(Release.V24_11, tmp_path) as (peer, _):
        yield peer


@pytest.fixture(params=EACH_SLURM)
def slurm_peer(request: pytest.FixtureRequest) -> SlurmPeer:
    """A model or a real Slurm of each release."""
    kind, major = request.param
    if kind == "model":
        peer: SlurmPeer = request.getfixturevalue(_MODEL[major])
        return peer
    return live_peer(request.getfixturevalue(_LIVE[major]))


def live_peer(rig: SlurmRig) -> SlurmPeer:
    """The peer of a running rig."""
    return SlurmPeer(
        url=rig.url,
        socket=rig.socket,
        token_file=rig.token_file,
        major=rig.major,
        nodes=rig.nodes,
        partition=rig.partition,
        external=not rig.shape.pods_on_slurmd,
        gpus_per_node=rig.gpus_per_node,
        token=rig.token,
        script_runs=rig.script_runs if rig.shape.pods_on_slurmd else _has_no_script,
        runs_with=rig.runs_with,
        restart=partial(asyncio.to_thread, _restarted, rig),
    )


def live_script_peer(rig: SlurmRig) -> SlurmPeer:
    """The peer of a running rig with the nodes that have a slurmd, for batch jobs."""
    return replace(
        live_peer(rig),
        nodes=rig.shape.slurmd,
        partition=rig.script_partition,
        external=False,
        script_runs=rig.script_runs,
    )


def model_script_peer(peer: SlurmPeer) -> SlurmPeer:
    """The peer of a model of 26.05 with its nodes that have a slurmd, for batch jobs."""
    return replace(peer, nodes=_SCRIPT_NODES, partition=SLURMD_PARTITION, external=False)


@asynccontextmanager
async def model_peer(
    release: Release,
    folder: Path,
    *,
    accounts: tuple[AccountConfig, ...] | None = None,
    kill_wait: int = 30,
) -> AsyncIterator[tuple[SlurmPeer, SlurmModel]]:
    """A model with its slurmrestd; with `accounts` it behaves like a Slurm with slurmdbd."""
    config = replace(_config(release), accounts=accounts, kill_wait=kill_wait)
    model = SlurmModel(config)
    server = SlurmServer(model)
    socket, token_file = folder / "slurmrestd.socket", folder / "token"
    token_file.write_text(mint_token(model.key, "root"))
    port = await server.start(port=0, unix=socket)
    try:
        peer = SlurmPeer(
            url=f"http://127.0.0.1:{port}",
            socket=socket,
            token_file=token_file,
            major=release.value,
            nodes=tuple(node.name for node in config.nodes[:_NODES]),
            partition=PARTITION,
            external=release is Release.V26_05,
            gpus_per_node=_GPUS,
            token=lambda user: mint_token(model.key, user),
            script_runs=_has_no_script,
            runs_with=_has_no_process,
            restart=partial(_restarted_model, model),
        )
        yield peer, model
    finally:
        await server.stop()
        model.detach()


def _restarted(rig: SlurmRig) -> None:
    rig.stop("slurmctld")
    rig.start("slurmctld")


async def _restarted_model(model: SlurmModel) -> None:
    model.stop_controller()
    model.start_controller()


def _has_no_script(_job_id: int) -> bool:
    return True


def _has_no_process(*_variables: str) -> bool:
    return True


def _config(release: Release) -> SlurmConfig:
    """Nodes like those of the rigs: EXTERNAL ones and some with a slurmd on 26.05, only such with
    a slurmd on 24.11.
    """
    external = release is Release.V26_05
    nodes = tuple(
        _node(f"e-{index:03}", special=index == _NODES - 1, external=external)
        for index in range(_NODES)
    )
    names = tuple(node.name for node in nodes)
    partitions: tuple[PartitionConfig, ...] = (
        PartitionConfig(name=PARTITION, nodes=names, default=True),
        PartitionConfig(name=HIGH_PARTITION, nodes=names, priority_tier=10),
        PartitionConfig(name=GRACE_PARTITION, nodes=names, grace_time=GRACE_SECONDS),
    )
    if external:
        nodes += tuple(_node(name) for name in _SCRIPT_NODES)
        partitions += (PartitionConfig(name=SLURMD_PARTITION, nodes=_SCRIPT_NODES),)
    users = {"root": 0, "slurm": 64030, "alice": 2001, "bob": 2002}
    return SlurmConfig(
        nodes=nodes, partitions=partitions, release=release, licenses=LICENSES, users=users
    )


def _node(name: str, *, special: bool = False, external: bool = False) -> NodeConfig:
    return NodeConfig(
        name=name,
        cpus=64,
        memory_mib=512_000,
        gres=(Gres("gpu", _GPUS, "h100"),),
        features=(FEATURE, SPECIAL_FEATURE) if special else (FEATURE,),
        external=external,
    )
