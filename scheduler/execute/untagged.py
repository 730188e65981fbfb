"""Cancels jobs that we have submitted but that lost their owner tag, and says so on the pod."""

from __future__ import annotations

from typing import Final

import structlog

from scheduler.core.actions import TakeBack
from scheduler.core.event_reasons import Reason
from scheduler.core.naming import JOB_ID
from scheduler.core.refused_request import Pauses
from scheduler.core.tagged import TaggedJob
from scheduler.execute.cancel_batches import Canceller
from scheduler.execute.tools import Tools
from scheduler.slurm.look import read_job
from scheduler.slurm.ownership import soon
from scheduler.state.units import Unit
from slurmapi import SlurmNoSuchJob

log = structlog.get_logger(__name__)

# Until an administrator has corrected the plugin, each try costs Slurm a useless job.
_PAUSES: Final = Pauses(60.0, 1800.0)


class Untagged:
    """A job without a tag can be recognised only by the answer to its submit. So it is cancelled
    while the process still remembers that answer.
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
        """Cancel the job, then forget it. Raises SlurmError and KubeError."""
        found = await self._read(action)
        if found is not None and unit.owns(found, owner=self._owner):
            if (
                unit.job is not None
            ):  # somebody has put the tag back: the next pass has it looked at
                unit.job.doubt(self._clock())
            return
        if found is not None:
            await self._canceller.cancel(action.job_id, send_by=soon())
        for pod in unit.pods:
            await self._kube.patch_pod_status(
                unit.namespace, pod.name, pod.uid, annotations={JOB_ID: None}
            )
            pod.said.recorded = None
        self._units.set_job(unit, None)
        unit.bindings.unfit_since = None
        former = unit.refusals.submit.whatever()
        unit.refusals.submit = former.again(None, _PAUSES, now=self._clock())
        await self._tell(unit, action.job_id, _PAUSES.after(unit.refusals.submit.count))

    async def _read(self, action: TakeBack) -> TaggedJob | None:
        """The same job as it is now; None if it is gone, or if another job has got its id."""
        try:
            job = await read_job(self._slurm, action.job_id)
        except SlurmNoSuchJob:
            return None
        same = (job.name, job.submit_time) == (action.name, action.submit_time)
        return job if same and not job.state.ended else None

    async def _tell(self, unit: Unit, job_id: int, pause: float) -> None:
        message = (
            f"Slurm job {job_id} was submitted for the pod and cancelled again: its AdminComment, "
            "by which the scheduler knows its jobs, is not what was submitted. Most likely a "
            "job_submit plugin of Slurm (JobSubmitPlugins in slurm.conf) sets "
            "admin_comment: change the plugin so that it leaves the admin_comment of this "
            f"scheduler's jobs unchanged. The scheduler tries again in {pause:.0f} s"
        )
        self._metrics.actions.labels("submit", "untagged").inc()
        self._teller.event(unit, Reason.SLURM_REJECTED, message)
        log.warning(
            "job without its owner tag cancelled",
            namespace=unit.namespace,
            pod=unit.name,
            job_id=job_id,
        )
        await self._teller.tell_waiting(unit, Reason.SLURM_REJECTED, message)
