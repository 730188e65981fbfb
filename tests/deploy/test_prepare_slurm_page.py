"""The commands and settings of docs/prepare-slurm.md do on a real Slurm what the page says."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from scheduler.policy.file import read_policy
from slurmapi import BaseState, JobSubmission, SlurmClient, SlurmUnreachable, StaticToken
from tests.contract.conftest import COMPLETING_SECONDS
from tests.rigs.accounting import accounting_conf
from tests.rigs.slurm import SlurmRig
from tests.rigs.slurm_conf import RECIPE
from tests.support.ports import free_ports

_ROOT: Final = Path(__file__).parents[2]
_PAGE: Final = (_ROOT / "docs/prepare-slurm.md").read_text(encoding="utf-8")
_FENCE: Final = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_SLURM: Final = ("sacctmgr", "scontrol", "squeue", "sacct", "sreport", "sbatch")
_USER: Final = "slurm"
_NATIVE: Final = (
    *("sbatch", "--parsable", "--wait", "--partition=slurmd"),
    *("--output=/dev/null", "--chdir=/tmp", "--wrap=true"),
)
_NAME: Final = "physics.train-0.5e0ffd1c"


def blocks(language: str) -> list[str]:
    """The page's fenced blocks of that language."""
    return [text for it, text in _FENCE.findall(_PAGE) if it == language]


def commands(*programs: str) -> list[list[str]]:
    """The page's command lines of these programs, in order."""
    lines = [it.strip() for block in blocks("") for it in block.splitlines()]
    return [shlex.split(it) for it in lines if it.split(" ")[0] in programs]


def command(program: str) -> list[str]:
    """The only command line of that program."""
    (found,) = commands(program)
    return found


def settings(name: str) -> str:
    """The lines of slurm.conf in the block that begins with that setting."""
    (found,) = [it for it in blocks("properties") if it.startswith(f"{name}=")]
    return found


def test_policy_of_the_page_is_one(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(blocks("yaml")[0])
    assert [it.name for it in read_policy(path).rules] == ["physics", "everybody"]


def test_lines_of_slurm_conf_are_those_of_the_slurm_that_is_tested() -> None:
    tested = f"{RECIPE}{accounting_conf(port=0)}".splitlines()
    for name in ("AuthAltTypes", "AccountingStorageEnforce"):
        assert set(settings(name).splitlines()) <= set(tested)


def test_every_command_of_the_page_is_tried_here() -> None:
    made_by_hand = {"dd", "chown", "chmod"}
    used = {it.split()[0] for block in blocks("") for it in block.splitlines() if it.strip()}
    assert used <= {*_SLURM, *made_by_hand}


@pytest.fixture
async def rig(request: pytest.FixtureRequest) -> AsyncIterator[SlurmRig]:
    """A Slurm with slurmdbd, and the page's nodes and preemption. The page's host is no host."""
    found: SlurmRig = request.getfixturevalue("live_accounted_slurm_26")
    lines = settings("NodeName").replace("NodeAddr=node-001", "NodeAddr=127.0.0.1")
    changed = found.configured(f"{lines}{settings('PreemptType')}")
    await asyncio.to_thread(changed.__enter__)
    try:
        yield found
    finally:
        await asyncio.to_thread(changed.__exit__, None, None, None)


@pytest.mark.live
@pytest.mark.xdist_group("accounts")
async def test_page_leads_from_a_plain_slurm_to_a_job_of_a_pod(rig: SlurmRig) -> None:
    for words in commands("sacctmgr"):
        await asyncio.to_thread(rig.call, *words)
    assert rig.call(*command("scontrol")).startswith("SLURM_JWT=")
    _native_jobs_are_refused(rig)
    async with SlurmClient(rig.url, token=StaticToken(rig.token(_USER))) as client:
        job = _placeholder(partition="pods", account="physics", qos="pods")
        job_id = (await client.submit(job)).job_id
        await _runs(client, job_id)
        shown = rig.call(*command("squeue")).replace(str(job_id).ljust(8), "4711    ")
        assert _plain(shown) == _plain(blocks("text")[1])
        await client.cancel([job_id])
    await _says(rig, command("sacct"), _NAME)
    await _says(rig, command("sreport"), "Cluster/Account/User")


@pytest.mark.live
@pytest.mark.xdist_group("accounts")
async def test_external_job_runs_no_prolog_of_slurmd(live_accounted_slurm_26: SlurmRig) -> None:
    rig = live_accounted_slurm_26
    mark = rig.hooks_folder / "prolog.sh"
    mark.write_text('#!/bin/sh\necho "$SLURM_JOB_ID" >> /rig/log/prologs\n')
    mark.chmod(0o755)
    ran = rig.log_directory / "prologs"
    try:
        with rig.configured("Prolog=/etc/slurm/prolog.sh\nPrologFlags=Alloc\n"):
            rig.call("scontrol", "reconfigure")
            async with SlurmClient(rig.url, token=StaticToken(rig.token("root"))) as client:
                job_id = (await client.submit(_placeholder(partition="slurmd"))).job_id
                await _runs(client, job_id)
                await client.cancel([job_id])
            native = rig.call(*_NATIVE)  # shows that it is the kind of job that decides
            assert ran.read_text().split() == [native.strip()]
    finally:
        rig.call("scontrol", "reconfigure")


@pytest.mark.live
@pytest.mark.xdist_group("accounts")
async def test_unit_of_slurmrestd_answers(live_accounted_slurm_26: SlurmRig) -> None:
    rig, (port,) = live_accounted_slurm_26, free_ports(1)
    (unit,) = blocks("ini")
    environment = re.findall(r"^Environment=(.*)$", unit, re.MULTILINE)
    (start,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    words = start.replace("0.0.0.0:6820", f"127.0.0.1:{port}").split()
    process = await asyncio.create_subprocess_exec(
        *rig.entry("timeout", str(COMPLETING_SECONDS), *nobody, "env", *environment, *words)
    )
    try:
        async with SlurmClient(
            f"http://127.0.0.1:{port}", token=StaticToken(rig.token(_USER))
        ) as client:
            assert await _nodes(client)
    finally:
        process.terminate()
        await process.wait()


def _native_jobs_are_refused(rig: SlurmRig) -> None:
    with pytest.raises(RuntimeError) as refused:
        rig.call(*command("sbatch"))
    assert blocks("text")[0].strip() in str(refused.value)


def _placeholder(**more: str) -> JobSubmission:
    return JobSubmission(
        name=_NAME,
        external=True,
        cpus=1,
        memory_mib=100,
        admin_comment='{"v":1}',
        **more,  # type: ignore[arg-type]
    )


async def _runs(client: SlurmClient, job_id: int) -> None:
    async with asyncio.timeout(COMPLETING_SECONDS):
        while True:
            state = (await client.job(job_id)).state
            if state.base is BaseState.RUNNING and not state.configuring:
                return
            await asyncio.sleep(0.05)


async def _says(rig: SlurmRig, words: list[str], expected: str) -> None:
    """slurmdbd learns of a job a moment later."""
    async with asyncio.timeout(COMPLETING_SECONDS):
        while True:
            if expected in await asyncio.to_thread(rig.call, *words):
                return
            await asyncio.sleep(0.2)


async def _nodes(client: SlurmClient) -> bool:
    """Whether it answers with nodes, as soon as it listens."""
    async with asyncio.timeout(COMPLETING_SECONDS):
        while True:
            try:
                return bool(await client.nodes())
            except SlurmUnreachable:
                await asyncio.sleep(0.05)


def _plain(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.strip()]
