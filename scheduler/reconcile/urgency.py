"""Which units come first: endings and binds, then jobs to be given back, then new pods, and last
the units that only need a message (I15).

The level is computed when a key is added, from what is known then, so whoever adds a key need not
know how urgent it is.
"""

from __future__ import annotations

from enum import IntEnum, unique
from typing import Protocol

from scheduler.core.endings import warned
from scheduler.kube.wire import Pod
from scheduler.state.units import Placeholder, Units
from slurmapi import BaseState


@unique
class Level(IntEnum):
    """The lanes of the work queue, the first to be served first."""

    URGENT = 0
    RELEASE = 1
    NEW = 2
    REST = 3


class Pods(Protocol):
    """The pods as last seen."""

    def get(self, uid: str, /) -> Pod | None:
        """The pod with this uid; None if there is none."""
        ...


class Urgency:
    """Tells at which level a unit waits for a worker."""

    def __init__(self, units: Units, pods: Pods) -> None:
        self._units = units
        self._pods = pods

    def tenant(self, key: str) -> str:
        """The pod's namespace, which takes turns with other namespaces of the same level. So a
        namespace with thousands of pods delays the first pod of another one by one pod.
        """
        pod, unit = self._pods.get(key), self._units.get(key)
        if pod is not None:
            return pod.metadata.namespace
        return "" if unit is None else unit.namespace

    def __call__(self, key: str) -> Level:
        """The level of this key, from what is known now."""
        unit, pod = self._units.get(key), self._pods.get(key)
        if pod is None:
            return Level.REST if unit is None else Level.RELEASE
        if pod.finished:
            return Level.REST if unit is None or unit.job is None else Level.RELEASE
        if unit is None:
            # A pod that already runs must be looked at once before we can follow its job.
            return Level.URGENT if pod.spec.node_name else Level.NEW
        bound = bool(pod.spec.node_name or unit.bindings.nodes)
        level = Level.NEW if unit.job is None else _of_job(unit.job, bound=bound)
        going = pod.metadata.deletion_timestamp is not None
        return min(level, Level.RELEASE) if going else level


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
