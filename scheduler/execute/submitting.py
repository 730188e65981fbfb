"""How many jobs Slurm is asked for on behalf of one namespace: a budget that a burst of honest pods
does not feel, and pods that are made and deleted without end do.

Such a pod costs Slurm five requests: its submit, looks, a note on how it ended and its cancel.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from scheduler.core.budgets import Turns
from scheduler.core.reasons import Reason
from scheduler.execute.tell import Teller
from scheduler.observe.metrics import Metrics
from scheduler.state.units import Unit

# At once, and then one each so many seconds. The burst is a large array of pods, all at once. The
# pace keeps 1000 pods running that live for 50 s each, and is above that of 5000 pods which Slurm
# refuses again and again (one each 300 s). It leaves others most of what Slurm can do, which is 118
# to 142 jobs a second from submit to bind (measured on two cores that the API server shares).
NAMESPACE: Final = (5000, 0.05)
# Mostly a shorter wait is over before anybody has read of it.
_UNTOLD_SECONDS: Final = 3.0
_SOONEST_LOOK_SECONDS: Final = 10.0


class SubmitPace:
    """Asked before each submit for a pod that waits. What runs, and has lost its job, never waits,
    and no ending does.
    """

    def __init__(self, teller: Teller, *, metrics: Metrics, clock: Callable[[], float]) -> None:
        self._teller = teller
        self._metrics = metrics
        self._clock = clock
        self._turns = Turns[str](*NAMESPACE)

    async def pause(self, unit: Unit) -> float:
        """Seconds until the unit should ask again, of which its pod is told; 0 where it may submit
        now. Raises KubeError.
        """
        now = self._clock()
        seconds = self._turns.wait(unit.namespace, unit.key, now)
        if not seconds:
            return 0.0
        self._metrics.submits_held.inc()
        untold = unit.seen_at + _UNTOLD_SECONDS - now
        if untold > 0:
            return min(seconds, untold)
        await self._tell(unit, seconds)
        # Where thousands before it are deleted meanwhile, its turn comes sooner.
        return max(seconds / 2, min(seconds, _SOONEST_LOOK_SECONDS))

    def take(self, unit: Unit) -> None:
        """The unit submits now, which counts."""
        self._turns.take(unit.namespace, unit.key, self._clock())

    def forget(self, unit: Unit) -> None:
        """Its pod is gone: those behind it come sooner."""
        self._turns.leave(unit.namespace, unit.key)

    async def _tell(self, unit: Unit, seconds: float) -> None:
        burst, each = NAMESPACE
        turn = datetime.now(UTC) + timedelta(seconds=seconds)
        message = (
            f"More Slurm jobs are asked for in namespace {unit.namespace} than one namespace gets "
            f"at a time: after {burst} at once, {1 / each:g} a second; the turn of this pod comes "
            f"at about {turn:%H:%M:%S} UTC"
        )
        await self._teller.tell_waiting(unit, Reason.SUBMITTED_TOO_OFTEN, message)
