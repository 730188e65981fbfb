"""Submits a unit's job to Slurm. If the pod runs already, the job's id is written on it at once;
otherwise with the first condition about the job, or by the Binding. `placeholder.py` describes the
job, and `send.py` sends it.
"""

from __future__ import annotations

from typing import Final

import structlog

from scheduler.core.actions import Submit
from scheduler.core.event_reasons import Reason
from scheduler.core.gang_patience import taken_as_a_gang
from scheduler.core.intervals import UNTOLD_SECONDS
from scheduler.core.naming import job_name
from scheduler.core.refusal_texts import TOO_LARGE_ERRORS, refusal_text
from scheduler.execute.avoid import left_out
from scheduler.execute.cancel import Release
from scheduler.execute.edit_pace import EditPace
from scheduler.execute.gate import Gate
from scheduler.execute.send import Sender
from scheduler.execute.setback import REFUSALS, SETBACKS, set_back
from scheduler.execute.submit_pace import SubmitPace
from scheduler.execute.tell import job_annotations
from scheduler.execute.tools import Result, Tools
from scheduler.kube.errors import KubeError
from scheduler.slurm.census import Census
from scheduler.slurm.pulse import Pulse
from scheduler.slurm.suspicion import Suspicion, about_one_job
from scheduler.state.units import Placeholder, Unit
from slurmapi import BaseState, JobState, SlurmError, SlurmInterrupted, SlurmRefused, Submitted

log = structlog.get_logger(__name__)

_QUEUED: Final = JobState(BaseState.PENDING)


class Submitter:
    """Handles one submit of a unit at a time. `release` ends a job that the new one replaces."""

    def __init__(
        self,
        tools: Tools,
        sender: Sender,
        *,
        submits: SubmitPace,
        edits: EditPace,
        release: Release,
        pulse: Pulse,
        census: Census,
    ) -> None:
        self._tools = tools
        self._teller = tools.teller
        self._clock = tools.clock
        self._sender = sender
        self._submits = submits
        self._edits = edits
        self._release = release
        self._pulse = pulse
        self._census = census
        self._gate = Gate(tools.clock)
        self._suspicion = Suspicion(tools.slurm, clock=tools.clock)

    async def submit(self, unit: Unit, action: Submit) -> Result:
        """Submit when it is the unit's turn. If Slurm refuses the job, the pod's condition says so
        and the submit is tried again later. Raises SlurmError if Slurm cannot be asked about the
        job that is replaced, and KubeError if the pod cannot be written.
        """
        return await self._paced(unit, action) or await self._submit(unit, action)

    async def record(self, unit: Unit, job_id: int) -> None:
        """Write the job's id on the pod. Raises KubeError."""
        self._teller.announce(unit)
        named_another = any(pod.said.recorded not in {None, job_id} for pod in unit.pods)
        if await self._write_id(unit, job_id) and named_another:
            self._census.ask()  # it may end a twin that was kept because the pod named it

    async def _write_id(self, unit: Unit, job_id: int) -> bool:
        """Write the id on each pod that does not name the job yet. False if that was not possible
        for all of them. Pods that run get no Binding that would write it.
        """
        pods = [pod for pod in unit.pods if pod.said.recorded != job_id]
        runs = any(pod.seen.placed or pod.uid in unit.bindings.nodes for pod in pods)
        written = await self._teller.patch(
            unit, annotations=job_annotations(unit, job_id), pods=pods, must=runs
        )
        for pod in written:
            pod.said.recorded = job_id
        return len(written) == len(pods)

    def forget(self, unit: Unit) -> None:
        """The unit's pod is gone, so the units that wait behind it move up."""
        self._submits.forget(unit)
        self._edits.forget(unit)

    async def _paced(self, unit: Unit, action: Submit) -> float:
        """Seconds until the unit may submit, because of its budgets."""
        seconds = 0.0 if action.nodes else await self._submits.pause(unit)
        if seconds or self._clock() >= unit.refusals.submit.until:
            return seconds
        # The pause after a refusal is not over, so only an edit can have brought the unit here.
        return await self._edits.pause(unit)

    async def _submit(self, unit: Unit, action: Submit) -> Result:
        pause = self._gate.admit()
        if pause:
            return await self._kept_back(unit, pause)
        self._submits.take(unit)
        self._edits.settle(unit)
        unit.asked.submitting = True
        try:
            return await self._try(unit, action)
        finally:
            unit.asked.submitting = False

    async def _try(self, unit: Unit, action: Submit) -> Result:
        try:
            submitted = await self._sender.send(unit, action)
        except SlurmError as error:
            if not about_one_job(error) or await self._suspicion.confirmed(unit.key, error):
                return await self._unavailable(unit, error)
            self._gate.refused()
            return await self._refused(unit, action, error)
        self._suspicion.dispel()
        self._gate.open()
        return await self._submitted(unit, submitted, action)

    async def _submitted(self, unit: Unit, submitted: Submitted, action: Submit) -> Result:
        now = self._clock()
        job = Placeholder(
            submitted.job_id,
            state=_QUEUED,
            submitted_at=now,
            made_as=job_name(unit.namespace, unit.name, unit.key),
        )
        unit.refusals.submit = unit.refusals.submit.whatever()
        unit.asked.tried_at = now if unit.asked.tried_at is None else unit.asked.tried_at
        unit.said.warned.clear()
        self._tools.units.set_job(unit, job)
        self._pulse.come_sooner()
        if action.nodes:
            self._lost(unit, action)
        self._tools.count("submit", "ok")
        self._tools.metrics.stages["submitted"].observe(now - unit.seen_at)
        self._teller.submitted(unit, job.job_id, _submitted_text(submitted, action))
        log.info(
            "placeholder submitted",
            job_id=job.job_id,
            namespace=unit.namespace,
            pod=unit.name,
            node=action.where or None,
        )
        if action.nodes or action.excluded or submitted.warnings:
            self._teller.announce(unit)  # nothing else will say this
        if not action.nodes:
            # Pods on which the job is not shown at once show it only if they still wait then.
            return 0.0 if unit.is_shown_at_once else UNTOLD_SECONDS
        try:
            await self._write_id(unit, job.job_id)
        except KubeError:
            if action.replaces is not None:
                self._release.leave_to_census(unit, action.replaces)
            raise
        if action.replaces is not None:
            await self._release.end_other(unit, action.replaces)
        return None

    def _lost(self, unit: Unit, action: Submit) -> None:
        """Note that the job just submitted replaces the lost one of a running pod. After the next
        loss the pause is longer.
        """
        set_back(unit, None, SETBACKS, now=self._clock())
        unit.seen.asked_anew(tries=action.tries, now=self._clock())
        # A census that ran in the meantime has skipped this unit, though a job of a former process
        # may hold the node.
        self._census.ask()
        text = f"The pod runs on {action.where} without a Slurm job: {action.why}"
        self._teller.event(unit, Reason.PLACEHOLDER_LOST, text)

    async def _refused(self, unit: Unit, action: Submit, error: SlurmRefused) -> Result:
        self._tools.count("submit", "refused")
        seconds = set_back(unit, action.request, REFUSALS, now=self._clock())
        message = refusal_text(
            action.request, error_number=error.error_number, description=str(error)
        )
        if unit.gang is not None and error.error_number in TOO_LARGE_ERRORS:
            message += taken_as_a_gang(unit.gang.member.name, len(action.seats))
        if action.excluded:
            # Perhaps the nodes that remain are not enough.
            unit.asked.exclusions.lift(self._clock())
            message = f"{message}; {left_out(action)}"
        self._teller.event(unit, Reason.SLURM_REJECTED, message)
        self._teller.log_refusal(unit, Reason.SLURM_REJECTED, message)
        await self._teller.tell_waiting(
            unit, Reason.SLURM_REJECTED, f"{message} (the scheduler tries again)"
        )
        return seconds

    async def _unavailable(self, unit: Unit, error: SlurmError) -> Result:
        self._tools.count("submit", error.outcome)
        blamed = self._gate.is_open  # Slurm has served others since, or this is the first failure
        seconds = self._gate.shut(error)
        if isinstance(error, SlurmInterrupted):
            unit.suspect_unrecorded_job(self._clock())
            self._census.ask(afresh=True)
            if blamed:
                request = unit.refusals.submit.request
                seconds = max(seconds, set_back(unit, request, SETBACKS, now=self._clock()))
        return await self._kept_back(unit, seconds)

    async def _kept_back(self, unit: Unit, seconds: float) -> Result:
        until = self._clock() + seconds
        unit.refusals.submit = unit.refusals.submit.whatever(until=until)
        message = f"Slurm accepts no jobs now: {self._gate.why}"
        await self._teller.tell_waiting(unit, Reason.SLURM_UNAVAILABLE, message)
        return seconds


def _submitted_text(submitted: Submitted, action: Submit) -> str:
    where = f" for node {action.where}, where the pod runs" if action.nodes else ""
    if action.excluded:
        where = f", {left_out(action)}"
    warnings = f" (Slurm warns: {'; '.join(submitted.warnings)})" if submitted.warnings else ""
    return f"Submitted Slurm job {submitted.job_id}{where}{warnings}"
