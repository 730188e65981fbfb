"""Ends pods whose resources Slurm has taken: first the condition that says why, then the deletion.

As kube-scheduler's preemption does it, past any PodDisruptionBudget: a budget cannot keep what
Slurm has given away. Where a site wants its budgets asked all the same, the Eviction API is tried
for a bounded time before that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

from scheduler.core.actions import Evict, Hurry
from scheduler.core.facts import PodFacts
from scheduler.core.reasons import Reason
from scheduler.execute.brake import EndingBrake
from scheduler.kube.api import Deleted, Gone, Held, KubeApi, condition
from scheduler.observe.metrics import Metrics
from scheduler.state.units import Unit

log = structlog.get_logger(__name__)

# An eviction that the watch does not show by then is repeated.
_AGAIN_SECONDS: Final = 10.0
# A budget that holds a pod is asked again so often.
_ASK_SECONDS: Final = 2.0


class Evictor:
    """`budget_seconds` is how long a PodDisruptionBudget may hold a pod; 0 asks none."""

    def __init__(
        self,
        kube: KubeApi,
        *,
        brake: EndingBrake,
        budget_seconds: float,
        tell: Callable[[Unit, Reason, str], None],
        metrics: Metrics,
        clock: Callable[[], float],
    ) -> None:
        self._kube = kube
        self._brake = brake
        self._budget_seconds = budget_seconds
        self._tell = tell
        self._metrics = metrics
        self._clock = clock

    async def evict(self, unit: Unit, action: Evict) -> float:
        """Bring the pod one step nearer to its end, once the brake lets it go; seconds until the
        next. Raises KubeError, and SlurmError where the brake asks and gets no answer.
        """
        pod, now = action.pod, self._clock()
        again_in = unit.eviction.sent_at.get(pod.uid, -1e9) + _AGAIN_SECONDS - now
        if again_in > 0:
            return again_in
        held = await self._brake.seconds(unit, action)
        if held is not None:
            return held
        if not await self._mark(pod, action):
            return 1.0
        left = self._budget_left(unit, pod, now)
        if left > 0 and await self._held(pod, action):
            self._say_held(unit, action, left)
            return min(_ASK_SECONDS, left)
        await self._delete(unit, action, asked=left > 0)
        unit.eviction.sent_at[pod.uid] = now
        return _AGAIN_SECONDS

    async def hurry(self, unit: Unit, action: Hurry) -> float:
        """Shorten the grace of a pod that is being deleted; seconds until that is checked. The
        server keeps the shorter of two graces, so this never lengthens one.
        """
        pod, now = action.pod, self._clock()
        again_in = unit.eviction.hurried_at + _AGAIN_SECONDS - now
        if again_in > 0:
            return again_in
        await self._kube.delete_pod(
            pod.namespace, pod.name, pod.uid, grace_seconds=action.grace_seconds
        )
        unit.eviction.hurried_at = now
        told = f"{action.message}; the pod being deleted has {action.grace_seconds} s left to stop"
        self._tell(unit, action.reason, told)
        log.warning(
            "pod hurried", namespace=pod.namespace, pod=pod.name, reason=action.reason, message=told
        )
        return _AGAIN_SECONDS

    async def _mark(self, pod: PodFacts, action: Evict) -> bool:
        """The condition, which exempts the pod in a Job's podFailurePolicy; False for no pod."""
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

    async def _held(self, pod: PodFacts, action: Evict) -> bool:
        outcome = await self._kube.evict_pod(
            pod.namespace, pod.name, pod.uid, grace_seconds=action.grace_seconds
        )
        return isinstance(outcome, Held)

    def _say_held(self, unit: Unit, action: Evict, left: float) -> None:
        if left == self._budget_seconds:  # the first time
            told = (
                f"{action.message}; a PodDisruptionBudget holds the pod, for {left:.0f} s at most"
            )
            self._tell(unit, action.reason, told)

    async def _delete(self, unit: Unit, action: Evict, *, asked: bool) -> None:
        """Delete the pod, or, where the Eviction API has just done that, put our condition back in
        the place of its own.
        """
        pod = action.pod
        if asked:
            gone = not await self._mark(pod, action)
        else:
            deleted = await self._kube.delete_pod(
                pod.namespace, pod.name, pod.uid, grace_seconds=action.grace_seconds
            )
            gone = not isinstance(deleted, Deleted)
        if asked or not gone:
            self._metrics.evictions.labels(action.reason).inc()
        self._tell(unit, action.reason, f"{action.message}; the pod is deleted")
        log.warning(
            "pod evicted",
            namespace=pod.namespace,
            pod=pod.name,
            reason=action.reason,
            message=action.message,
        )
