"""Binds a pod to the Node behind its job's Slurm node: once, and never twice (I3).

`core/waiting.py` decides when; `core/seating.py` gives each pod of a unit its slot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, assert_never

import structlog

from groundwork.together import few_at_once
from scheduler.core.actions import Bind
from scheduler.core.event_reasons import Reason
from scheduler.core.intervals import FRESH_SECONDS
from scheduler.core.naming import (
    ENDS_AT,
    GANG_FIRST_NODE,
    GANG_RANK,
    GANG_SIZE,
    JOB_ID,
    JOB_NODES,
    JOB_PARTITION,
)
from scheduler.core.refused_bind import ALLOCATION_KEPT_SECONDS, RefusedBind
from scheduler.execute.sent_bindings import SentBindings
from scheduler.execute.tell import gang_annotation
from scheduler.execute.tools import Result, Tools
from scheduler.kube.api import AlreadyBound, Bound, Gone, Refused
from scheduler.kube.errors import KubeError
from scheduler.observe.place_series import partition_label
from scheduler.state.units import Placeholder, Unit

log = structlog.get_logger(__name__)

# This many bindings of a gang are under way at once.
_AT_ONCE: Final = 16


class Binder:
    """`claim` reserves a place on a Node for the pod with this uid; False if another pod has it."""

    def __init__(
        self, tools: Tools, sent: SentBindings, *, claim: Callable[[str, str], bool]
    ) -> None:
        self._tools = tools
        self._kube = tools.kube
        self._units = tools.units
        self._teller = tools.teller
        self._clock = tools.clock
        self._sent = sent
        self._claim = claim

    async def bind(self, unit: Unit, actions: Sequence[Bind]) -> Result:
        """Bind all these pods, or none if there is no place for one of them any more. If there are
        many, the look at the job may become too old on the way: then the rest is left for the next
        pass. Raises KubeError; bindings may have been made nevertheless.
        """
        results, unsent = list[Result](), list[Bind]()
        for action in actions:
            outcome = await self._bound_before(unit, action)
            if outcome is None:
                unsent.append(action)
            else:
                results.append(self._note(unit, action, outcome))
        if len(unsent) > _AT_ONCE:
            # The decision about a thousand pods took 30 ms of this turn, and their places take 30.
            await asyncio.sleep(0)
        if not self._claim_all(unsent):
            return 0.0
        refused = list[tuple[Bind, str]]()
        try:
            results += await self._send_all(unit, unsent, refused)
        except KubeError:
            await self._all_refused(unit, refused)
            raise
        results.append(await self._all_refused(unit, refused))
        return min((it for it in results if it is not None), default=None)

    def _claim_all(self, actions: Sequence[Bind]) -> bool:
        """Reserve all places. From now on the pods may run there, even if an answer gets lost: the
        watch will show it.
        """
        for number, action in enumerate(actions):
            if not self._claim(action.pod.uid, action.target):
                self._withdraw(actions[:number])
                return False
            self._units.binding[action.pod.uid] = action.target
        return True

    def _withdraw(self, actions: Sequence[Bind]) -> None:
        """These bindings are not sent."""
        for action in actions:
            self._units.binding.pop(action.pod.uid, None)

    def _is_too_old(self, unit: Unit) -> bool:
        """Whether the look at the job is too old for a bind (I2): there were many before."""
        return unit.job is None or self._clock() - unit.job.record_at > FRESH_SECONDS

    async def _send_all(
        self, unit: Unit, actions: Sequence[Bind], refused: list[tuple[Bind, str]]
    ) -> list[Result]:
        """Send these bindings, a few at a time, for as long as the look at the job is young enough
        and few are refused. Those that were not sent are withdrawn. The refused ones are noted in
        `refused`, each with the reason.
        """
        sent: set[str] = set()

        async def send(action: Bind) -> Result:
            if len(refused) >= _AT_ONCE:
                return None
            if len(sent) >= _AT_ONCE and self._is_too_old(unit):
                return 0.0
            sent.add(action.pod.uid)
            unit.bindings.sent.add(action.pod.uid)
            outcome = await self._send(unit, action)
            if isinstance(outcome, Refused):
                self._tools.count("bind", "refused")
                refused.append((action, outcome.why))
                return None
            return self._note(unit, action, outcome)

        try:
            return await few_at_once(_AT_ONCE, actions, send)
        finally:
            self._withdraw([it for it in actions if it.pod.uid not in sent])

    async def _send(self, unit: Unit, action: Bind) -> Bound | AlreadyBound | Refused | Gone:
        pod = action.pod
        return await self._kube.bind(
            pod.namespace,
            pod.name,
            pod.uid,
            node=action.target,
            annotations=_bound_with(unit, action),
        )

    def _note(self, unit: Unit, action: Bind, outcome: Bound | AlreadyBound | Gone) -> Result:
        """Note what became of a binding."""
        pod = action.pod
        self._tools.count("bind", type(outcome).__name__.lower())
        match outcome:
            case Bound():
                self._note_bound(unit, action)
            case AlreadyBound(node=node):
                self._sent.is_found(unit, pod.uid, node)
                return 0.0
            case Gone():
                self._sent.is_gone(pod.uid)
                return 1.0  # by then the watch shows that the pod is gone
            case _:
                assert_never(outcome)
        return None

    async def _all_refused(self, unit: Unit, refused: Sequence[tuple[Bind, str]]) -> Result:
        """Show at once that binds were refused, one for all pods of a gang: a webhook refuses all
        of them, each with another text. `decide` knows when they are tried again, and for how long.
        The unit keeps its note of the bindings that were sent, so that each pod is read before
        another one is sent.
        """
        if not refused:
            return None
        (action, why), now = refused[0], self._clock()
        job_id = action.job_id
        noted = RefusedBind.after(unit.refusals.bind, job_id=job_id, why=why, now=now)
        unit.refusals.bind = noted
        which = "the pod" if len(unit.pods) == 1 else f"pod {action.pod.name}"
        message = (
            f"The API server refuses to bind {which} to {action.target}: {why}. The "
            f"scheduler tries again, and {_what_follows(unit, job_id)}"
        )
        self._teller.warn(unit, Reason.BIND_REFUSED, message)
        log.warning(
            "binding refused",
            namespace=unit.namespace,
            pod=action.pod.name,
            job_id=job_id,
            why=why,
            refusals=len(refused),
        )
        await self._teller.tell_waiting(unit, Reason.BIND_REFUSED, message)
        return noted.wait(job_id, now, kept=False)

    async def _bound_before(self, unit: Unit, action: Bind) -> Bound | AlreadyBound | Gone | None:
        """The result of an earlier binding that neither its answer nor a watch has shown: the pod
        is read, and nothing is written (I3). None if no binding was sent, or if it did not take
        effect.
        """
        if not self._sent.is_open(action.pod.uid):
            return None
        node = await self._sent.node_of(unit, action.pod.uid)
        if node is None:
            return Gone()
        if not node:
            return None
        return Bound() if node == action.target else AlreadyBound(node)

    def _observe(self, unit: Unit, job: Placeholder, now: float) -> None:
        """Observe how long the pod waited. A process that has not submitted the job itself does not
        know since when it waits in the queue.
        """
        metrics = self._tools.metrics
        metrics.stages["bound"].observe(now - job.allocated_at)
        if job.submitted_at and job.record is not None:
            waited = job.allocated_at - job.submitted_at
            place = (unit.namespace, partition_label(job.record.partition))
            metrics.queue_waits.observe(place, waited, now=now)

    def _note_bound(self, unit: Unit, action: Bind) -> None:
        unit.bindings.nodes[action.pod.uid] = action.target
        # If the job has no end, this bind wrote none. So an annotation that the pod was created
        # with must still be removed.
        said = unit.pod(action.pod.uid).said
        said.recorded, said.ends_at = action.job_id, action.ends_at or None
        unit.refusals.submit, unit.refusals.bind = unit.refusals.submit.forgiven(), None
        unit.bindings.unfit_since = None
        unit.bindings.at = unit.asked.tried_at = self._clock()
        if unit.job is not None and unit.job.allocated_at:
            self._observe(unit, unit.job, unit.bindings.at)
        text = (
            f"Successfully assigned {action.pod.namespace}/{action.pod.name} to {action.target} "
            f"({_job_text(action)})"
        )
        self._teller.event_on(unit, action.pod.uid, Reason.SCHEDULED, text)
        log.info(
            "pod bound",
            namespace=unit.namespace,
            pod=action.pod.name,
            node=action.target,
            job_id=action.job_id,
        )


def _what_follows(unit: Unit, job_id: int) -> str:
    """What becomes of the job if the API server goes on to refuse the bind."""
    if len(unit.pods) > 1:
        return f"keeps Slurm job {job_id} as long as another of its pods runs"
    return f"cancels Slurm job {job_id} after {ALLOCATION_KEPT_SECONDS:.0f} s"


def _bound_with(unit: Unit, action: Bind) -> dict[str, str]:
    # Even an empty partition: the pod's author may have created it with another.
    annotations = {
        JOB_ID: str(action.job_id),
        JOB_NODES: action.node,
        JOB_PARTITION: action.partition,
    }
    if action.ends_at:
        annotations[ENDS_AT] = action.ends_at
    annotations |= gang_annotation(unit)
    if unit.gang is None:
        return annotations
    return annotations | {
        GANG_RANK: str(action.pod.rank),
        GANG_SIZE: str(action.gang_size),
        GANG_FIRST_NODE: action.first_node,
    }


def _job_text(action: Bind) -> str:
    on = "" if action.node == action.target else f" on node {action.node}"
    return f"Slurm job {action.job_id}{on}"
