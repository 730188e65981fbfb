"""Gets information that a decision needs: about a job, its twins, the Node behind a Slurm node, and
a node's load. Twins are jobs that were submitted for one unit; `slurm/census.py` searches for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from scheduler.core.doubt import wants_another
from scheduler.core.event_reasons import Reason
from scheduler.execute.claim_budget import ClaimedJobs
from scheduler.execute.tools import Result, Tools
from scheduler.nodes.candidates import Nodes
from scheduler.nodes.node_allocations import NodeAllocations
from scheduler.slurm.census import Census
from scheduler.slurm.look import look
from scheduler.state.units import Unit

# Two answers of the same moment would count as one look, so the confirming look comes a little
# later.
_CONFIRM_SECONDS: Final = 0.5


class Learner:
    """Puts what it learns into the unit, for the next pass."""

    def __init__(
        self, tools: Tools, *, nodes: Nodes, census: Census, allocations: NodeAllocations
    ) -> None:
        self._slurm = tools.slurm
        self._units = tools.units
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
        """Read how much of the node is allocated now, if that can be read now. Raises
        SlurmError.
        """
        if self._units.silent:
            return  # each request of an outage would keep a worker for seconds
        node = await self._allocations.of(name)
        if node is not None:
            unit.seen.weighed(node, now=self._clock())
