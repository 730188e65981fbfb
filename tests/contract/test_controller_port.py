"""slurmctld's own port is not taken for slurmrestd, although it answers HTTP (26.05)."""

from __future__ import annotations

import pytest

from groundwork.retry import once
from scheduler.slurm.causes import SlurmCauses
from slurmapi import Deadlines, FileToken, SlurmClient, SlurmError, SlurmNoApi
from tests.rigs.slurm import SlurmRig

pytestmark = pytest.mark.live


async def _failure(rig: SlurmRig, *, silence: float) -> SlurmError:
    token = FileToken(rig.token_file)
    deadlines = Deadlines(connect=30.0, silence=silence, total=40.0)
    async with SlurmClient(
        rig.controller_url, token=token, deadlines=deadlines, retry=once
    ) as client:
        with pytest.raises(SlurmError) as failed:
            await client.job_states([1])
    return failed.value


def _cause(error: SlurmError, rig: SlurmRig) -> str:
    lifetime = FileToken(rig.token_file).lifetime
    causes = SlurmCauses(
        rig.controller_url, token="t", lifetime=lambda: lifetime, answered=lambda: False
    )
    return causes.of(error).name


async def test_newer_slurmctld_answers_404_for_every_version(live_slurm_26: SlurmRig) -> None:
    error = await _failure(live_slurm_26, silence=30.0)
    assert isinstance(error, SlurmNoApi)
    assert _cause(error, live_slurm_26) == "no_slurmrestd"


async def test_older_slurmctld_is_no_slurm_either(live_slurm_24: SlurmRig) -> None:
    error = await _failure(live_slurm_24, silence=5.0)
    assert _cause(error, live_slurm_24) in {"no_slurmrestd", "tls_expected", "timeout"}
