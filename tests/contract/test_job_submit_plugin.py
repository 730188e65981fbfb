"""The client tells a refusal of a job_submit plugin from a failing controller, on all peers."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from scheduler.sandbox.slurm import Release
from slurmapi import FileToken, JobSubmission, SlurmClient, SlurmRefused
from tests.contract.conftest import EACH_SLURM, SlurmPeer, live_peer, model_peer
from tests.rigs.slurm import SlurmRig
from tests.support.job_submit import BUSY, LUA, REFUSED, ROBBED, TALKED_ABOUT, WORDS, verdict

SCRIPT = "#!/bin/sh\nexec sleep infinity\n"


@pytest.fixture(params=EACH_SLURM)
async def peer(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SlurmPeer]:
    """A Slurm with the plugin, a model or a real one."""
    kind, major = request.param
    if kind == "model":
        async with model_peer(Release(major), tmp_path) as (model, slurm):
            slurm.job_submit = verdict
            yield model
        return
    rig: SlurmRig = request.getfixturevalue(f"live_slurm_{major[:2]}")
    plugin = rig.job_submit(LUA)
    await asyncio.to_thread(plugin.__enter__)
    try:
        yield live_peer(rig)
    finally:
        await asyncio.to_thread(plugin.__exit__, None, None, None)


@pytest.fixture
async def client(peer: SlurmPeer) -> AsyncIterator[SlurmClient]:
    async with SlurmClient(peer.url, token=FileToken(peer.token_file)) as client:
        yield client


def held(peer: SlurmPeer, comment: str) -> JobSubmission:
    external = peer.major != "24.11"
    return JobSubmission(
        name=f"plugin-{secrets.token_hex(4)}",
        external=external,
        script=None if external else SCRIPT,
        cpus=1,
        memory_mib=64,
        partition=peer.partition,
        admin_comment='{"v":1}',
        comment=comment,
        held=True,
    )


@pytest.mark.parametrize(
    ("comment", "number", "text"),
    [(REFUSED, -1, "Unspecified error"), (BUSY, 2016, "Requested nodes are busy")],
)
async def test_refused_submit_is_a_definite_no_without_the_words_of_the_plugin(
    peer: SlurmPeer, client: SlurmClient, comment: str, number: int, text: str
) -> None:
    before = await client.job_states()
    with pytest.raises(SlurmRefused, match=text) as refused:
        await client.submit(held(peer, comment))
    assert refused.value.error_number == number
    assert refused.value.status == (500 if number == -1 or peer.major == "24.11" else 422)
    assert WORDS not in str(refused.value)
    # Slurm may forget an earlier job at any moment, so only new ones count.
    assert not (await client.job_states()).keys() - before.keys()


@pytest.mark.parametrize(("comment", "number"), [(REFUSED, -1), (BUSY, 2016)])
async def test_refused_update_changes_nothing(
    peer: SlurmPeer, client: SlurmClient, comment: str, number: int
) -> None:
    job_id = (await client.submit(held(peer, "good"))).job_id
    with pytest.raises(SlurmRefused) as refused:
        await client.update_job(job_id, comment=comment, nice=7)
    assert refused.value.error_number == number
    job = await client.job(job_id)
    assert (job.comment, job.nice) == ("good", 0)
    await client.cancel([job_id])


async def test_plugin_can_take_the_comments_of_a_job_away(
    peer: SlurmPeer, client: SlurmClient
) -> None:
    job_id = (await client.submit(held(peer, ROBBED))).job_id
    job = await client.job(job_id)
    assert (job.comment, job.admin_comment) == ("", "")
    assert job.name.startswith("plugin-")
    await client.cancel([job_id])


async def test_words_about_a_job_that_is_taken_are_passed_on(
    peer: SlurmPeer, client: SlurmClient
) -> None:
    submitted = await client.submit(held(peer, TALKED_ABOUT))
    assert any(WORDS in warning for warning in submitted.warnings)
    await client.cancel([submitted.job_id])
