"""Limits how many jobs are submitted for one namespace. A burst of honest pods stays within the
budget, and pods that are created and deleted without end do not.

A pod that is created and deleted costs Slurm five requests: its submit, looks, a note about its
end, and its cancel. How many jobs of a namespace may wait in Slurm is not limited here: Slurm does
that for an account or a QoS (`MaxSubmitJobs`).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from scheduler.core.budgets import Turns
from scheduler.core.event_reasons import Reason
from scheduler.execute.tell import Teller
from scheduler.observe.metrics import Metrics
from scheduler.state.units import Unit

# A burst, then one in this many seconds. The burst allows a large array of pods at once. The pace
# allows 1000 running pods that live 50 s each, and 5000 pods that Slurm refuses again and again
# (each is tried every 300 s). Other namespaces keep most of what Slurm can do: 118 to 142 jobs a
# second from submit to bind (measured on two cores that the API server shares).
NAMESPACE_SUBMITS: Final = (5000, 0.05)
# A shorter wait is not shown: it is mostly over before anybody reads about it.
_UNTOLD_SECONDS: Final = 3.0
_SOONEST_LOOK_SECONDS: Final = 10.0


class SubmitPace:
    """Asked before each submit for a waiting pod. A running pod that has lost its job never waits,
    and endings never wait.
    """

    def __init__(self, teller: Teller, *, metrics: Metrics, clock: Callable[[], float]) -> None:
        self._teller = teller
        self._metrics = metrics
        self._clock = clock
        self._turns = Turns[str](*NAMESPACE_SUBMITS)

    async def pause(self, unit: Unit) -> float:
        """Return after how many seconds the unit should ask again, and show the wait on its pod.
        Return 0 if it may submit now. Raises KubeError.
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
        # If units before it are deleted in the meantime, its turn comes sooner, so it asks before
        # that.
        return max(seconds / 2, min(seconds, _SOONEST_LOOK_SECONDS))

    def take(self, unit: Unit) -> None:
        """Charge the budget, because the unit submits now."""
        self._turns.take(unit.namespace, unit.key, self._clock())

    def forget(self, unit: Unit) -> None:
        """The unit's pod is gone, so the units that wait behind it move up."""
        self._turns.leave(unit.namespace, unit.key)

    async def _tell(self, unit: Unit, seconds: float) -> None:
        burst, each = NAMESPACE_SUBMITS
        turn = datetime.now(UTC) + timedelta(seconds=seconds)
        message = (
            f"Namespace {unit.namespace} submits too many Slurm jobs: after {burst} at once, "
            f"{1 / each:g} a second are allowed; the turn of this pod comes at about "
            f"{turn:%H:%M:%S} UTC"
        )
        await self._teller.tell_waiting(unit, Reason.SUBMITTED_TOO_OFTEN, message)
