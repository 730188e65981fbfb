"""Finds out which account and QoS a job would get, by a trial submit.

For an operator, such as this scheduler, Slurm sets any QoS on a pending job and lets the job run,
even if the job's account may not use that QoS. But it refuses a submit with that QoS (measured on
26.05.5 and 24.11.5 with slurmdbd). So a held job that stands for no pod is submitted, read for its
account and QoS, and cancelled. If a crash leaves such a job behind, it never starts, and a census
cancels it.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

import structlog
from msgspec.structs import replace

from annotations import JobRequest
from scheduler.core.owner_tag import Owner
from scheduler.core.slot_choice import Seat
from scheduler.execute.placeholder import submission
from scheduler.execute.placeholder_mode import Modes
from scheduler.slurm.ownership import soon
from scheduler.state.units import Unit
from slurmapi import Job, SlurmClient, SlurmError

log = structlog.get_logger(__name__)


class Trial:
    """Tries what a unit's job would be charged to."""

    def __init__(self, slurm: SlurmClient, *, owner: Owner, modes: Modes) -> None:
        self._slurm = slurm
        self._owner = owner
        self._modes = modes

    async def charged(self, unit: Unit, request: JobRequest) -> Mapping[str, str]:
        """The account and the QoS that a job with this request gets, by field of JobRequest. A
        field is missing if Slurm does not report it, because it has no slurmdbd.

        Raises SlurmRefused if Slurm would not accept such a job, and SlurmError if it cannot be
        asked.
        """
        job = await self._tried(unit, request)
        return {
            name: value for name, value in (("account", job.account), ("qos", job.qos)) if value
        }

    async def _tried(self, unit: Unit, request: JobRequest) -> Job:
        choice = await self._modes.choose(request.partition, request.required_nodes)
        key = f"trial-{secrets.token_hex(8)}"
        placeholder = submission(
            request,
            owner=self._owner,
            mode=choice.mode,
            namespace=unit.namespace,
            name=unit.name,
            key=key,
            seats=(Seat(0, key),),
        )
        # Setting a priority would release the hold.
        held = replace(placeholder, held=True, priority=None, singleton=False)
        job_id = (await self._slurm.submit(held)).job_id
        job = await self._slurm.job(job_id)  # if this fails, a census cancels the job
        if job.name == held.name:  # the id may belong to another job by now
            await self._end(job_id)
        return job

    async def _end(self, job_id: int) -> None:
        failed: Mapping[int, SlurmError] = await self._slurm.cancel([job_id], send_by=soon())
        if failed:
            log.warning("trial job is left to the next census", job_id=job_id)
