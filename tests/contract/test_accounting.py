"""A Slurm with slurmdbd judges accounts, QoS and limits as the model does.

Slurm enforces associations, limits and QoS here. Each test makes an account and a QoS of its own.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

from scheduler.sandbox.slurm import Release, SlurmModel
from slurmapi import BaseState, FileToken, Job, JobSubmission, SlurmClient, SlurmRefused
from tests.contract.conftest import (
    COMPLETING_SECONDS,
    EACH_SLURM,
    SlurmPeer,
    is_over,
    live_peer,
    model_peer,
    scripts_run,
)
from tests.support.cluster import Accounts
from tests.support.model_accounts import FIRST_ACCOUNTS, ModelAccounts
from tests.support.sacctmgr import RealAccounts

pytestmark = pytest.mark.xdist_group("accounts")

_MODELS: Final = {"26.05": Release.V26_05, "24.11": Release.V24_11}
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Lab:
    """`mine` is an account for root that may use a QoS of the same name."""

    peer: SlurmPeer
    client: SlurmClient
    accounts: Accounts
    mine: str
    _made: list[int] = field(default_factory=list)

    def job(self, **more: Any) -> JobSubmission:
        external = self.peer.major != "24.11"
        plain = JobSubmission(
            name=f"account-{next(_numbers)}",
            external=external,
            script=None if external else "#!/bin/sh\nexec sleep infinity\n",
            admin_comment='{"v":1}',
            cpus=2,
            memory_mib=100,
            partition=self.peer.partition,
        )
        return replace(plain, **more)

    async def submit(self, **more: Any) -> int:
        job_id = (await self.client.submit(self.job(**more))).job_id
        self._made.append(job_id)
        return job_id

    async def until(self, job_id: int, holds: Callable[[Job], bool]) -> Job:
        async with asyncio.timeout(COMPLETING_SECONDS):
            while True:
                job = await self.client.job(job_id)
                if holds(job):
                    return job
                await asyncio.sleep(0.05)

    async def runs(self, job_id: int) -> Job:
        job = await self.until(job_id, lambda job: job.state.base is BaseState.RUNNING)
        await scripts_run(self.client, self.peer.script_runs, [job_id])
        return job

    async def cancel_all(self) -> None:
        await scripts_run(self.client, self.peer.script_runs, self._made)
        await self.client.cancel(self._made)
        for job_id in self._made:
            await self.until(job_id, lambda job: is_over(job.state))


@pytest.fixture(params=EACH_SLURM)
async def lab(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Lab]:
    """A Slurm that knows accounts."""
    kind, major = request.param
    if kind == "model":
        async with _model(_MODELS[major], tmp_path) as lab:
            yield lab
        return
    rig = request.getfixturevalue(f"live_accounted_slurm_{major[:2]}")
    async with _lab(live_peer(rig), RealAccounts(rig)) as lab:
        yield lab


@asynccontextmanager
async def _model(release: Release, folder: Path) -> AsyncIterator[Lab]:
    async with model_peer(release, folder, accounts=FIRST_ACCOUNTS) as (peer, model):

        async def act(change: Callable[[SlurmModel], None]) -> None:
            change(model)

        async with _lab(peer, ModelAccounts(act)) as lab:
            yield lab


@asynccontextmanager
async def _lab(peer: SlurmPeer, accounts: Accounts) -> AsyncIterator[Lab]:
    mine = f"team-{secrets.token_hex(4)}"
    await accounts.set_account(mine)
    await accounts.set_qos(mine)
    await accounts.allow(mine, mine)
    async with SlurmClient(peer.url, token=FileToken(peer.token_file)) as client:
        lab = Lab(peer, client, accounts, mine)
        yield lab
        await lab.cancel_all()


async def test_job_that_names_nothing_has_the_defaults(lab: Lab) -> None:
    job = await lab.client.job(await lab.submit())
    assert (job.account, job.qos) == ("root", "normal")
    of_alice = await lab.client.job(await lab.submit(user_id=2001))
    assert (of_alice.account, of_alice.qos) == ("staff", "normal")


async def test_configuration_names_the_database(lab: Lab) -> None:
    """The scheduler learns from it whether usage is charged. 24.11 does not serve it."""
    config = await lab.client.config()
    told = None if config is None else config.accounting_storage
    assert told == (None if lab.peer.major == "24.11" else "accounting_storage/slurmdbd")


async def test_account_and_qos_that_are_named_stand_on_the_job(lab: Lab) -> None:
    job = await lab.runs(await lab.submit(account=lab.mine, qos=lab.mine))
    assert (job.account, job.qos) == (lab.mine, lab.mine)


@pytest.mark.parametrize(
    ("fields", "number"),
    [
        ({"account": "nowhere"}, 2045),
        ({"account": "staff"}, 2045),
        ({"user_id": 4444}, 2045),
        ({"user_id": 2001, "account": "root"}, 2045),
        ({"qos": "nowhere"}, 2066),
        ({"qos": "MINE"}, 2066),
    ],
    ids=[
        "unknown account",
        "not root's",
        "unknown user",
        "not alice's",
        "unknown QoS",
        "of others",
    ],
)
async def test_submit_is_refused(lab: Lab, fields: dict[str, Any], number: int) -> None:
    """A job of root is judged like any other, although root is an operator."""
    named = {key: lab.mine if value == "MINE" else value for key, value in fields.items()}
    with pytest.raises(SlurmRefused) as refusal:
        await lab.submit(**named)
    assert refusal.value.error_number == number


async def test_account_that_is_made_is_known_at_once(lab: Lab) -> None:
    name = f"{lab.mine}-2"
    with pytest.raises(SlurmRefused):
        await lab.submit(account=name)
    await lab.accounts.set_account(name)
    assert (await lab.client.job(await lab.submit(account=name))).account == name


Change = Callable[[Lab], Awaitable[None]]


@pytest.mark.parametrize(
    ("reason", "lower", "lift"),
    [
        (
            "QOSMaxJobsPerUserLimit",
            lambda lab: lab.accounts.set_qos(lab.mine, max_jobs_per_user=1),
            lambda lab: lab.accounts.set_qos(lab.mine, max_jobs_per_user=2),
        ),
        (
            "QOSGrpCpuLimit",
            lambda lab: lab.accounts.set_qos(lab.mine, group_cpus=3),
            lambda lab: lab.accounts.set_qos(lab.mine, group_cpus=4),
        ),
        (
            "AssocMaxJobsLimit",
            lambda lab: lab.accounts.set_account(lab.mine, max_jobs=1),
            lambda lab: lab.accounts.set_account(lab.mine, max_jobs=2),
        ),
        (
            "AssocGrpCpuLimit",
            lambda lab: lab.accounts.set_account(lab.mine, group_cpus=3),
            lambda lab: lab.accounts.set_account(lab.mine),
        ),
    ],
)
async def test_job_at_a_limit_waits_until_it_is_raised(
    lab: Lab, reason: str, lower: Change, lift: Change
) -> None:
    await lower(lab)
    await lab.runs(await lab.submit(account=lab.mine, qos=lab.mine))
    waiting = await lab.submit(account=lab.mine, qos=lab.mine)
    await lab.until(waiting, lambda job: job.state_reason == reason)
    await lift(lab)
    await lab.runs(waiting)


async def test_limit_that_is_full_is_left_by_a_job_that_ends(lab: Lab) -> None:
    await lab.accounts.set_account(lab.mine, max_jobs=1)
    first = await lab.submit(account=lab.mine)
    await lab.runs(first)
    second = await lab.submit(account=lab.mine)
    await lab.until(second, lambda job: job.state_reason == "AssocMaxJobsLimit")
    await lab.client.cancel([first])
    await lab.runs(second)


async def test_pending_job_takes_another_account_of_its_user(lab: Lab) -> None:
    job_id = await _waiting(lab, account="root")
    await lab.client.update_job(job_id, account=lab.mine)
    assert (await lab.client.job(job_id)).account == lab.mine
    await lab.client.update_job(job_id, partition="high")
    assert (await lab.client.job(job_id)).account == lab.mine
    for account in ("nowhere", "staff"):
        with pytest.raises(SlurmRefused) as refusal:
            await lab.client.update_job(job_id, account=account)
        assert refusal.value.error_number == 2045
    assert (await lab.client.job(job_id)).account == lab.mine


async def test_operator_puts_any_qos_on_a_pending_job_and_it_runs(lab: Lab) -> None:
    """A submit with that QoS is refused, so the scheduler tries a changed QoS with a submit."""
    job_id = await _waiting(lab, account="root")
    with pytest.raises(SlurmRefused) as refusal:
        await lab.client.update_job(job_id, qos="nowhere")
    assert refusal.value.error_number == 2066
    await lab.client.update_job(job_id, qos=lab.mine)
    await lab.client.update_job(job_id, held=False)
    assert (await lab.runs(job_id)).qos == lab.mine


async def _waiting(lab: Lab, **more: Any) -> int:
    return await lab.submit(held=True, **more)
