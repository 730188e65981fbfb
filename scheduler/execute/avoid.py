"""Keeps a unit off nodes it could not use: in what it asks for next, and in the job that waits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import structlog

from scheduler.core.actions import Exclude, Readmit, Submit
from scheduler.core.naming import Owner
from scheduler.core.reasons import Reason
from scheduler.core.refused import NEVER, Pauses
from scheduler.observe.metrics import Metrics
from scheduler.slurm.ownership import own_job
from scheduler.slurm.suspicion import about_one_job
from scheduler.state.units import Unit
from slurmapi import SlurmClient, SlurmRefused

log = structlog.get_logger(__name__)

# Of the nodes that are left out, a message explains so many.
_MOST_SHOWN: Final = 3
# Between two tries of what Slurm has refused.
_PAUSES: Final = Pauses(30.0, 300.0)


class Avoidance:
    """Carries out what is decided about nodes that are to be avoided."""

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
        """Ask for other nodes for a while."""
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
        """A refusal of Slurm's costs only time: the job waits on, for the nodes it had before, and
        the same is asked for again after a growing pause.
        """
        own = await own_job(self._slurm, action.job_id, uid=unit.key, owner=self._owner)
        if own is None:
            return
        try:
            await self._slurm.update_job(
                action.job_id, send_by=own.send_by, excluded_nodes=action.excluded
            )
        except SlurmRefused as error:
            if not about_one_job(error):
                raise
            self._refused(unit, action, error)
            return
        unit.refusals.readmit = NEVER
        job = unit.job
        if job is not None and job.job_id == action.job_id and job.record is not None:
            # A pass before the next look would otherwise send the same once more.
            job.wrote(replace(job.record, excluded_nodes=action.excluded))
        self._metrics.actions.labels("readmit", "ok").inc()
        log.info("excluded nodes updated", job_id=action.job_id, nodes=len(action.excluded))

    def _refused(self, unit: Unit, action: Readmit, error: SlurmRefused) -> None:
        former = unit.refusals.readmit
        unit.refusals.readmit = former.again(action.digest, _PAUSES, now=self._clock())
        told = (
            f"Slurm job {action.job_id} keeps the nodes it was not to get, though others suit the "
            f"pod by now: {error.description}"
        )
        self._warn(unit, Reason.UPDATE_REFUSED, told)
        self._metrics.actions.labels("readmit", "refused").inc()
        log.warning("excluded nodes not updated", job_id=action.job_id, error=str(error))


def left_out(action: Submit) -> str:
    """Which nodes a job was not to get, and why; empty where it might have any."""
    if not action.excluded:
        return ""
    shown = [f"{node} ({why})" for node, why in action.excluded[:_MOST_SHOWN]]
    more = len(action.excluded) - len(shown)
    return f"left out: {', '.join(shown)}{f' and {more} more' if more else ''}"
