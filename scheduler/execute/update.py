"""Applies edits of a pod to its pending job, and finds out which of them Slurm accepted.

Before an update the owner tag marks these fields as unsettled, and only afterwards says which were
accepted. An update may take effect in part (measured), and a tag must never claim a value that
Slurm refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import structlog
from msgspec.structs import replace

from annotations import JobRequest
from scheduler.core.actions import Cancel, DropJob, Update
from scheduler.core.edits import CHARGED, asked_after, asked_meanwhile, called, differences
from scheduler.core.event_reasons import Reason
from scheduler.core.owner_tag import OwnerTag
from scheduler.core.refused_request import NEVER, Pauses
from scheduler.execute.cancel import Release
from scheduler.execute.edit_pace import EditPace
from scheduler.execute.partition_move import PartitionMove
from scheduler.execute.tools import Tools
from scheduler.execute.trial import Trial
from scheduler.slurm.look import look
from scheduler.slurm.ownership import own_placeholder, still_own
from scheduler.slurm.suspicion import about_one_job
from scheduler.state.units import Placeholder, Unit
from slurmapi import BaseState, Job, SlurmRefused

log = structlog.get_logger(__name__)

# Pauses before we repeat a request that Slurm has refused.
_PAUSES: Final = Pauses(30.0, 300.0)


@dataclass(slots=True)
class _Outcome:
    taken: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)


class _NotOurs(Exception):  # noqa: N818 - reads as what happened
    """The job has ended, or its id belongs to another job now."""


class Updater:
    """Handles one edit of a unit at a time."""

    def __init__(
        self,
        tools: Tools,
        *,
        trial: Trial,
        partition_move: PartitionMove,
        edits: EditPace,
        release: Release,
    ) -> None:
        self._slurm = tools.slurm
        self._owner = tools.owner
        self._tell = tools.teller.event
        self._clock = tools.clock
        self._trial = trial
        self._partition_move = partition_move
        self._edits = edits
        self._release = release

    async def update(self, unit: Unit, action: Update) -> float:
        """Apply the edit. Returns after how many seconds the unit should be looked at again. Raises
        SlurmError if Slurm cannot be asked, and KubeError if the pod cannot be written.
        """
        if pause := await self._edits.pause(unit):
            return pause
        if why := await self._unfit(unit, action):
            await self._release.drop(unit, DropJob(action.job_id, why))
            await self._release.cancel(unit, Cancel(action.job_id, why))
            return 0.0
        return await self._edit(unit, action)

    async def _unfit(self, unit: Unit, action: Update) -> str:
        """Why the job cannot be moved to another partition that the pod asks for now; "" if it
        can, or if the pod asks for the same one as before.
        """
        record = None if unit.job is None else unit.job.record
        if record is None or "partition" not in action.changed:
            return ""
        return await self._partition_move.unfit(record, action.request)

    async def _edit(self, unit: Unit, action: Update) -> float:
        job = unit.job
        if job is None or job.job_id != action.job_id or job.record is None:
            return 0.0
        own = await own_placeholder(self._slurm, unit, job, owner=self._owner, clock=self._clock)
        tag = None if own is None else own.job.tag
        if tag is None:
            return 0.0  # the next pass decides from what this look has shown
        try:
            outcome = await self._carry_out(unit, job, action, tag)
        except _NotOurs:
            return 0.0  # see above
        except SlurmRefused as refusal:
            # A job_submit plugin may refuse every change, even that of the tag.
            if not about_one_job(refusal):
                raise
            outcome = _Outcome(refused=dict.fromkeys(action.changed, refusal.description))
        await look(self._slurm, unit, job, clock=self._clock)
        record = job.record
        if record.state.base is BaseState.PENDING:  # otherwise the job has started before the edit
            self._say(unit, record, action, outcome)
            self._remember(unit, action.request, outcome)
        return 0.0

    async def _carry_out(
        self, unit: Unit, job: Placeholder, action: Update, tag: OwnerTag
    ) -> _Outcome:
        # If this process dies before the second tag, the next one sees which fields it has to
        # check.
        unsettled = asked_meanwhile(tag.asked, action.changed)
        await self._retag(unit, job, tag, unsettled)
        outcome = await self._send(unit, job, action)
        settled = asked_after(unsettled, action.request, tuple(outcome.taken))
        await self._retag(unit, job, replace(tag, asked=unsettled), settled)
        return outcome

    async def _send(self, unit: Unit, job: Placeholder, action: Update) -> _Outcome:
        """Send all fields in one update; if that is refused, each field by itself."""
        outcome = _Outcome()
        for group in _groups(action):
            await self._send_group(unit, job, action, group, outcome)
        return outcome

    async def _send_group(
        self, unit: Unit, job: Placeholder, action: Update, group: list[str], outcome: _Outcome
    ) -> None:
        refusal = await self._try(unit, job, action, group)
        if refusal is None:
            outcome.taken += group
        elif len(group) == 1:
            outcome.refused[group[0]] = refusal
        else:
            for name in group:
                await self._send_group(unit, job, action, [name], outcome)

    async def _try(
        self, unit: Unit, job: Placeholder, action: Update, names: Collection[str]
    ) -> str | None:
        changes: dict[str, Any] = {}
        for name in names:
            changes |= _change(name, action.request)
        try:
            if not CHARGED.isdisjoint(names):
                changes |= await self._trial.charged(unit, action.request)
            await self._write(unit, job, **changes)
        except SlurmRefused as refusal:
            if not about_one_job(refusal):
                raise
            return refusal.description
        return None

    async def _retag(
        self, unit: Unit, job: Placeholder, tag: OwnerTag, asked: Mapping[str, str]
    ) -> None:
        if asked != tag.asked:
            await self._write(unit, job, admin_comment=tag.encode(asked=asked))

    async def _write(self, unit: Unit, job: Placeholder, **changes: Any) -> None:
        """Send one update of an edit, which may take seconds. Raises _NotOurs if the job no longer
        belongs to the unit.
        """
        own = await still_own(self._slurm, unit, job, owner=self._owner, clock=self._clock)
        if own is None:
            raise _NotOurs
        # The tag is on the first component of a heterogeneous job alone.
        ids = own.job.ids[:1] if "admin_comment" in changes else own.job.ids
        for job_id in ids:
            await self._slurm.update_job(job_id, send_by=own.send_by, **changes)

    def _say(self, unit: Unit, record: Job, action: Update, outcome: _Outcome) -> None:
        if outcome.taken:
            now = ", ".join(_set_to(name, action.request) for name in outcome.taken)
            odd = "; ".join(differences(record, action.request))
            shown = f" (but {odd})" if odd and not outcome.refused else ""
            message = f"Slurm job {record.job_id} was updated: {now}{shown}"
            self._tell(unit, Reason.PLACEHOLDER_UPDATED, message)
        if outcome.refused:
            why = _refusals(action.request, outcome.refused)
            message = f"Slurm job {record.job_id} was not updated: {why}"
            self._tell(unit, Reason.UPDATE_REFUSED, message)
        log.info(
            "placeholder updated",
            namespace=unit.namespace,
            pod=unit.name,
            job_id=record.job_id,
            taken=outcome.taken,
        )

    def _remember(self, unit: Unit, request: JobRequest, outcome: _Outcome) -> None:
        if not outcome.refused:
            unit.refusals.update = NEVER
            return
        why = _refusals(request, outcome.refused)
        former = unit.refusals.update
        unit.refusals.update = former.again(request, _PAUSES, now=self._clock(), why=why)


def _groups(action: Update) -> list[list[str]]:
    """The fields that are sent together: Slurm refuses a priority for a job that is held or is
    being released in the same update (error 2042).
    """
    rest = [name for name in action.changed if name != "hold"]
    if "hold" not in action.changed:
        return [rest]
    if action.request.hold:
        return [group for group in (rest, ["hold"]) if group]
    # Releasing a job sets a priority of Slurm's own, so ours must follow.
    again = ["priority"] if action.request.priority is not None else []
    return [["hold"], *([[*dict.fromkeys([*rest, *again])]] if rest or again else [])]


def _change(name: str, request: JobRequest) -> Mapping[str, Any]:
    """The arguments of `update_job` for this field of the request; a field that is None is
    reset.
    """
    value = getattr(request, name)
    match name:
        case "hold":
            return {"held": bool(value)}
        case "priority":
            return {"priority_reset": True} if value is None else {"priority": value}
        case "nice":
            return {"nice": value or 0}
        case "account" | "qos" if value is None:
            return {}  # the trial finds its value then
        case "comment" | "reservation":
            return {name: value or ""}
        case _:
            return {name: value}


def _set_to(name: str, request: JobRequest) -> str:
    value, key = getattr(request, name), called(name, request)
    return f"{key} is {value!r}" if value is not None else f"{key} is removed"


def _refusals(request: JobRequest, refused: Mapping[str, str]) -> str:
    return "; ".join(
        f"{called(name, request)} {getattr(request, name)!r} was not accepted: {why}"
        for name, why in refused.items()
    )
