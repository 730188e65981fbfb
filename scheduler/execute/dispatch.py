"""Carries out actions: data in, calls on Kubernetes and Slurm out, what came of them remembered."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, assert_never

import structlog

from annotations import JobRequest, Sharing
from scheduler.core.actions import (
    Action,
    Again,
    Bind,
    Cancel,
    DropJob,
    Evict,
    Exclude,
    Forget,
    Hurry,
    Inspect,
    Locate,
    LookForTwins,
    NoteEnd,
    Readmit,
    Record,
    Reject,
    Submit,
    TakeBack,
    Tell,
    Update,
    Warn,
    Weigh,
)
from scheduler.core.doubt import wants_another
from scheduler.core.naming import ENDS_AT, JOB_ID, NODES, Owner, job_name, read_tag
from scheduler.core.reasons import Reason
from scheduler.core.refusals import refusal_text
from scheduler.core.refused import Pauses
from scheduler.core.refusedbind import KEPT_SECONDS, RefusedBind
from scheduler.execute.avoid import Avoidance, left_out
from scheduler.execute.brake import EndingBrake
from scheduler.execute.canceller import Canceller
from scheduler.execute.editing import EditPace
from scheduler.execute.evict import Evictor
from scheduler.execute.farewell import Farewell
from scheduler.execute.forms import Forms
from scheduler.execute.gate import Gate
from scheduler.execute.modes import Modes
from scheduler.execute.placeholder import Mode, submission
from scheduler.execute.submitting import SubmitPace
from scheduler.execute.tell import Teller
from scheduler.execute.trial import Trial
from scheduler.execute.untagged import Untagged
from scheduler.execute.update import Updater
from scheduler.kube.api import AlreadyBound, Bound, Gone, KubeApi, Refused
from scheduler.kube.errors import KubeError, KubeInterrupted
from scheduler.nodes.fit import Nodes
from scheduler.nodes.gpu_sharing import GpuSharing
from scheduler.nodes.loads import NodeLoads
from scheduler.observe.metrics import Metrics
from scheduler.slurm.census import Census
from scheduler.slurm.given_back import mark_given_back
from scheduler.slurm.look import look
from scheduler.slurm.ownership import OwnJob, own_placeholder
from scheduler.slurm.pulse import SlurmWatch
from scheduler.slurm.suspicion import Suspicion, about_one_job
from scheduler.state.units import Placeholder, Unit, Units
from slurmapi import (
    BaseState,
    JobState,
    JobSubmission,
    SlurmClient,
    SlurmError,
    SlurmInterrupted,
    SlurmRefused,
    Submitted,
)

log = structlog.get_logger(__name__)

# After an early end, or a refusal, the next submit waits.
_SETBACKS: Final = Pauses(1.0, 300.0)
_REFUSALS: Final = Pauses(30.0, 300.0)
# Two answers of one instant are one look: the one that confirms comes a little later.
_CONFIRM_SECONDS: Final = 0.5

_QUEUED: Final = JobState(BaseState.PENDING)

Result = float | None
"""Seconds after which the unit should be looked at again; None leaves it to events."""


class Executor:
    """The hands of the scheduler."""

    def __init__(
        self,
        *,
        kube: KubeApi,
        slurm: SlurmClient,
        canceller: Canceller,
        units: Units,
        nodes: Nodes,
        teller: Teller,
        owner: Owner,
        modes: Modes,
        gpu_sharing: GpuSharing,
        forms: Forms,
        watch: SlurmWatch,
        census: Census,
        job_environment: Callable[[str], Mapping[str, str]],
        metrics: Metrics,
        clock: Callable[[], float],
        doubt_pods: Callable[[], None],
        brake: EndingBrake,
        loads: NodeLoads,
        claim: Callable[[str, str], bool],
        submits: SubmitPace,
        edits: EditPace,
        budget_seconds: float = 0.0,
    ) -> None:
        self._kube = kube
        self._slurm = slurm
        self._canceller = canceller
        self._units = units
        self._nodes = nodes
        self._teller = teller
        self._owner = owner
        self._modes = modes
        self._gpu_sharing = gpu_sharing
        self._forms = forms
        self._watch = watch
        self._census = census
        self._job_environment = job_environment
        self._metrics = metrics
        self._clock = clock
        self._doubt_pods = doubt_pods
        self._loads = loads
        self._claim = claim
        self._submits = submits
        self._edits = edits
        self._farewell = Farewell(slurm, metrics, clock=clock)
        self._evictor = Evictor(
            kube,
            brake=brake,
            budget_seconds=budget_seconds,
            tell=teller.event,
            metrics=metrics,
            clock=clock,
        )
        self._gate = Gate(clock)
        self._suspicion = Suspicion(slurm, clock=clock)
        self._avoidance = Avoidance(
            slurm, owner=owner, warn=teller.warn, metrics=metrics, clock=clock
        )
        self._untagged = Untagged(
            kube,
            slurm,
            owner=owner,
            canceller=canceller,
            units=units,
            teller=teller,
            metrics=metrics,
            clock=clock,
        )
        trial = Trial(slurm, owner=owner, modes=modes)
        self._updater = Updater(slurm, owner=owner, trial=trial, tell=teller.event, clock=clock)

    async def do(  # noqa: PLR0912 - one branch for each action
        self, unit: Unit, action: Action
    ) -> Result:
        """Carry out one action. Raises KubeError and SlurmError on the unexpected."""
        match action:
            case Submit():
                return await self._paced(unit, action) or await self._submit(unit, action)
            case Update():
                return await self._edits.pause(unit) or await self._update(unit, action)
            case NoteEnd():
                await self._note_end(unit, action)
            case Inspect(job_id=job_id):
                return await self._inspect(unit, job_id)
            case LookForTwins(tell=tell):
                await self._look_for_twins(unit, tell=tell)
            case Locate(nodes=nodes):
                await self._nodes.learn(nodes)
            case Weigh(node=node):
                await self._weigh(unit, node)
            case Record(job_id=job_id):
                await self._record(unit, job_id)
            case Bind():
                return await self._bind(unit, action)
            case Cancel():
                return await self._cancel(unit, action)
            case TakeBack():
                await self._take_back(unit, action)
            case DropJob():
                await self._drop(unit, action)
            case Exclude():
                self._avoidance.exclude(unit, action)
            case Readmit():
                await self._avoidance.readmit(unit, action)
            case Evict():
                return await self._evictor.evict(unit, action)
            case Hurry():
                return await self._evictor.hurry(unit, action)
            case Reject():
                return await self._teller.reject(unit, action)
            case Tell():
                return await self._teller.tell(unit, action)
            case Warn(reason=reason, message=message):
                self._teller.warn(unit, reason, message)
            case Again(seconds=seconds):
                return seconds
            case Forget():
                self._submits.forget(unit)
                self._edits.forget(unit)
                self._units.remove(unit.key)
            case _:
                assert_never(action)
        return None

    async def _paced(self, unit: Unit, action: Submit) -> float:
        """Seconds until a job for a pod that waits may be asked for."""
        seconds = 0.0 if action.node else await self._submits.pause(unit)
        # Before its pause is over, what Slurm has refused is submitted only if edited.
        if seconds or self._clock() >= unit.refusals.submit.until:
            return seconds
        return await self._edits.pause(unit)

    async def _update(self, unit: Unit, action: Update) -> Result:
        record = None if unit.job is None else unit.job.record
        if record is not None and "partition" in action.changed:
            why = await self._forms.unfit(record, action.request)
            if why:
                await self._drop(unit, DropJob(action.job_id, why))
                await self._cancel(unit, Cancel(action.job_id, why))
                return 0.0
        return await self._updater.update(unit, action)

    async def _submit(self, unit: Unit, action: Submit) -> Result:
        pause = self._gate.admit()
        if pause:
            return await self._kept_back(unit, pause)
        self._submits.take(unit)
        self._edits.settle(unit)
        unit.submitting = True
        try:
            return await self._try(unit, action)
        finally:
            unit.submitting = False

    async def _try(self, unit: Unit, action: Submit) -> Result:
        try:
            submitted = await self._send(unit, action)
        except SlurmError as error:
            if not about_one_job(error) or await self._suspicion.confirmed(unit.key, error):
                return await self._unavailable(unit, error)
            self._gate.refused()
            return await self._refused(unit, action, error)
        self._suspicion.dispel()
        self._gate.open()
        await self._submitted(unit, submitted, action)
        return None

    async def _send(self, unit: Unit, action: Submit) -> Submitted:
        request = action.request
        nodes = (action.node,) if action.node else request.required_nodes
        choice = await self._modes.choose(request.partition, nodes)
        sharing = await self._gpu_sharing.of(request, node=action.node)
        try:
            return await self._slurm.submit(self._job(unit, action, choice.mode, sharing))
        except SlurmRefused as error:
            if not choice.is_over(error):
                raise
        return await self._slurm.submit(self._job(unit, action, "external", sharing))

    def _job(
        self, unit: Unit, action: Submit, mode: Mode, sharing: Sharing | None
    ) -> JobSubmission:
        return submission(
            action.request,
            owner=self._owner,
            mode=mode,
            namespace=unit.namespace,
            name=unit.name,
            uids=(unit.key,),
            node=action.node,
            first=action.first,
            minutes=action.minutes,
            tries=action.tries,
            until=action.until,
            grace_seconds=action.grace_seconds,
            environment=self._job_environment(unit.key),
            sharing=sharing,
            excluded=tuple(node for node, _ in action.excluded),
        )

    async def _submitted(self, unit: Unit, submitted: Submitted, action: Submit) -> None:
        now = self._clock()
        job = Placeholder(
            submitted.job_id,
            state=_QUEUED,
            submitted_at=now,
            made_as=job_name(unit.namespace, unit.name, unit.key),
        )
        unit.refusals.submit = unit.refusals.submit.whatever()
        unit.tried_at = now if unit.tried_at is None else unit.tried_at
        unit.warned.clear()
        self._units.set_job(unit, job)
        self._watch.hurry()
        if action.node:
            self._lost(unit, action)
        self._count("submit", "ok")
        self._metrics.stage_seconds.labels("submitted").observe(now - unit.seen_at)
        self._teller.event(unit, Reason.PLACEHOLDER_SUBMITTED, _submitted_text(submitted, action))
        log.info(
            "placeholder submitted",
            job_id=job.job_id,
            namespace=unit.namespace,
            pod=unit.name,
            node=action.node or None,
        )
        try:
            await self._record_job(unit, job, action)
        except KubeError:
            if action.replaces is not None:
                self._leave_to_census(unit, action.replaces)
            raise
        if action.replaces is not None:
            await self._end_other(unit, action.replaces)

    def _lost(self, unit: Unit, action: Submit) -> None:
        """A pod that runs has lost its job; the next loss is made good after a longer pause."""
        self._set_back(unit, None, _SETBACKS)
        unit.tenure = replace(unit.tenure, tries=action.tries, pinned_since=self._clock())
        # One that came by meanwhile has left out a job of a former process that holds the node.
        self._census.ask()
        text = f"The pod runs on {action.node} without a Slurm job: {action.why}"
        self._teller.event(unit, Reason.PLACEHOLDER_LOST, text)

    async def _record_job(self, unit: Unit, job: Placeholder, action: Submit) -> None:
        """The job's id, on the pod; of a pod that waits, its condition too, in the same patch."""
        told = self._teller.not_scheduled(
            Reason.SLURM_PENDING, f"Slurm job {job.job_id} is pending"
        )
        taken = await self._teller.patch(
            unit,
            conditions=() if action.node else (told,),
            annotations={JOB_ID: str(job.job_id)},
        )
        if not taken:
            return
        # told_at stays: the cause may follow at once.
        unit.told, unit.told_reason = (told.reason, told.message), Reason.SLURM_PENDING
        unit.recorded = job.job_id

    async def _refused(self, unit: Unit, action: Submit, error: SlurmRefused) -> Result:
        self._count("submit", "refused")
        seconds = self._set_back(unit, action.request, _REFUSALS)
        message = refusal_text(
            action.request, error_number=error.error_number, description=str(error)
        )
        if action.excluded:
            unit.exclusions.lift(self._clock())  # it may be what they leave that does not suffice
            message = f"{message}; {left_out(action)}"
        self._teller.event(unit, Reason.SLURM_REJECTED, message)
        self._teller.log_refusal(unit, Reason.SLURM_REJECTED, message)
        await self._teller.tell_waiting(
            unit, Reason.SLURM_REJECTED, f"{message} (tried again now and then)"
        )
        return seconds

    async def _unavailable(self, unit: Unit, error: SlurmError) -> Result:
        self._count("submit", error.outcome)
        blamed = self._gate.is_open  # others were served since this unit, or nobody has failed yet
        seconds = self._gate.shut(error)
        if isinstance(error, SlurmInterrupted):
            unit.doubt_since = self._clock()
            self._census.ask(afresh=True)
            if blamed:
                request = unit.refusals.submit.request
                seconds = max(seconds, self._set_back(unit, request, _SETBACKS))
        return await self._kept_back(unit, seconds)

    async def _kept_back(self, unit: Unit, seconds: float) -> Result:
        until = self._clock() + seconds
        unit.refusals.submit = unit.refusals.submit.whatever(until=until)
        told = f"Slurm takes no jobs now: {self._gate.why}"
        await self._teller.tell_waiting(unit, Reason.SLURM_UNAVAILABLE, told)
        return seconds

    def _set_back(self, unit: Unit, request: JobRequest | None, pauses: Pauses) -> float:
        share = 1.0 - 0.25 * random.random()  # noqa: S311 - parts those that failed together
        former, now = unit.refusals.submit, self._clock()
        unit.refusals.submit = former.again(request, pauses, now=now, share=share)
        return unit.refusals.submit.until - now

    async def _inspect(self, unit: Unit, job_id: int) -> Result:
        job = unit.job
        if job is None or job.job_id != job_id:
            return 0.0
        missed = job.missing
        await look(self._slurm, unit, job, clock=self._clock)
        unsettled = job.missing > missed and wants_another(job.missing) and not job.refuted
        return _CONFIRM_SECONDS if unsettled else 0.0

    async def _record(self, unit: Unit, job_id: int) -> None:
        if not await self._teller.patch(unit, annotations={JOB_ID: str(job_id)}):
            return
        unit.recorded = job_id
        self._census.ask()  # the one that was recorded may be a twin, spared until now

    async def _weigh(self, unit: Unit, name: str) -> None:
        node = await self._loads.of(name)
        if node is not None:
            unit.tenure = replace(unit.tenure, node=node, node_at=self._clock())

    async def _look_for_twins(self, unit: Unit, *, tell: bool) -> None:
        self._census.ask()
        if tell and unit.job is None and self._census.trouble:
            told = f"Slurm's jobs cannot be looked through now: {self._census.trouble}"
            await self._teller.tell_waiting(unit, Reason.SLURM_UNAVAILABLE, told)

    async def _bind(self, unit: Unit, action: Bind) -> Result:
        pod = action.pod
        outcome = await self._bound_before(action) or await self._send_binding(unit, action)
        if outcome is None:
            return 0.0
        self._count("bind", type(outcome).__name__.lower())
        match outcome:
            case Bound():
                self._bound(unit, action)
            case AlreadyBound(node=node):
                self._units.binding.pop(pod.uid, None)
                unit.bound[pod.uid] = node
                return 0.0
            case Refused(why=why):
                return await self._bind_refused(unit, action, why)
            case Gone():
                self._units.binding.pop(pod.uid, None)
                return 1.0  # the watch is about to say so
            case _:
                assert_never(outcome)
        return None

    async def _send_binding(
        self, unit: Unit, action: Bind
    ) -> Bound | AlreadyBound | Refused | Gone | None:
        """None where nothing was sent: the job is not the unit's any more, or another pod has taken
        the place since the look.
        """
        if not await self._note_restarts(unit, action):
            return None
        pod = action.pod
        if not self._claim(pod.uid, action.target):
            return None
        # From here on it may run there, also when the answer gets lost: the watch will tell.
        self._units.binding[pod.uid] = action.target
        return await self._kube.bind(
            pod.namespace,
            pod.name,
            pod.uid,
            node=action.target,
            annotations=_bound_with(action),
        )

    async def _bind_refused(self, unit: Unit, action: Bind, why: str) -> Result:
        """Said at once; when it is tried again, and for how long, `decide` knows. What was sent
        stays noted, so that the pod is read before another binding is.
        """
        now = self._clock()
        refused = RefusedBind.after(unit.refusals.bind, job_id=action.job_id, why=why, now=now)
        unit.refusals.bind = refused
        told = (
            f"The API server refuses to bind the pod to {action.target}: {why}. It is tried again; "
            f"Slurm job {action.job_id} is given back after {KEPT_SECONDS:.0f} s of this"
        )
        self._teller.warn(unit, Reason.BIND_REFUSED, told)
        log.warning(
            "binding refused",
            namespace=unit.namespace,
            pod=unit.name,
            job_id=action.job_id,
            why=why,
        )
        await self._teller.tell_waiting(unit, Reason.BIND_REFUSED, told)
        return refused.wait(action.job_id, now)

    async def _bound_before(self, action: Bind) -> Bound | AlreadyBound | Gone | None:
        """What became of a binding that was sent before, where neither its answer nor a look told:
        it is read, and not written again (I3). None where there was none, or it did not come.
        """
        pod = action.pod
        if pod.uid not in self._units.binding:
            return None
        found = await self._kube.get_pod(pod.namespace, pod.name)
        if found is None or found.metadata.uid != pod.uid:
            return Gone()
        node = found.spec.node_name
        if not node:
            return None
        return Bound() if node == action.target else AlreadyBound(node)

    async def _note_restarts(self, unit: Unit, action: Bind) -> bool:
        """On the job, before the pod can run: later requeues are told from former ones by it. False
        where the job is not the unit's any more.
        """
        record = None if unit.job is None else unit.job.record
        tag = None if record is None else read_tag(record.admin_comment)
        if unit.job is None or record is None or tag is None or tag.restarts == action.restarts:
            return True
        own = await self._read_anew(unit, unit.job)
        tag = None if own is None else read_tag(own.job.admin_comment)
        if own is None or tag is None:
            return False
        noted = tag.encode(restarts=action.restarts)
        await self._slurm.update_job(action.job_id, send_by=own.send_by, admin_comment=noted)
        unit.job.record = replace(own.job, admin_comment=noted)
        return True

    def _bound(self, unit: Unit, action: Bind) -> None:
        unit.bound[action.pod.uid] = action.target
        # Without an end nothing was written: one that its pod brought along is still to go.
        unit.recorded, unit.ends_at = action.job_id, action.ends_at or None
        unit.refusals.submit, unit.refusals.bind = unit.refusals.submit.forgiven(), None
        unit.unfit_since = None
        unit.bound_at = unit.tried_at = self._clock()
        if unit.job is not None and unit.job.allocated_at:
            seconds = unit.bound_at - unit.job.allocated_at
            self._metrics.stage_seconds.labels("bound").observe(seconds)
        text = (
            f"Successfully assigned {action.pod.namespace}/{action.pod.name} to {action.target} "
            f"({_held(action)})"
        )
        self._teller.event(unit, Reason.SCHEDULED, text)
        log.info(
            "pod bound",
            namespace=unit.namespace,
            pod=unit.name,
            node=action.target,
            job_id=action.job_id,
        )

    async def _note_end(self, unit: Unit, action: NoteEnd) -> None:
        """Slurm's limit was changed; how often that is seen bounds how often this is written."""
        await self._teller.patch(unit, annotations={ENDS_AT: action.ends_at or None})
        unit.ends_at = action.ends_at

    async def _cancel(self, unit: Unit, action: Cancel) -> Result:
        if action.unseen:
            await self._make_sure(unit)
        job = unit.job
        if job is not None and job.job_id == action.job_id:
            own = await self._read_anew(unit, job)
            if own is None:
                return 0.0
            job.record = await self._farewell.write(own, action.outcome)
            await self._canceller.cancel(action.job_id, send_by=own.send_by)
            job.cancelled_at = self._clock()
        else:
            await self._end_other(unit, action.job_id)
        self._count("cancel", "ok")
        log.info(
            "placeholder cancelled",
            job_id=action.job_id,
            namespace=unit.namespace,
            pod=unit.name,
            why=action.why,
        )
        return None

    async def _read_anew(self, unit: Unit, job: Placeholder) -> OwnJob | None:
        return await own_placeholder(self._slurm, unit, job, owner=self._owner, clock=self._clock)

    async def _make_sure(self, unit: Unit) -> None:
        """A list that lacks a pod may be wrong, and its containers run: only the answer that there
        is no such pod is evidence (I5). Raises KubeInterrupted where it is there.
        """
        pod = await self._kube.get_pod(unit.namespace, unit.name)
        if pod is None or pod.metadata.uid != unit.key or pod.finished:
            return
        self._doubt_pods()
        raise KubeInterrupted("the pod is there, though it is not listed")

    async def _end_other(self, unit: Unit, job_id: int) -> None:
        """End a job that the unit has let go of. Where Slurm does not take the cancel, a census
        finds the job, makes sure that it is ours, and tries until it does.
        """
        try:
            own = await mark_given_back(self._slurm, job_id, uid=unit.key, owner=self._owner)
            if own is not None:
                await self._canceller.cancel(job_id, send_by=own.send_by)
        except SlurmError:
            self._leave_to_census(unit, job_id)
            raise

    def _leave_to_census(self, unit: Unit, job_id: int) -> None:
        unit.given_back.add(job_id)
        self._census.ask()

    async def _take_back(self, unit: Unit, action: TakeBack) -> None:
        """It holds the node of a pod that may run after all, though no watch has shown that."""
        if action.unseen:
            await self._make_sure(unit)
        if unit.key in self._units.binding:
            await self._settle_binding(unit)
            self._units.binding.pop(unit.key, None)
        await self._untagged.take_back(unit, action)

    async def _drop(self, unit: Unit, action: DropJob) -> None:
        if unit.key in self._units.binding:
            await self._settle_binding(unit)
        # Where that is refused, the job's own tag says that it was given back.
        await self._teller.patch(unit, annotations={JOB_ID: None})
        self._units.set_job(unit, None)
        self._units.binding.pop(unit.key, None)
        unit.recorded = unit.unfit_since = None
        unit.refusals.submit = unit.refusals.submit.whatever()
        unbindable = unit.refusals.bind is not None
        self._set_back(unit, None, _REFUSALS if unbindable else _SETBACKS)
        text = f"The pod has let go of Slurm job {action.job_id}: {action.why}"
        self._teller.event(unit, Reason.PLACEHOLDER_LOST, text)

    async def _settle_binding(self, unit: Unit) -> None:
        """A binding was sent, its answer lost, and the watch does not show it: only the API server
        knows whether the pod runs on what is about to be given back. Raises KubeInterrupted where
        it does.
        """
        pod = await self._kube.get_pod(unit.namespace, unit.name)
        if pod is None or pod.metadata.uid != unit.key or not pod.spec.node_name:
            return
        self._units.binding.pop(unit.key, None)
        unit.bound[unit.key] = pod.spec.node_name
        raise KubeInterrupted(f"the pod is bound to {pod.spec.node_name} after all")

    def _count(self, action: str, outcome: str) -> None:
        self._metrics.actions.labels(action, outcome).inc()


def _bound_with(action: Bind) -> dict[str, str]:
    told = {JOB_ID: str(action.job_id), NODES: action.node}
    return told | ({ENDS_AT: action.ends_at} if action.ends_at else {})


def _submitted_text(submitted: Submitted, action: Submit) -> str:
    where = f" for node {action.node}, where the pod runs" if action.node else ""
    if action.excluded:
        where = f", {left_out(action)}"
    warnings = f" (Slurm warns: {'; '.join(submitted.warnings)})" if submitted.warnings else ""
    return f"Submitted Slurm job {submitted.job_id}{where}{warnings}"


def _held(action: Bind) -> str:
    on = "" if action.node == action.target else f" on node {action.node}"
    return f"Slurm job {action.job_id}{on}"
