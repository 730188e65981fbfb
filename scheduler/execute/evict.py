"""Ends pods whose resources Slurm has taken: first the condition that says why, then the deletion.

As kube-scheduler's preemption does, this bypasses PodDisruptionBudgets: a budget cannot keep what
Slurm has given to somebody else. If the site wants its budgets respected, the Eviction API is tried
first, for a limited time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import structlog

from groundwork.together import few_at_once
from scheduler.core.actions import Evict, Hurry
from scheduler.core.event_reasons import Reason
from scheduler.core.facts import PodFacts
from scheduler.execute.ending_brake import EndingBrake
from scheduler.kube.api import DeletionAccepted, Gone, Held, KubeApi, Refused, condition
from scheduler.kube.errors import KubeError, KubeRefused
from scheduler.observe.metrics import Metrics
from scheduler.state.units import Unit

log = structlog.get_logger(__name__)

# An eviction that the watch has not shown by then is repeated.
_AGAIN_SECONDS: Final = 10.0
# How often the Eviction API is asked again while a budget holds the pod.
_ASK_SECONDS: Final = 2.0
# For how long it is tried to set the condition before the pod is deleted without it.
_MARK_SECONDS: Final = 30.0
# The watch shows by then that a pod is gone.
_GONE_SECONDS: Final = 1.0
# This many pods of a gang are ended at once.
_AT_ONCE: Final = 16
_NEVER: Final = float("-inf")


class Evictor:
    """`budget_seconds` is how long a PodDisruptionBudget may hold a pod. With 0 the Eviction API is
    not used. `tell` records an Event on the pod with this uid.
    """

    def __init__(
        self,
        kube: KubeApi,
        *,
        brake: EndingBrake,
        budget_seconds: float,
        tell: Callable[[Unit, str, Reason, str], None],
        metrics: Metrics,
        clock: Callable[[], float],
    ) -> None:
        self._kube = kube
        self._brake = brake
        self._budget_seconds = budget_seconds
        self._tell = tell
        self._metrics = metrics
        self._clock = clock

    async def evict(self, unit: Unit, actions: Sequence[Evict]) -> float:
        """Take the next step towards the end of each of these pods of a unit, if the brake allows
        it: they are one case. Returns after how many seconds the step after it is due. Raises
        KubeError, and SlurmError if the brake asks Slurm and gets no answer.
        """
        waits, due = list[float](), list[Evict]()
        for action in actions:
            wait = await self._wait(unit, action)
            if wait is None:
                due.append(action)
            else:
                waits.append(wait)
        refusals = list[KubeRefused]()
        for result in await few_at_once(_AT_ONCE, due, partial(self._try, unit)):
            if isinstance(result, KubeRefused):
                refusals.append(result)
            else:
                waits.append(result)
        if refusals:
            raise refusals[0]
        return min(waits)

    async def _wait(self, unit: Unit, action: Evict) -> float | None:
        """None if the pod may be ended now, otherwise for how many seconds it may not."""
        state, uid, now = unit.eviction, action.pod.uid, self._clock()
        again_in = state.sent_at.get(uid, _NEVER) + _AGAIN_SECONDS - now
        if again_in <= 0 and uid in state.held_at:
            again_in = state.held_at[uid] + _ASK_SECONDS - now
            again_in = min(again_in, self._budget_left(unit, uid, now))
        return again_in if again_in > 0 else await self._brake.seconds(unit, action)

    async def _try(self, unit: Unit, action: Evict) -> float | KubeRefused:
        """As `_evict`. A refusal is returned, because it must not keep the other pods of a gang
        from being ended.
        """
        try:
            return await self._evict(unit, action)
        except KubeRefused as error:
            if error.concerns_this_request:
                self._say_refused(unit, action, error)
            return error

    async def _evict(self, unit: Unit, action: Evict) -> float:
        pod, now = action.pod, self._clock()
        if not await self._marked(unit, action, now):
            return _GONE_SECONDS
        left = self._budget_left(unit, pod.uid, now)
        answer = await self._ask(action) if left > 0 else None
        match answer:
            case Gone():
                return _GONE_SECONDS
            case Held() | Refused():
                self._hold(unit, action, answer, left)
                return min(_ASK_SECONDS, left)
            case _:
                await self._delete(unit, action, asked=answer is not None)
        unit.eviction.sent_at[pod.uid] = now
        return _AGAIN_SECONDS

    async def hurry_all(self, unit: Unit, actions: Sequence[Hurry]) -> float:
        """Shorten the grace periods of pods that are being deleted. Returns the seconds until the
        next try. The API server keeps the shorter of two grace periods, so this never lengthens
        one. Raises KubeError.
        """
        return min(await few_at_once(_AT_ONCE, actions, partial(self._hurry, unit)))

    async def _hurry(self, unit: Unit, action: Hurry) -> float:
        pod, now = action.pod, self._clock()
        again_in = unit.eviction.hurried_at.get(pod.uid, -1e9) + _AGAIN_SECONDS - now
        if again_in > 0:
            return again_in
        try:
            await self._kube.delete_pod(
                pod.namespace, pod.name, pod.uid, grace_seconds=action.grace_seconds
            )
        except KubeRefused as error:
            if not error.concerns_this_request:
                raise
            self._say_refused(unit, action, error)
            unit.eviction.hurried_at[pod.uid] = now
            return _AGAIN_SECONDS
        unit.eviction.hurried_at[pod.uid] = now
        message = (
            f"{action.message}; the pod being deleted has {action.grace_seconds} s left to stop"
        )
        self._tell(unit, action.pod.uid, action.reason, message)
        if unit.gang is None or unit.eviction.logged != action.message:
            unit.eviction.logged = action.message  # one line for all pods of a gang
            log.warning(
                "grace period of a departing pod shortened",
                namespace=pod.namespace,
                pod=pod.name,
                reason=action.reason,
                message=message,
            )
        return _AGAIN_SECONDS

    async def _marked(self, unit: Unit, action: Evict, now: float) -> bool:
        """Set the condition, unless that was done. A failure is raised for a while only: the end of
        the pod is more important than the condition. False if the pod is gone.
        """
        state, uid = unit.eviction, action.pod.uid
        if state.disrupted.get(uid) == action.message:
            return True
        began = state.marked_since.setdefault(uid, now)
        try:
            there = await self._mark(action.pod, action)
        except KubeError:
            if now - began < _MARK_SECONDS:
                raise
            return True
        if there:
            state.disrupted[uid] = action.message
        return there

    async def _mark(self, pod: PodFacts, action: Evict) -> bool:
        """Set the condition, which lets a Job's podFailurePolicy ignore this failure. False if the
        pod is gone.
        """
        disrupted = condition(
            "DisruptionTarget", "True", reason=action.reason, message=action.message
        )
        patched = await self._kube.patch_pod_status(
            pod.namespace, pod.name, pod.uid, conditions=(disrupted,)
        )
        return not isinstance(patched, Gone)

    def _budget_left(self, unit: Unit, uid: str, now: float) -> float:
        if not self._budget_seconds:
            return 0.0
        return unit.eviction.held_since.setdefault(uid, now) + self._budget_seconds - now

    async def _ask(self, action: Evict) -> DeletionAccepted | Held | Refused | Gone:
        """Ask the Eviction API. Whatever it refuses for, the pod is held no longer than by a
        budget: with two of them, for instance, it answers 500.
        """
        pod = action.pod
        try:
            return await self._kube.evict_pod(
                pod.namespace, pod.name, pod.uid, grace_seconds=action.grace_seconds
            )
        except KubeRefused as error:
            return Refused.of(error)

    def _hold(self, unit: Unit, action: Evict, answer: Held | Refused, left: float) -> None:
        """Note that the pod may not be evicted yet, and say so the first time."""
        state, uid = unit.eviction, action.pod.uid
        first = uid not in state.held_at
        state.held_at[uid] = self._clock()
        if not first:
            return
        why = "a PodDisruptionBudget holds the pod"
        if isinstance(answer, Refused):
            why = f"the Eviction API refuses to end the pod ({answer.why}), which stays"
        message = f"{action.message}; {why}, for {left:.0f} s at most"
        self._tell(unit, uid, action.reason, message)

    def _say_refused(self, unit: Unit, action: Evict | Hurry, error: KubeRefused) -> None:
        """Say that the API server refuses the deletion, and will do so until something changes:
        once on each pod, and in one line of the log for all pods of a gang.
        """
        pod, why, told = action.pod, Refused.of(error).why, unit.eviction.refused
        if not told:
            names = {"namespace": pod.namespace, "pod": pod.name}
            log.error("deletion refused", **names, reason=action.reason, why=why)
        if told.get(pod.uid) != why:
            told[pod.uid] = why
            message = (
                f"{action.message}; the API server refuses to delete the pod: {why}. The scheduler "
                "tries again"
            )
            self._tell(unit, pod.uid, action.reason, message)

    async def _delete(self, unit: Unit, action: Evict, *, asked: bool) -> None:
        """Delete the pod. If the Eviction API has just done that (`asked`), only put our condition
        back, because the API has replaced it by its own.
        """
        pod = action.pod
        if asked:
            gone = not await self._mark(pod, action)
        else:
            deleted = await self._kube.delete_pod(
                pod.namespace, pod.name, pod.uid, grace_seconds=action.grace_seconds
            )
            gone = not isinstance(deleted, DeletionAccepted)
        if asked or not gone:
            self._metrics.evictions.labels(action.reason).inc()
        self._tell(unit, pod.uid, action.reason, f"{action.message}; the pod is deleted")
        _log(unit, action)


def _log(unit: Unit, action: Evict) -> None:
    """One line for each deletion of a single pod, and one for all pods of a gang that end for the
    same reason.
    """
    why = {"reason": action.reason, "message": action.message}
    if unit.gang is None:
        log.warning("pod evicted", namespace=unit.namespace, pod=action.pod.name, **why)
    elif unit.eviction.logged != action.message:
        unit.eviction.logged = action.message
        gang, pods = unit.name, len(unit.pods)
        log.warning("gang evicted", namespace=unit.namespace, gang=gang, pods=pods, **why)
