"""Gets information that a decision needs: about a job, its twins, the Node behind a Slurm node, and
a node's load. Twins are jobs that were submitted for one unit; `slurm/census.py` searches for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from scheduler.core.doubt import wants_another
from scheduler.core.event_reasons import Reason
from scheduler.core.tagged import TaggedJob
from scheduler.core.taken_resources import without
from scheduler.execute.claim_budget import ClaimedJobs
from scheduler.execute.placeholder import CLAIM_PRIORITY
from scheduler.execute.tools import Result, Tools
from scheduler.nodes.candidates import Nodes
from scheduler.nodes.node_allocations import NodeAllocations
from scheduler.slurm.census import Census
from scheduler.slurm.look import look
from scheduler.state.units import Unit
from slurmapi import BaseState

# Two answers of the same moment would count as one look, so the confirming look comes a little
# later.
_CONFIRM_SECONDS: Final = 0.5
# To go through ten thousand units takes some milliseconds.
_VACANT_SECONDS: Final = 2.0


class KnownPlaces(Protocol):
    """What is known of the pods of units (`facts/whereabouts.py`)."""

    def may_run(self, uid: str) -> bool:
        """Whether the watch shows this pod, and it has not finished."""
        ...

    def any_on_a_node(self, unit: Unit) -> bool:
        """Whether any of the unit's pods is on a Node, or is about to be bound to one, and has not
        finished.
        """
        ...


class Learner:
    """Puts what it learns into the unit, for the next pass."""

    def __init__(
        self,
        tools: Tools,
        *,
        nodes: Nodes,
        census: Census,
        allocations: NodeAllocations,
        pods: KnownPlaces,
    ) -> None:
        self._slurm = tools.slurm
        self._units = tools.units
        self._owner = tools.owner
        self._pods = pods
        self._vacant: list[tuple[Unit, TaggedJob]] = []
        self._vacant_at = float("-inf")
        self._teller = tools.teller
        self._clock = tools.clock
        self._nodes = nodes
        self._census = census
        self._allocations = allocations
        self._claimed = ClaimedJobs(census, clock=tools.clock)

    async def inspect(self, unit: Unit, job_id: int) -> Result:
        """Read the full record of the unit's job. Raises SlurmError."""
        job = unit.job
        if job is None or job.job_id != job_id:
            return 0.0
        if job.claimed and not self._claimed.may_be_looked_at(unit):
            job.refute()
            return 0.0
        missed = job.missing
        await look(self._slurm, unit, job, clock=self._clock)
        unsettled = job.missing > missed and wants_another(job.missing) and not job.refuted
        return _CONFIRM_SECONDS if unsettled else 0.0

    async def look_for_twins(self, unit: Unit, *, tell: bool) -> None:
        """Request a census, and show on the pod if none can be made. Raises KubeError."""
        self._census.ask()
        if tell and unit.job is None and self._census.trouble:
            message = f"Slurm's jobs cannot be searched now: {self._census.trouble}"
            await self._teller.tell_waiting(unit, Reason.SLURM_UNAVAILABLE, message)

    async def locate(self, nodes: Sequence[str]) -> None:
        """Ask which Node is behind each of these Slurm nodes. Raises SlurmError."""
        await self._nodes.learn(nodes)

    async def weigh(self, unit: Unit, name: str) -> None:
        """Read how much of the node is allocated to others now, if that can be read now. Raises
        SlurmError.

        What jobs of ours hold that will soon release it does not count. They are known once the
        first census has looked through all jobs.
        """
        if self._units.silent or self._census.completed_at is None:
            return  # each request of an outage would keep a worker for seconds
        node = await self._allocations.of(name)
        if node is not None:
            ours = self._vacant_on(name, unit)
            unit.seen.weighed(without(node, ours), vacant=bool(ours), now=self._clock())

    def _vacant_on(self, name: str, unit: Unit) -> list[TaggedJob]:
        """The jobs of other units that hold this node although no pod runs in them. slurmctld may
        have lost the unit's job and come back with an older state, in which a job of a pod that is
        gone holds the node. Or it has at once started the job of a pod that waits. The former is
        cancelled when that pod's time to stop is over. The latter is given back, since nothing is
        bound beside a pod, but that counts only where Slurm itself has lost the unit's job.
        Otherwise a user who kills the job could hold up those that are next in the queue.
        """
        record = None if unit.job is None else unit.job.record
        first = record is not None and record.priority == CLAIM_PRIORITY
        return [
            job
            for other, job in self._vacant_jobs()
            if name in job.nodes
            and other is not unit
            and (first or not any(map(self._pods.may_run, other.uids)))
        ]

    def _vacant_jobs(self) -> list[tuple[Unit, TaggedJob]]:
        """The running jobs of units of which no pod is on a Node. They are searched once for the
        many pods that lose their jobs together.
        """
        now = self._clock()
        if now - self._vacant_at > _VACANT_SECONDS:
            self._vacant_at = now
            found = ((unit, self._running(unit)) for unit in self._units)
            self._vacant = [
                (unit, record)
                for unit, record in found
                if record is not None and not self._pods.any_on_a_node(unit)
            ]
        return self._vacant

    def _running(self, unit: Unit) -> TaggedJob | None:
        """The record of the unit's own job, if it runs."""
        job = unit.job
        if job is None or job.record is None or job.missing or job.state is None:
            return None
        runs = {job.state.base, job.record.state.base} == {BaseState.RUNNING}
        return job.record if runs and unit.owns(job.record, owner=self._owner) else None
