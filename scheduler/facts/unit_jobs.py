"""Finds what is known of the units' jobs.

The record itself, and who may write it: `state/units.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from annotations import JobRequest
from scheduler.core.facts import JobFacts
from scheduler.core.intervals import LONGEST_UNTOLD_SECONDS, MADE_READY_SECONDS
from scheduler.core.naming import job_name
from scheduler.core.owner_tag import Owner
from scheduler.core.shapes import Size
from scheduler.core.tagged import TaggedJob
from scheduler.core.untagged import made_for, seems_own
from scheduler.core.untold import told_at
from scheduler.facts.claims import weigh
from scheduler.facts.reader import RequestReader
from scheduler.facts.whereabouts import Whereabouts, oldest
from scheduler.kube.wire import Pod
from scheduler.slurm.census import Census
from scheduler.state.units import Unit, Units
from slurmapi import BaseState


class UnitJobs:
    """Asks the memory of units and the census."""

    def __init__(
        self,
        units: Units,
        *,
        census: Census,
        reader: RequestReader,
        whereabouts: Whereabouts,
        owner: Owner,
        clock: Callable[[], float],
    ) -> None:
        self._units = units
        self._reader = reader
        self._whereabouts = whereabouts
        self._census = census
        self._owner = owner
        self._clock = clock

    def weigh(self, unit: Unit, pods: Sequence[Pod]) -> None:
        """Believe or drop the claim of the unit's pods to a job; see `facts/claims.py`. A job that
        has our tag is remembered, in case somebody overwrites it.
        """
        job = unit.job
        if job is not None and job.claimed:
            weigh(
                unit,
                self._units,
                owner=self._owner,
                covered=self._census.covers(oldest(pods), runs=unit.came_running),
                seems_own=lambda record: self._seems_own(unit, pods, record),
            )
            if not job.claimed and job.record is not None:
                self._units.recall(unit, job.record, shows=self._whereabouts.shows)
        if job is not None and job.record is not None and unit.owns(job.record, owner=self._owner):
            job.recognise(job.record)

    def _seems_own(self, unit: Unit, pods: Sequence[Pod], record: TaggedJob) -> bool | None:
        """Whether a job without our tag may be the unit's all the same; None if it is not known yet
        where the pod runs, or what it uses there. A gang's slots are only in the tag of its job.
        """
        running = [pod for pod in pods if pod.spec.node_name and not pod.finished]
        if record.tag is not None:
            return self._was_made_for(unit, running, record)
        name = job_name(unit.namespace, unit.name, unit.key)
        if unit.gang is not None or len(running) != 1 or record.name != name:
            return False
        node = self._whereabouts.node(running[0], unit)
        request = self._reader.read(running[0], unit).request
        if not node or not isinstance(request, JobRequest):
            return None
        return seems_own(record, name=name, node=node, size=Size.of(request))

    def _was_made_for(self, unit: Unit, running: Sequence[Pod], record: TaggedJob) -> bool | None:
        """Whether a job with another owner's tag was submitted for one of these pods; None if it is
        not known yet where that pod runs.
        """
        uids = () if record.tag is None else record.tag.uids
        named = [pod for pod in running if pod.metadata.uid in uids]
        nodes = {pod.metadata.uid: self._whereabouts.node(pod, unit) for pod in named}
        if any(made_for(record, uid=uid, node=node) for uid, node in nodes.items()):
            return True
        return None if "" in nodes.values() else False

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
