"""Gives back the nodes of a running job on which all pods have succeeded. Which nodes:
`core/early_release.py`.

Slurm can do that for external jobs (measured on 26.05.5). If it refuses, nothing is lost: the nodes
come free with the end of the job.
"""

from __future__ import annotations

from typing import Any, Final

import structlog
from msgspec.structs import replace

from scheduler.core.actions import GiveBack
from scheduler.core.refused_request import NEVER, Pauses
from scheduler.core.tagged import TaggedJob
from scheduler.execute.tools import Result, Tools
from scheduler.slurm.ownership import OwnJob
from scheduler.slurm.suspicion import about_one_job
from scheduler.state.units import Unit
from slurmapi import BaseState, Job, SlurmRefused

log = structlog.get_logger(__name__)

_PAUSES: Final = Pauses(60.0, 3600.0)


class EarlyRelease:
    """Shrinks the unit's own job, and no other (I14)."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    async def give_back(self, unit: Unit, action: GiveBack) -> Result:
        """Leave the job only these nodes. Raises SlurmError if Slurm cannot be asked."""
        job = unit.job
        if job is None or job.job_id != action.job_id:
            return 0.0
        own = await self._tools.read_anew(unit, job)
        tag = None if own is None else own.job.tag
        if own is None or tag is None or own.job.state.base is not BaseState.RUNNING:
            return 0.0  # the next pass decides from what this look has shown
        left = [node for node in own.job.nodes if node not in action.keep]
        if not left or len(action.at) != len(tag.ranks) or not set(action.keep) <= {*own.job.nodes}:
            return 0.0
        try:
            shrunk = await self._shrink(own, tag.encode(at=action.at), action.keep)
        except SlurmRefused as error:
            if not about_one_job(error):
                raise
            return self._refused(unit, action, left, error)
        unit.refusals.give_back = NEVER
        job.wrote(shrunk)
        self._tools.count("give_back", "ok")
        log.info("nodes given back", nodes=left, **_log_fields(unit, action.job_id))
        return None

    async def _shrink(self, own: OwnJob, noted: str, keep: tuple[str, ...]) -> TaggedJob:
        """Write the tag, and leave the job only these nodes; returns its record. The first of
        several components has the tag, so it comes first. Raises SlurmError.
        """
        record, parts = own.job, list[Job]()
        for part in record.parts or (record,):
            kept = tuple(node for node in part.nodes if node in keep)
            changes: dict[str, Any] = {} if kept == part.nodes else {"required_nodes": kept}
            if part.job_id == record.job_id:
                changes["admin_comment"] = noted
            if changes:
                await self._tools.slurm.update_job(part.job_id, send_by=own.send_by, **changes)
            parts.append(replace(part, nodes=kept))
        nodes = tuple(node for part in parts for node in part.nodes)
        of_several = tuple(parts) if record.parts else ()
        return replace(record, admin_comment=noted, nodes=nodes, parts=of_several)

    def _refused(
        self, unit: Unit, action: GiveBack, left: list[str], error: SlurmRefused
    ) -> Result:
        refusal = unit.refusals.give_back.again(None, _PAUSES, now=self._tools.clock())
        unit.refusals.give_back = refusal
        self._tools.count("give_back", "refused")
        names = _log_fields(unit, action.job_id)
        log.warning("nodes not given back", nodes=left, error=str(error), **names)
        return refusal.until - self._tools.clock()


def _log_fields(unit: Unit, job_id: int) -> dict[str, object]:
    return {"job_id": job_id, "namespace": unit.namespace, "gang": unit.name}
