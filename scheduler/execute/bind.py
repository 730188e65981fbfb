"""Binds a pod to the Node behind its job's Slurm node: once, and never twice (I3).

`core/waiting.py` decides when; `core/seating.py` gives each pod of a unit its slot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

import structlog

from scheduler.core.actions import Bind
from scheduler.core.event_reasons import Reason
from scheduler.core.naming import ENDS_AT, JOB_ID, NODES
from scheduler.core.refused_bind import KEPT_SECONDS, RefusedBind
from scheduler.execute.tools import Result, Tools
from scheduler.kube.api import AlreadyBound, Bound, Gone, Refused
from scheduler.state.units import Unit

log = structlog.get_logger(__name__)


class Binder:
    """`claim` reserves a place on a Node for the pod with this uid; False if another pod has it."""

    def __init__(self, tools: Tools, *, claim: Callable[[str, str], bool]) -> None:
        self._tools = tools
        self._kube = tools.kube
        self._units = tools.units
        self._teller = tools.teller
        self._clock = tools.clock
        self._claim = claim

    async def bind(self, unit: Unit, action: Bind) -> Result:
        """Bind the pod. Raises KubeError and SlurmError; the binding may have been made
        nevertheless.
        """
        pod = action.pod
        outcome = await self._bound_before(action) or await self._send_binding(unit, action)
        if outcome is None:
            return 0.0
        self._tools.count("bind", type(outcome).__name__.lower())
        match outcome:
            case Bound():
                self._note_bound(unit, action)
            case AlreadyBound(node=node):
                self._units.binding.pop(pod.uid, None)
                unit.bindings.nodes[pod.uid] = node
                return 0.0
            case Refused(why=why):
                return await self._bind_refused(unit, action, why)
            case Gone():
                self._units.binding.pop(pod.uid, None)
                return 1.0  # by then the watch shows that the pod is gone
            case _:
                assert_never(outcome)
        return None

    async def _send_binding(
        self, unit: Unit, action: Bind
    ) -> Bound | AlreadyBound | Refused | Gone | None:
        """Send the Binding. Returns None if it was not sent: the job no longer belongs to the unit,
        or another pod has taken the place since the look.
        """
        if not await self._note_restarts(unit, action):
            return None
        pod = action.pod
        if not self._claim(pod.uid, action.target):
            return None
        # From now on the pod may run there, even if the answer gets lost. The watch will show it.
        self._units.binding[pod.uid] = action.target
        return await self._kube.bind(
            pod.namespace,
            pod.name,
            pod.uid,
            node=action.target,
            annotations=_bound_with(action),
        )

    async def _bind_refused(self, unit: Unit, action: Bind, why: str) -> Result:
        """Show at once that the bind was refused; `decide` knows when it is tried again, and for
        how long. The unit keeps its note of the binding that was sent, so that the pod is read
        before another one is sent.
        """
        now = self._clock()
        refused = RefusedBind.after(unit.refusals.bind, job_id=action.job_id, why=why, now=now)
        unit.refusals.bind = refused
        message = (
            f"The API server refuses to bind the pod to {action.target}: {why}. The "
            f"scheduler tries again, and {_what_follows(unit, action.job_id)}"
        )
        self._teller.warn(unit, Reason.BIND_REFUSED, message)
        log.warning(
            "binding refused",
            namespace=unit.namespace,
            pod=unit.name,
            job_id=action.job_id,
            why=why,
        )
        await self._teller.tell_waiting(unit, Reason.BIND_REFUSED, message)
        return refused.wait(action.job_id, now, kept=False)

    async def _bound_before(self, action: Bind) -> Bound | AlreadyBound | Gone | None:
        """The result of an earlier binding that neither its answer nor a watch has shown: the pod
        is read, and nothing is written (I3). None if no binding was sent, or if it did not take
        effect.
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
        """Note the job's restart count in its tag before the pod can run, to distinguish a later
        requeue from an earlier one. False if the job no longer belongs to the unit.
        """
        record = None if unit.job is None else unit.job.record
        tag = None if record is None else record.tag
        if unit.job is None or record is None or tag is None or tag.restarts == action.restarts:
            return True
        own = await self._tools.read_anew(unit, unit.job)
        tag = None if own is None else own.job.tag
        if own is None or tag is None:
            return False
        noted = tag.encode(restarts=action.restarts)
        await self._tools.slurm.update_job(action.job_id, send_by=own.send_by, admin_comment=noted)
        unit.job.wrote(replace(own.job, admin_comment=noted))
        return True

    def _note_bound(self, unit: Unit, action: Bind) -> None:
        unit.bindings.nodes[action.pod.uid] = action.target
        # If the job has no end, none was written, so an annotation that the pod was created with
        # must still be removed.
        said = unit.pod(action.pod.uid).said
        said.recorded, said.ends_at = action.job_id, action.ends_at or None
        unit.refusals.submit, unit.refusals.bind = unit.refusals.submit.forgiven(), None
        unit.bindings.unfit_since = None
        unit.bindings.at = unit.asked.tried_at = self._clock()
        if unit.job is not None and unit.job.allocated_at:
            seconds = unit.bindings.at - unit.job.allocated_at
            self._tools.metrics.stage_seconds.labels("bound").observe(seconds)
        text = (
            f"Successfully assigned {action.pod.namespace}/{action.pod.name} to {action.target} "
            f"({_job_text(action)})"
        )
        self._teller.event(unit, Reason.SCHEDULED, text)
        log.info(
            "pod bound",
            namespace=unit.namespace,
            pod=unit.name,
            node=action.target,
            job_id=action.job_id,
        )


def _what_follows(unit: Unit, job_id: int) -> str:
    """What becomes of the job if the API server goes on to refuse the bind."""
    if len(unit.pods) > 1:
        return f"keeps Slurm job {job_id} as long as another of its pods runs"
    return f"cancels Slurm job {job_id} after {KEPT_SECONDS:.0f} s"


def _bound_with(action: Bind) -> dict[str, str]:
    annotations = {JOB_ID: str(action.job_id), NODES: action.node}
    return annotations | ({ENDS_AT: action.ends_at} if action.ends_at else {})


def _job_text(action: Bind) -> str:
    on = "" if action.node == action.target else f" on node {action.node}"
    return f"Slurm job {action.job_id}{on}"
