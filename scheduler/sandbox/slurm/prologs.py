"""PrologSlurmctld: a program that the controller runs for each job that starts, as a real one does.

Until the program ends, the job is RUNNING and CONFIGURING, and its script has not started (measured
on 26.05.5 and 24.11.5).
"""

import asyncio
import os
from collections.abc import Mapping

from .config import SlurmConfig
from .hostlist import fold
from .records import Job


async def run(config: SlurmConfig, job: Job) -> int:
    """Run the hook for the job and return its exit status; cancellation kills the hook."""
    process = await asyncio.create_subprocess_exec(
        config.prolog_slurmctld,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, **config.hook_environment, **_environment(job)},
        start_new_session=True,
    )
    try:
        return await process.wait()
    finally:
        if process.returncode is None:
            os.killpg(process.pid, 9)
            await process.wait()


def _environment(job: Job) -> Mapping[str, str]:
    return {
        "SLURM_JOB_ID": str(job.id),
        "SLURM_JOB_NAME": job.name,
        "SLURM_JOB_NODELIST": fold(tuple(share.node for share in job.shares)),
        "SLURM_JOB_COMMENT": job.comment,
    }
