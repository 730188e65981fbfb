"""How a unit gets rid of a job: by cancelling it, or by removing its id from the pod.

When: the pods can run no more (`core/decide.py`), a waiting pod cannot use its job or was edited
(`core/waiting.py`), its partition needs another kind of job (`update.py`), a new job replaces a
lost one (`core/lost_job.py`; `submit.py` then cancels the old one), the owner tag was taken away
(`core/untagged.py`). `cancel_batches.py` sends the cancels of one moment together; the HTTP
request is made by `slurmapi/client.py`. Others that cancel: `slurm/census.py` (orphans, duplicates,
jobs that a unit has released), `untagged.py` (jobs without their owner tag), `trial.py` and
`slurm/token_rights.py` (their own trial jobs).
"""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from scheduler.core.actions import Cancel, DropJob, TakeBack
from scheduler.core.event_reasons import Reason
from scheduler.core.naming import JOB_ID
from scheduler.execute.absent_pods import AbsentPods
from scheduler.execute.cancel_batches import Canceller
from scheduler.execute.farewell import Farewell
from scheduler.execute.sent_bindings import SentBindings
from scheduler.execute.setback import REFUSALS, SETBACKS, set_back
from scheduler.execute.tools import Result, Tools
from scheduler.execute.untagged import Untagged
from scheduler.kube.errors import KubeInterrupted
from scheduler.slurm.census import Census
from scheduler.slurm.given_back import mark_given_back
from scheduler.state.units import Unit
from slurmapi import SlurmError, SlurmRefused

log = structlog.get_logger(__name__)


class Release:
    """Ends the unit's own jobs and no others (I14)."""

    def __init__(
        self,
        tools: Tools,
        canceller: Canceller,
        *,
        sent: SentBindings,
        absent: AbsentPods,
        census: Census,
    ) -> None:
        self._tools = tools
        self._slurm = tools.slurm
        self._units = tools.units
        self._teller = tools.teller
        self._clock = tools.clock
        self._canceller = canceller
        self._sent = sent
        self._absent = absent
        self._census = census
        self._farewell = Farewell(tools.slurm, tools.metrics, clock=tools.clock)
        self._untagged = Untagged(tools, canceller)

    async def cancel(self, unit: Unit, action: Cancel) -> Result:
        """Cancel the job. Just before, if no watch shows the pod, the API server must say that it
        is gone, and the job's owner tag is read again. Raises SlurmError, and KubeError if the pod
        cannot be read or still exists.
        """
        await self._make_sure(unit, action.unseen)
        job = unit.job
        if job is not None and job.job_id == action.job_id:
            own = await self._tools.read_anew(unit, job)
            if own is None:
                return 0.0
            job.wrote(await self._farewell.write(own, action.outcome))
            try:
                await self._canceller.cancel(action.job_id, send_by=own.send_by)
            except SlurmRefused as error:
                self._note_refusal(unit, action.job_id, error)
                raise
            job.was_cancelled(self._clock())
        else:
            await self.end_other(unit, action.job_id)
        self._tools.count("cancel", "ok")
        log.info(
            "placeholder cancelled",
            job_id=action.job_id,
            namespace=unit.namespace,
            pod=unit.name,
            why=action.why,
        )
        return None

    def _note_refusal(self, unit: Unit, job_id: int, error: SlurmRefused) -> None:
        """Log that Slurm refuses the cancel, once for each reason. The job goes on holding its
        nodes, and mostly no pod is left on which an Event could say so.
        """
        self._tools.count("cancel", error.outcome)
        if unit.refusals.cancel != str(error):
            unit.refusals.cancel = str(error)
            names = {"namespace": unit.namespace, "pod": unit.name}
            log.error("cancel refused", job_id=job_id, **names, error=str(error))

    async def drop(self, unit: Unit, action: DropJob) -> None:
        """Remove the job from the pod and from the unit. Raises KubeError, also if the pod turns
        out to be bound.
        """
        await self._settle_bindings(unit)
        # If the API server refuses this, `given_back` in the job's tag still says that the unit has
        # released it.
        await self._teller.patch(unit, annotations={JOB_ID: None}, pods=unit.pods)
        for pod in unit.pods:
            pod.said.recorded = None
        self._units.set_job(unit, None)
        unit.asked.may_pack = unit.asked.may_pack and not action.miscounted
        unit.bindings.unfit_since = None
        unit.refusals.submit = unit.refusals.submit.whatever()
        unbindable = unit.refusals.bind is not None
        set_back(unit, None, REFUSALS if unbindable else SETBACKS, now=self._clock())
        text = f"Slurm job {action.job_id} no longer belongs to the pod: {action.why}"
        self._teller.event(unit, Reason.PLACEHOLDER_LOST, text)

    async def take_back(self, unit: Unit, action: TakeBack) -> None:
        """Cancel a job that lost its owner tag. The pod may be bound although no watch has shown
        it, so that is checked first. Raises SlurmError and KubeError.
        """
        await self._make_sure(unit, action.unseen)
        await self._settle_bindings(unit)
        await self._untagged.take_back(unit, action)

    async def end_other(self, unit: Unit, job_id: int) -> None:
        """Cancel a job that the unit has released. If Slurm does not accept the cancel, a census
        finds the job, checks that it is ours, and tries until it succeeds. Raises SlurmError.
        """
        try:
            own = await mark_given_back(self._slurm, job_id, unit=unit, owner=self._tools.owner)
            if own is not None:
                await self._canceller.cancel(job_id, send_by=own.send_by)
        except SlurmError:
            self.leave_to_census(unit, job_id)
            raise

    def leave_to_census(self, unit: Unit, job_id: int) -> None:
        """Note that the job must end, and leave that to a census."""
        unit.leave(job_id)
        self._census.ask()

    async def _make_sure(self, unit: Unit, unseen: Iterable[str]) -> None:
        """Make sure that these pods do not exist. Raises KubeError, also if one does exist."""
        for uid in unseen:
            await self._absent.make_sure(unit.namespace, unit.pod(uid).name, uid)

    async def _settle_bindings(self, unit: Unit) -> None:
        """Find out whether bindings that were never answered, and that no watch has shown, took
        effect nevertheless. Only the API server knows whether the pod runs on the node that is
        about to be released. Raises KubeInterrupted if it does.
        """
        for member in unit.pods:
            if not self._sent.is_open(member.uid):
                continue
            node = await self._sent.node_of(unit, member.uid)
            if node:
                raise KubeInterrupted(f"the pod is bound to {node} after all")
            if node is not None:
                self._sent.is_unbound(member.uid)
