"""Keeps a unit off nodes that it cannot use, both in its next job and in the one that is
pending.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog
from msgspec.structs import replace

from scheduler.core.actions import Exclude, Readmit, Submit
from scheduler.core.event_reasons import Reason
from scheduler.core.owner_tag import Owner
from scheduler.core.refused_request import NEVER, Pauses
from scheduler.core.tagged import TaggedJob
from scheduler.observe.metrics import Metrics
from scheduler.slurm.ownership import own_job
from scheduler.slurm.suspicion import about_one_job
from scheduler.state.units import Unit
from slurmapi import SlurmClient, SlurmRefused

log = structlog.get_logger(__name__)

# A message explains at most this many of the excluded nodes.
_MOST_SHOWN: Final = 3
# Pauses before we repeat a request that Slurm has refused.
_PAUSES: Final = Pauses(30.0, 300.0)


class Avoidance:
    """Carries out decisions about nodes that a unit should avoid."""

    def __init__(
        self,
        slurm: SlurmClient,
        *,
        owner: Owner,
        warn: Callable[[Unit, Reason, str], None],
        metrics: Metrics,
        clock: Callable[[], float],
    ) -> None:
        self._slurm = slurm
        self._owner = owner
        self._warn = warn
        self._metrics = metrics
        self._clock = clock

    def exclude(self, unit: Unit, action: Exclude) -> None:
        """Have the unit's jobs avoid the node for a while."""
        seconds = unit.asked.exclusions.add(action.node, action.why, now=self._clock())
        log.warning(
            "node excluded",
            namespace=unit.namespace,
            pod=unit.name,
            node=action.node,
            why=action.why,
            for_s=seconds,
        )

    async def readmit(self, unit: Unit, action: Readmit) -> None:
        """Reduce the pending job's list of excluded nodes. If Slurm refuses, only time is lost: the
        job keeps waiting with its former list, and the request is repeated after a growing pause.
        Raises SlurmError if Slurm cannot be asked.
        """
        own = await own_job(self._slurm, action.job_id, unit=unit, owner=self._owner)
        if own is None:
            return
        try:
            for job_id, excluded in action.by_id.items():  # an update concerns one component
                await self._slurm.update_job(job_id, send_by=own.send_by, excluded_nodes=excluded)
        except SlurmRefused as error:
            if not about_one_job(error):
                raise
            self._refused(unit, action, error)
            return
        unit.refusals.readmit = NEVER
        job = unit.job
        if job is not None and job.job_id == action.job_id and job.record is not None:
            # Otherwise a pass before the next look would send the same update again.
            job.wrote(_with_excluded(job.record, action))
        self._metrics.actions.labels("readmit", "ok").inc()
        log.info("excluded nodes updated", job_id=action.job_id, nodes=len(action.excluded))

    def _refused(self, unit: Unit, action: Readmit, error: SlurmRefused) -> None:
        former = unit.refusals.readmit
        unit.refusals.readmit = former.again(action.digest, _PAUSES, now=self._clock())
        message = (
            f"Slurm did not change the excluded nodes of job {action.job_id}, although the pod may "
            f"go to other nodes now: {error.description}"
        )
        self._warn(unit, Reason.UPDATE_REFUSED, message)
        self._metrics.actions.labels("readmit", "refused").inc()
        log.warning("excluded nodes not updated", job_id=action.job_id, error=str(error))


def _with_excluded(record: TaggedJob, action: Readmit) -> TaggedJob:
    parts = tuple(
        replace(part, excluded_nodes=action.by_id.get(part.job_id, part.excluded_nodes))
        for part in record.parts
    )
    return replace(record, excluded_nodes=action.excluded, parts=parts)


def left_out(action: Submit) -> str:
    """Which nodes the job must not get, and why; "" if it may get any."""
    if not action.excluded:
        return ""
    shown = [f"{node} ({why})" for node, why in action.excluded[:_MOST_SHOWN]]
    more = len(action.excluded) - len(shown)
    return f"excluded nodes: {', '.join(shown)}{f' and {more} more' if more else ''}"
