"""Ends jobs of our own submits whose owner tag something has taken away, and says so on the pod."""

from __future__ import annotations

from typing import Final

import structlog

from scheduler.core.actions import TakeBack
from scheduler.core.naming import JOB_ID, stands_for
from scheduler.core.reasons import Reason
from scheduler.core.refused import Pauses
from scheduler.execute.canceller import Canceller
from scheduler.execute.tools import Tools
from scheduler.slurm.ownership import soon
from scheduler.state.units import Unit
from slurmapi import Job, SlurmNoSuchJob

log = structlog.get_logger(__name__)

# Until an administrator has mended the plugin, each try costs Slurm a job for nothing.
_PAUSES: Final = Pauses(60.0, 1800.0)


class Untagged:
    """Such a job is known only by what the answer to its submit said, so it goes while that is
    remembered.
    """

    def __init__(self, tools: Tools, canceller: Canceller) -> None:
        self._kube = tools.kube
        self._slurm = tools.slurm
        self._owner = tools.owner
        self._units = tools.units
        self._teller = tools.teller
        self._metrics = tools.metrics
        self._clock = tools.clock
        self._canceller = canceller

    async def take_back(self, unit: Unit, action: TakeBack) -> None:
        """Raises SlurmError and KubeError; nothing is forgotten before the job has been ended."""
        found = await self._read(action)
        if found is not None and stands_for(found.admin_comment, unit.key, owner=self._owner):
            if (
                unit.job is not None
            ):  # somebody has put the tag back: the next pass has it looked at
                unit.job.doubt(self._clock())
            return
        if found is not None:
            await self._canceller.cancel(action.job_id, send_by=soon())
        await self._kube.patch_pod_status(
            unit.namespace, unit.name, unit.key, annotations={JOB_ID: None}
        )
        self._units.set_job(unit, None)
        unit.said.recorded = unit.bindings.unfit_since = None
        former = unit.refusals.submit.whatever()
        unit.refusals.submit = former.again(None, _PAUSES, now=self._clock())
        await self._tell(unit, action.job_id, _PAUSES.after(unit.refusals.submit.count))

    async def _read(self, action: TakeBack) -> Job | None:
        """The very job, as it is now; None where it is gone, or the id is another's."""
        try:
            job = await self._slurm.job(action.job_id)
        except SlurmNoSuchJob:
            return None
        same = (job.name, job.submit_time) == (action.name, action.submit_time)
        return job if same and not job.state.ended else None

    async def _tell(self, unit: Unit, job_id: int, pause: float) -> None:
        told = (
            f"Slurm job {job_id} was submitted for the pod and cancelled again: its AdminComment, "
            "by which the scheduler knows its jobs, is not what was submitted. Most likely a "
            "job_submit plugin of Slurm (JobSubmitPlugins in slurm.conf) sets admin_comment: have "
            f"it leave that of this scheduler's jobs as it is. Tried again in {pause:.0f} s"
        )
        self._metrics.actions.labels("submit", "untagged").inc()
        self._teller.event(unit, Reason.SLURM_REJECTED, told)
        log.warning(
            "job without its owner tag cancelled",
            namespace=unit.namespace,
            pod=unit.name,
            job_id=job_id,
        )
        await self._teller.tell_waiting(unit, Reason.SLURM_REJECTED, told)
