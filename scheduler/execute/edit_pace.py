"""Limits how often changes of waiting pods reach Slurm. Edits by authors have budgets per pod, per
namespace and in all. Changes by the site's policy have a budget of their own. In the budgets that
all share, namespaces take turns.

An edit costs its author one request and Slurm up to thirty: a trial job, updates field by field,
and looks. Without a budget one pod that was edited in a loop made 720 calls a second. A new policy
may change the requests of all pods at once, and their authors are not to blame for it.
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

# A burst, then one in this many seconds. A person who corrects a pod by hand never meets a limit. A
# script that edits a thousand pods of one namespace takes some minutes.
POD_EDITS: Final = (5, 20.0)
NAMESPACE_EDITS: Final = (200, 0.5)
ALL_EDITS: Final = (500, 0.25)
# A thousand pods take 80 s, at about a hundred requests a second.
POLICY_EDITS: Final = (200, 0.1)
_BUDGETS: Final = {
    "pod": POD_EDITS,
    "namespace": NAMESPACE_EDITS,
    "all": ALL_EDITS,
    "policy": POLICY_EDITS,
}
_ALL: Final = "all"
# A shorter wait that nobody has caused by an edit is not shown: it is mostly over before anybody
# reads about it.
_UNTOLD_SECONDS: Final = 3.0


class EditPace:
    """Asked before each submit or update that a change of a pod causes. `version` returns the
    number of the policy in force.
    """

    def __init__(
        self,
        teller: Teller,
        *,
        version: Callable[[], int],
        metrics: Metrics,
        clock: Callable[[], float],
    ) -> None:
        self._teller = teller
        self._version = version
        self._metrics = metrics
        self._clock = clock
        self._turns = {scope: Turns[str](*budget) for scope, budget in _BUDGETS.items()}

    async def pause(self, unit: Unit) -> float:
        """Return after how many seconds the change may reach Slurm, and show the wait on the pod.
        Return 0 if it may now, and then charge the budgets. Raises KubeError.
        """
        now = self._clock()
        tenants = self._tenants(unit)
        for scope, tenant in tenants.items():
            seconds = self._turns[scope].wait(tenant, unit.key, now, line=unit.namespace)
            if seconds:
                await self._tell(unit, scope, seconds)
                return seconds
        for scope, tenant in tenants.items():
            self._turns[scope].take(tenant, unit.key, now, line=unit.namespace)
        self.settle(unit)
        return 0.0

    def settle(self, unit: Unit) -> None:
        """Note that the job has the request that the pod has under the present policy. As long as
        this policy is in force, any difference is an edit by the author.
        """
        unit.asked.judged_by = self._version()

    def forget(self, unit: Unit) -> None:
        """The unit's pod is gone, so the units that wait behind it move up."""
        for scope, tenant in (_authors(unit) | {"policy": _ALL}).items():
            self._turns[scope].leave(tenant, unit.key, line=unit.namespace)

    def _tenants(self, unit: Unit) -> dict[str, str]:
        """The budgets that the change is charged to, by scope. An author does not pay for what the
        policy has changed since the job was submitted, nor for changes that a process finds when it
        starts. It cannot know which of these are edits, so namespaces take turns there, too.
        """
        return _authors(unit) if unit.asked.judged_by == self._version() else {"policy": _ALL}

    async def _tell(self, unit: Unit, scope: str, seconds: float) -> None:
        self._metrics.edits_held.labels(scope).inc()
        if scope == "policy":
            await self._tell_of_policy(unit, seconds)
            return
        burst, each = _BUDGETS[scope]
        what = {
            "pod": "This pod is edited",
            "namespace": f"Waiting pods of namespace {unit.namespace} are edited",
            "all": "Waiting pods are edited",
        }[scope]
        message = (
            f"{what} too often: after {burst} edits at once, one every {each:g} s reaches Slurm"
        )
        self._teller.warn(unit, Reason.EDITED_TOO_OFTEN, message)
        message += f"; the next of this pod in {max(1, round(seconds))} s"
        await self._teller.tell_waiting(unit, Reason.EDITED_TOO_OFTEN, message)

    async def _tell_of_policy(self, unit: Unit, seconds: float) -> None:
        if seconds < _UNTOLD_SECONDS:
            return
        turn = datetime.now(UTC) + timedelta(seconds=seconds)
        message = (
            "The site's policy was changed, and with it what the pod asks for; or the pod was "
            f"edited while no scheduler ran. Such changes reach Slurm one by one, "
            f"{1 / POLICY_EDITS[1]:g} a second: this one at about {turn:%H:%M:%S} UTC"
        )
        await self._teller.tell_waiting(unit, Reason.POLICY_CHANGED, message)


def _authors(unit: Unit) -> dict[str, str]:
    return {"pod": unit.key, "namespace": unit.namespace, "all": _ALL}
