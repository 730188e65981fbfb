"""Which units come first: endings and binds, then jobs to be cancelled, then pods that do
not show their job yet, then new pods, and last the units that only need another message (I15).
New pods that have waited for a moment take turns with what comes before them.

Without the first words before the new pods, thousands of slow submits would keep every pod
untold. A pass that comes too early for them costs no request.

The level is computed when a key is added, from what is known then, so whoever adds a key need not
know how urgent it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, unique
from types import MappingProxyType
from typing import Final

from scheduler.core.endings import warned
from scheduler.facts.claims import recorded_job
from scheduler.kube.wire import Pod
from scheduler.reconcile.lanes import Patience, TenantLine
from scheduler.state.gangs import Gangs, Pods
from scheduler.state.units import Placeholder, Unit, Units
from slurmapi import BaseState


@unique
class Level(IntEnum):
    """The lanes of the work queue, the first to be served first."""

    URGENT = 0
    RELEASE = 1
    WORDS = 2
    NEW = 3
    REST = 4


# Slurm needs up to a second to start a job. If new pods had to wait until there is nothing to bind,
# Slurm would have nothing to start in the meantime, and then nothing could be bound. So they soon
# take turns with the binds: 1000 pods on real servers were bound at 244 instead of 226 pods/s.
PATIENCE: Final[Mapping[int, Patience]] = MappingProxyType(
    {Level.NEW: Patience(seconds=0.3, every=2)}
)


class Urgency:
    """Computes the level at which a unit waits for a worker."""

    def __init__(self, units: Units, gangs: Gangs, pods: Pods) -> None:
        self._units = units
        self._gangs = gangs
        self._pods = pods

    def line(self, key: str) -> TenantLine:
        """The line in which a key waits among others of its level. Namespaces take turns, so one
        with thousands of pods delays the first pod of another one by two at most: one that has a
        job, and one that has none. These two kinds take turns as well. So after a start a new pod
        does not wait for the first pass of each pod that has a job since before, nor do they for
        the submits of thousands of new pods.
        """
        unit = self._units.get(key)
        if unit is not None:
            return TenantLine(unit.namespace, unit.job is not None)
        pods = self._pods_of(key, None)
        if not pods:
            return TenantLine("", kind=False)
        names_job = any(recorded_job(pod) is not None for pod in pods)
        return TenantLine(pods[0].metadata.namespace, names_job)

    def __call__(self, key: str) -> Level:
        """The level of this key, from what is known now."""
        unit = self._units.get(key)
        pods = self._pods_of(key, unit)
        if not pods:
            return Level.REST if unit is None else Level.RELEASE
        if all(pod.finished for pod in pods):
            return Level.REST if unit is None or unit.job is None else Level.RELEASE
        if unit is None:
            # A pod that already runs needs one pass before we can follow its job.
            placed = any(pod.spec.node_name for pod in pods)
            return Level.URGENT if placed else Level.NEW
        # While a pod of a gang still waits, a job that runs is news for it.
        bound = not any(_waits_for_bind(pod, unit) for pod in pods)
        level = Level.NEW if unit.job is None else _of_job(unit.job, bound=bound)
        if level is Level.REST and not bound and _untold(unit):
            level = Level.WORDS
        going = any(pod.metadata.deletion_timestamp is not None for pod in pods)
        return min(level, Level.RELEASE) if going else level

    def _pods_of(self, key: str, unit: Unit | None) -> list[Pod]:
        """The pods of the unit that still exist. Until there is a unit, the key is a pod's uid or
        that of a gang.
        """
        uids = (self._gangs.pods(key) or (key,)) if unit is None else unit.uids
        return [pod for uid in uids if (pod := self._pods.get(uid)) is not None]


def _waits_for_bind(pod: Pod, unit: Unit) -> bool:
    if pod.spec.node_name or pod.finished:
        return False
    return pod.metadata.uid not in unit.bindings.nodes


def _untold(unit: Unit) -> bool:
    """Whether this process has submitted its job, the pod does not name it yet, and the API server
    does not refuse that.
    """
    job = unit.job
    if job is None or not job.submitted_at or unit.refusals.write.count:
        return False
    return not unit.names(job.job_id)


def _of_job(job: Placeholder, *, bound: bool) -> Level:
    if job.missing:
        return Level.NEW
    if job.state is None:
        return Level.URGENT if bound else Level.NEW
    if job.state.ended or (job.record is not None and warned(job.record)):
        return Level.URGENT
    # A pod that waits can be bound to a job that runs; a bound pod has lost a job that does not.
    runs = job.state.base is BaseState.RUNNING
    return Level.REST if runs == bound else Level.URGENT
