"""PrologSlurmctld: what runs before a job's script, and what a job is meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from scheduler.sandbox.slurm import Release, SlurmModel
from scheduler.sandbox.slurm.records import Job, State
from scheduler.sandbox.slurm.render_job import states
from tests.unit.sandbox_slurm.harness import Lab, config

CONFIGURING = ["RUNNING", "CONFIGURING"]
QUICK = "#!/bin/sh\nexit 0\n"


class Hooked:
    """A model in the event loop whose hook returns once a test says with which status."""

    def __init__(self, folder: Path, release: Release) -> None:
        self._go = folder / "go"
        hook = folder / "prolog"
        hook.write_text(
            f'#!/bin/sh\necho "$SLURM_JOB_ID $SLURM_JOB_NODELIST" >>{folder}/ran\n'
            f"while [ ! -s {self._go} ]; do sleep 0.02; done\nexit $(cat {self._go})\n"
        )
        hook.chmod(0o755)
        self.ran = folder / "ran"
        self.lab = Lab(config(release, prolog_slurmctld=str(hook)))

    @property
    def model(self) -> SlurmModel:
        return self.lab.model

    def job(self, job_id: int) -> Job:
        return self.model.job(job_id)

    def go(self, status: int) -> None:
        self._go.write_text(str(status))

    def _has_run(self) -> bool:
        return self.ran.exists() and self.ran.read_text().endswith("\n")

    async def configuring(self, *, script: str | None) -> int:
        job_id = self.lab.submit(script=script).id
        await until(lambda: states(self.job(job_id)) == CONFIGURING and self._has_run())
        return job_id


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - the model tells nobody
            await asyncio.sleep(0.01)


@pytest.fixture(params=[Release.V26_05, Release.V24_11])
async def hooked(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Hooked]:
    hooked = Hooked(tmp_path, request.param)
    hooked.model.attach()
    yield hooked
    await hooked.model.close()


@pytest.fixture
def script(hooked: Hooked) -> str | None:
    """External jobs where there are some."""
    return None if hooked.lab.config.release is Release.V26_05 else QUICK


async def test_job_is_configuring_until_the_hook_returns(hooked, script):
    job_id = await hooked.configuring(script=script)
    assert hooked.ran.read_text() == f"{job_id} n1\n"
    assert hooked.job(job_id).script_ends_at is None
    hooked.go(0)
    await until(lambda: states(hooked.job(job_id)) == ["RUNNING"])


async def test_hook_that_fails_ends_an_external_job_and_holds_a_batch_job(hooked, script):
    job_id = await hooked.configuring(script=script)
    hooked.go(1)
    await until(lambda: hooked.job(job_id).state is not State.RUNNING)
    job = hooked.job(job_id)
    assert (job.state is State.CANCELLED) if job.external else job.held


async def test_job_that_is_cancelled_meanwhile_stays_cancelled(hooked, script):
    job_id = await hooked.configuring(script=script)
    hooked.model.cancel(job_id, user="root")
    hooked.go(0)
    await asyncio.sleep(0.1)
    assert hooked.job(job_id).state is State.CANCELLED
    assert "CONFIGURING" not in states(hooked.job(job_id))


async def test_restart_runs_the_hook_again_or_forgets_it(hooked, script):
    job_id = await hooked.configuring(script=script)
    hooked.model.stop_controller()
    hooked.model.start_controller()
    if hooked.lab.config.release is Release.V26_05:
        assert states(hooked.job(job_id)) == ["RUNNING"]
        return
    assert states(hooked.job(job_id)) == CONFIGURING
    await until(lambda: hooked.ran.read_text() == f"{job_id} n1\n" * 2)
