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
from scheduler.kube.api import DeletionAccepted, Gone, Held, KubeApi, condition
from scheduler.observe.metrics import Metrics
from scheduler.state.units import Unit

log = structlog.get_logger(__name__)

# An eviction that the watch has not shown by then is repeated.
_AGAIN_SECONDS: Final = 10.0
# How often the Eviction API is asked again while a budget holds the pod.
_ASK_SECONDS: Final = 2.0
# This many pods of a gang are ended at once.
_AT_ONCE: Final = 16


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
        waits += await few_at_once(_AT_ONCE, due, partial(self._evict, unit))
        return min(waits)

    async def _wait(self, unit: Unit, action: Evict) -> float | None:
        """None if the pod may be ended now, otherwise for how many seconds it may not."""
        sent_at = unit.eviction.sent_at.get(action.pod.uid)
        again_in = 0.0 if sent_at is None else sent_at + _AGAIN_SECONDS - self._clock()
        return again_in if again_in > 0 else await self._brake.seconds(unit, action)

    async def _evict(self, unit: Unit, action: Evict) -> float:
        pod, now = action.pod, self._clock()
        if not await self._mark(pod, action):
            return 1.0  # the pod is gone, which the watch will show soon
        left = self._budget_left(unit, pod, now)
        if left > 0 and await self._eviction_is_held(pod, action):
            self._say_held(unit, action, left)
            return min(_ASK_SECONDS, left)
        await self._delete(unit, action, asked=left > 0)
        unit.eviction.sent_at[pod.uid] = now
        return _AGAIN_SECONDS

    async def hurry(self, unit: Unit, action: Hurry) -> float:
        """Shorten the grace period of a pod that is being deleted. Returns the seconds until the
        next try. The API server keeps the shorter of two grace periods, so this never lengthens
        one.
        """
        pod, now = action.pod, self._clock()
        again_in = unit.eviction.hurried_at.get(pod.uid, -1e9) + _AGAIN_SECONDS - now
        if again_in > 0:
            return again_in
        await self._kube.delete_pod(
            pod.namespace, pod.name, pod.uid, grace_seconds=action.grace_seconds
        )
        unit.eviction.hurried_at[pod.uid] = now
        message = (
            f"{action.message}; the pod being deleted has {action.grace_seconds} s left to stop"
        )
        self._tell(unit, action.pod.uid, action.reason, message)
        log.warning(
            "grace period of a departing pod shortened",
            namespace=pod.namespace,
            pod=pod.name,
            reason=action.reason,
            message=message,
        )
        return _AGAIN_SECONDS

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

    def _budget_left(self, unit: Unit, pod: PodFacts, now: float) -> float:
        if not self._budget_seconds:
            return 0.0
        return unit.eviction.held_since.setdefault(pod.uid, now) + self._budget_seconds - now

    async def _eviction_is_held(self, pod: PodFacts, action: Evict) -> bool:
        outcome = await self._kube.evict_pod(
            pod.namespace, pod.name, pod.uid, grace_seconds=action.grace_seconds
        )
        return isinstance(outcome, Held)

    def _say_held(self, unit: Unit, action: Evict, left: float) -> None:
        if left == self._budget_seconds:  # the first time
            message = (
                f"{action.message}; a PodDisruptionBudget holds the pod, for {left:.0f} s at most"
            )
            self._tell(unit, action.pod.uid, action.reason, message)

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
