"""Finds what is known of the units' jobs.

The record itself, and who may write it: `state/units.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scheduler.core.facts import JobFacts
from scheduler.core.intervals import LONGEST_UNTOLD_SECONDS, MADE_READY_SECONDS
from scheduler.core.owner_tag import Owner
from scheduler.core.untold import told_at
from scheduler.facts.claims import unweighed, weigh
from scheduler.facts.whereabouts import oldest
from scheduler.kube.wire import Pod
from scheduler.slurm.census import Census
from scheduler.state.units import Unit, Units
from slurmapi import BaseState


class UnitJobs:
    """Asks the memory of units and the census."""

    def __init__(
        self, units: Units, *, census: Census, owner: Owner, clock: Callable[[], float]
    ) -> None:
        self._units = units
        self._census = census
        self._owner = owner
        self._clock = clock

    def weigh(self, unit: Unit, pods: Sequence[Pod]) -> None:
        """Believe or drop the claim of the unit's pods to a job; see `facts/claims.py`."""
        if unweighed(unit):
            covered = self._census.covers(oldest(pods), runs=unit.came_running)
            weigh(unit, self._units, owner=self._owner, covered=covered)

    def facts(self, unit: Unit) -> JobFacts:
        """What is known of the unit's job now."""
        return unit.job_facts(
            looked_through=self._census.completed_at is not None,
            since=self._units.believed_since(self._clock()),
        )

    def unrecorded(self, unit: Unit) -> bool:
        """Whether the job's id must still be written on the pod. If the API server has just refused
        that, the answer is no: the Binding will write it, and until then a census finds the job.
        """
        if unit.job is None or self._clock() < unit.refusals.write.until:
            return False
        return any(pod.said.recorded != unit.job.job_id for pod in unit.pods)

    @staticmethod
    def tell_at(unit: Unit) -> float | None:
        """When the job that this process has just submitted is shown on the pod. None if there is
        no such job, if the pod names it already, or if it is shown at once.
        """
        job = unit.job
        if job is None or not job.submitted_at or unit.bindings.nodes or unit.names(job.job_id):
            return None
        if unit.is_shown_at_once:
            return None
        runs = job.state is not None and job.state.base is BaseState.RUNNING
        if runs and not job.running_since and job.looked_at < job.allocated_at:
            # The first look after the start is mostly followed by the bind. While the node is made
            # ready, a pulse makes that look.
            configuring = job.state is not None and job.state.configuring
            seconds = MADE_READY_SECONDS if configuring else LONGEST_UNTOLD_SECONDS
            return job.allocated_at + seconds
        return told_at(submitted_at=job.submitted_at, asked_at=job.asked_at, runs=runs)
