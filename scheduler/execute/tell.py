"""What the owner of a pod gets to see: Events, and the condition that says why the pod waits.

This module writes them. The texts come with the actions, from `core/waiting.py` and
`core/running.py`, with the words of `core/pending_reasons.py` (Slurm's reasons) and
`core/refusal_texts.py` (Slurm's refusals). All reasons are in `core/event_reasons.py`. The pace of
Events: `kube/recorder.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import structlog

from annotations import Problem
from groundwork.together import few_at_once
from scheduler.core.actions import NoteEnd, Reject, Tell
from scheduler.core.budgets import Budgets
from scheduler.core.event_reasons import MEANINGS, NO_ANSWER_YET, Reason
from scheduler.core.facts import Remark
from scheduler.core.naming import BESIDE_GANG, ENDS_AT, GANG, JOB_ID
from scheduler.core.refused_request import NEVER, Pauses
from scheduler.kube.api import Condition, KubeApi, Refused, condition
from scheduler.kube.clip import clipped
from scheduler.kube.recorder import ObjectRef, Recorder
from scheduler.observe.metrics import Metrics
from scheduler.policy.verdict import Refusal
from scheduler.state.member import Member
from scheduler.state.units import Unit

log = structlog.get_logger(__name__)

# An outage concerns all pods at once, and Events about it must leave room for others. A burst, then
# one in this many seconds.
_OUTAGE_EVENTS: Final = (20, 0.2)
# Lines of the log about remarks, for each namespace: a burst, then one in this many seconds.
_REMARK_LINES: Final = (100, 1.0)
GANG_WRITES: Final = (4096, 0.02)
"""Writes on the pods of gangs, for each namespace: a burst, then one in this many seconds. One edit
of one pod changes what all pods of its gang show. Bindings and evictions have no such budget.
"""
_GANG_AGAIN_SECONDS: Final = 5.0
"""The pause of a gang without budget: after it, many of its pods can be written on."""
# Pauses before we repeat a write on a pod that the API server has refused.
_WRITES: Final = Pauses(5.0, 300.0)


# This many pods of a gang are written on at once.
_AT_ONCE: Final = 16
# The message of one condition has room for this many problems.
MOST_PROBLEMS: Final = 8
_PROBLEM_BYTES: Final = 400


class Teller:
    """Writes on pods. If only the wording of a condition changes, it is patched at most once each
    `condition_seconds`. If `unschedulable_reason` is not empty, it replaces the reason of every
    PodScheduled=False.
    """

    def __init__(
        self,
        kube: KubeApi,
        recorder: Recorder,
        *,
        condition_seconds: float,
        unschedulable_reason: str,
        metrics: Metrics,
        clock: Callable[[], float],
    ) -> None:
        self._kube = kube
        self._recorder = recorder
        self._condition_seconds = condition_seconds
        self._unschedulable_reason = unschedulable_reason
        self._metrics = metrics
        self._clock = clock
        self._outages = Budgets[Reason](*_OUTAGE_EVENTS)
        self._remark_lines = Budgets[str](*_REMARK_LINES)
        self._gang_writes = Budgets[str](*GANG_WRITES)

    def event(self, unit: Unit, reason: Reason, message: str) -> None:
        """Record an Event on each pod. It is written later, or not at all if there are too many."""
        for pod in unit.pods:
            self._event_on(unit, pod, reason, message)

    def event_on(self, unit: Unit, uid: str, reason: Reason, message: str) -> None:
        """Record an Event on one pod of the unit."""
        self._event_on(unit, unit.pod(uid), reason, message)

    def _event_on(self, unit: Unit, pod: Member, reason: Reason, message: str) -> None:
        kind = MEANINGS[reason].kind
        ref = ObjectRef(kind="Pod", namespace=unit.namespace, name=pod.name, uid=pod.uid)
        self._recorder.record(ref, type=kind, reason=reason, message=message, action="Scheduling")

    def warn(self, unit: Unit, reason: Reason, message: str) -> None:
        """Record an Event, unless the last one for this reason had the same message."""
        message = clipped(message)
        if _is_new(unit, reason, message):
            if reason is Reason.RESIZED_BEYOND_JOB:
                self._metrics.resized_beyond_job.inc()
            self.event(unit, reason, message)

    def warn_on(self, unit: Unit, uid: str, reason: Reason, message: str) -> bool:
        """Record an Event on one pod of the unit, unless the last one for this reason had the same
        message. Returns whether it did.
        """
        message = clipped(message)
        new = _is_new(unit, reason, message)
        if new:
            self.event_on(unit, uid, reason, message)
        return new

    def submitted(self, unit: Unit, job_id: int, message: str) -> None:
        """Have an Event recorded about this new job as soon as anything is written about it."""
        unit.said.submitted = job_id, message

    def announce(self, unit: Unit) -> None:
        """Record the Event about the unit's new job now, if that was not done yet."""
        if unit.said.submitted is None or unit.job is None:
            return
        job_id, message = unit.said.submitted
        if job_id == unit.job.job_id:
            unit.said.submitted = None
            self.event(unit, Reason.PLACEHOLDER_SUBMITTED, message)

    def remark(self, unit: Unit, remarks: tuple[Remark, ...]) -> None:
        """Record each remark about a pod's request as an Event, once for each pod. A pod that is
        edited in a loop gets the same remark again and again.
        """
        for remark in remarks:
            if remark in unit.said.remarks:
                continue
            self.event(unit, remark.reason, remark.message)
            if remark.reason is Reason.ROOT_REQUESTED:
                self._metrics.root_requests.inc()
            if self._remark_lines.try_spend(unit.namespace, self._clock()):
                log.warning(
                    "request remarked on",
                    namespace=unit.namespace,
                    pod=unit.name,
                    remark=remark.message,
                )
        unit.said.remarks = remarks

    async def reject(self, unit: Unit, action: Reject) -> float | None:
        """Report all problems of the pod once, as an Event and in the condition. Returns how many
        seconds to wait if the condition has just been written with other problems, or if the API
        server has refused it. Raises KubeError.
        """
        message, pod = problems_text(action.problems), unit.pod(action.pod.uid)
        condition = self.not_scheduled(Reason.SCHEDULING_FAILED, message)
        if pod.said.has(condition):
            return None
        early = self._early(unit, pod, Reason.SCHEDULING_FAILED)
        if early > 0:
            return early
        self._event_on(unit, pod, Reason.SCHEDULING_FAILED, message)
        self.log_refusal(unit, Reason.SCHEDULING_FAILED, message)
        for problem in action.problems:
            if isinstance(problem, Refusal):
                self._metrics.policy_refusals.labels(problem.rule).inc()
        # Only what is written on the pod itself causes this, so it needs no budget.
        wait = await self._write(unit, pod, Reason.SCHEDULING_FAILED, message, must=True)
        self._metrics.actions.labels("reject", "ok").inc()
        return wait

    def log_refusal(self, unit: Unit, reason: Reason, message: str) -> None:
        """Log the refusal for the people who run the service: once for each message, not for each
        try.
        """
        if unit.said.warned.get(reason) != message:
            unit.said.warned[reason] = message
            names = {"namespace": unit.namespace, "pod": unit.name}
            log.warning("pod refused", **names, reason=reason, message=message)

    async def tell(self, unit: Unit, action: Tell) -> float | None:
        """Set the condition, and record an Event if Slurm has a new cause. Returns how many seconds
        to wait if the condition has just been written. Raises KubeError.
        """
        pod = unit.pod(action.pod.uid)
        self.announce(unit)
        if action.cause not in {"", "None", pod.said.cause}:
            pod.said.cause = action.cause
            self._event_on(unit, pod, action.reason, action.message)
        return await self._write(unit, pod, action.reason, action.message)

    async def tell_all(self, unit: Unit, actions: Sequence[Tell]) -> float | None:
        """Tell several pods of the unit. Returns the shortest of the waits, in seconds, that `tell`
        returned; None if there was none. Raises KubeError.
        """
        # Otherwise new words on some pods could use up the budget before others get their first.
        ordered = sorted(actions, key=lambda it: unit.pod(it.pod.uid).said.at)
        waits = await few_at_once(_AT_ONCE, ordered, partial(self.tell, unit))
        return min((it for it in waits if it is not None), default=None)

    async def tell_waiting(self, unit: Unit, reason: Reason, message: str) -> None:
        """Set the condition on the pods that still wait for a Node. Raises KubeError."""

        async def write(pod: Member) -> None:
            if unit.waiting and pod.uid not in unit.bindings.nodes:
                await self._write(unit, pod, reason, message)

        await few_at_once(_AT_ONCE, list(unit.pods), write)

    def not_scheduled(self, reason: Reason, message: str) -> Condition:
        """The condition PodScheduled=False, with `unschedulable_reason` if the site has set one."""
        written = self._unschedulable_reason or reason
        return condition("PodScheduled", "False", reason=written, message=message)

    async def patch(
        self,
        unit: Unit,
        *,
        annotations: Mapping[str, str | None],
        pods: Sequence[Member],
        must: bool = False,
    ) -> list[Member]:
        """Write annotations on each of these pods. Returns those on which they were written: the
        API server may refuse that and, unless they `must` be tried, the gangs of the namespace may
        have used up their budget. Raises KubeError.
        """
        allowed = [it for it in pods if must or self._may_write(unit)]
        if len(allowed) < len(pods):
            until = self._clock() + _GANG_AGAIN_SECONDS
            unit.refusals.write = unit.refusals.write.whatever(until=until)
        write = partial(self._patch_pod, unit, annotations=annotations)
        written = await few_at_once(_AT_ONCE, allowed, write) if allowed else []
        return [it for it, done in zip(allowed, written, strict=True) if done]

    def _may_write(self, unit: Unit) -> bool:
        """Whether one pod of the unit may be written on now. Charges the budget if so."""
        return unit.gang is None or self._gang_writes.try_spend(unit.namespace, self._clock())

    async def _patch_pod(
        self,
        unit: Unit,
        pod: Member,
        *,
        conditions: tuple[Condition, ...] = (),
        annotations: Mapping[str, str | None],
    ) -> bool:
        """Write on one pod. If the API server refuses that, an Event says so and the result is
        False: a refused write must not prevent a bind, nor the release of a node.
        """
        patched = await self._kube.patch_pod_status(
            unit.namespace, pod.name, pod.uid, conditions=conditions, annotations=annotations
        )
        if not isinstance(patched, Refused):
            unit.refusals.write = NEVER
            return True
        now = self._clock()
        if now >= unit.refusals.write.until:  # those that are refused together count once
            unit.refusals.write = unit.refusals.write.again(None, _WRITES, now=now)
        self.warn(unit, Reason.STATUS_REFUSED, _unwritten(patched, conditions, annotations))
        return False

    async def note_ends(self, unit: Unit, actions: Sequence[NoteEnd]) -> None:
        """Write the job's new end on these pods. Looks are limited, so these writes are too. Raises
        KubeError.
        """
        await few_at_once(_AT_ONCE, actions, partial(self._note_end, unit))

    async def _note_end(self, unit: Unit, action: NoteEnd) -> None:
        pod = unit.pod(action.pod.uid)
        await self._patch_pod(unit, pod, annotations={ENDS_AT: action.ends_at or None})
        pod.said.ends_at = action.ends_at

    async def _write(
        self, unit: Unit, pod: Member, reason: Reason, message: str, *, must: bool = False
    ) -> float | None:
        now = self._clock()
        if reason == Reason.NODE_UNAVAILABLE and unit.bindings.unfit_since is None:
            # `core/waiting.py` releases the allocation some time after the pod first showed that
            # its Node does not suit it.
            unit.bindings.unfit_since = now
            self.event(unit, reason, message)
        if reason == Reason.SLURM_UNAVAILABLE and not message.endswith(NO_ANSWER_YET):
            self._outage(unit, message)
        condition = self.not_scheduled(reason, message)
        if pod.said.has(condition):
            return None
        early = self._early(unit, pod, reason)
        if early > 0:
            return early
        if not must and not self._may_write(unit):
            return _GANG_AGAIN_SECONDS
        self.announce(unit)
        anew = _names_no_job_yet(unit, pod)
        job_id = None if unit.job is None or pod.uid in unit.spare else unit.job.job_id
        annotations = {} if job_id is None else job_annotations(unit, job_id)
        if not await self._patch_pod(unit, pod, conditions=(condition,), annotations=annotations):
            return max(0.0, unit.refusals.write.until - now)
        pod.said.recorded = job_id or pod.said.recorded
        pod.said.condition, pod.said.reason = (condition.reason, condition.message), reason
        if not anew:  # after the first words about a job, Slurm's pending reason may follow at once
            pod.said.at = now
        return None

    def _outage(self, unit: Unit, message: str) -> None:
        """Record an Event about the outage, once for each unit: the next submit clears `warned`. If
        the budget is used up now, the unit gets its Event at a later try.
        """
        reason = Reason.SLURM_UNAVAILABLE
        if reason not in unit.said.warned and self._outages.try_spend(reason, self._clock()):
            self.warn(unit, reason, message)

    def _early(self, unit: Unit, pod: Member, reason: Reason) -> float:
        """For how many seconds the condition has to keep its wording, because its reason is the
        same and it is about the same job, or because the API server has just refused a write.
        """
        until = unit.refusals.write.until
        if pod.said.reason == reason and not _names_no_job_yet(unit, pod):
            until = max(until, pod.said.at + self._condition_seconds)
        return until - self._clock()


def job_annotations(unit: Unit, job_id: int) -> dict[str, str | None]:
    """What stands on a pod whose unit has this job."""
    return {JOB_ID: str(job_id), **gang_annotation(unit)}


def gang_annotation(unit: Unit) -> dict[str, str]:
    """The annotation that names the gang of a pod with a job, or says that it is served beside
    one.
    """
    if unit.gang is not None:
        return {GANG: unit.key}
    return {GANG: BESIDE_GANG} if unit.beside_gang else {}


def _is_new(unit: Unit, reason: Reason, message: str) -> bool:
    """Whether the last warning for this reason had another message. This is the last one now."""
    new = unit.said.warned.get(reason) != message
    unit.said.warned[reason] = message
    return new


def _names_no_job_yet(unit: Unit, pod: Member) -> bool:
    """Whether the unit has a job whose id is not written on the pod yet."""
    if unit.job is None or pod.uid in unit.spare:
        return False
    return pod.said.recorded != unit.job.job_id


def _unwritten(
    refused: Refused, conditions: tuple[Condition, ...], annotations: Mapping[str, str | None]
) -> str:
    """The text begins with the server's words, because what was to be written may be long."""
    meant = [f"{it.reason}: {it.message}" for it in conditions] or sorted(annotations)
    return f"The API server refuses to write on the pod: {refused.why}. To be written: {meant[0]}"


def problems_text(problems: Sequence[Problem]) -> str:
    """All problems of a pod in one message, with what to do about them."""
    # Problems with SUNK's wording come first, so that people who search for it find it.
    ordered = sorted(problems, key=lambda problem: not problem.known_as)
    listed = "; ".join(clipped(problem.text, _PROBLEM_BYTES) for problem in ordered[:MOST_PROBLEMS])
    if len(ordered) > MOST_PROBLEMS:
        listed += f"; and {len(ordered) - MOST_PROBLEMS} more"
    if all(problem.field.startswith("spec.") for problem in ordered):
        return f"{listed}. Recreate the pod, because its spec cannot be corrected in place"
    return f"{listed}. Annotations can be corrected in place, for anything else recreate the pod"
