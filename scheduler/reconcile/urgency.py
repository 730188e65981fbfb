"""Which units come first: endings and binds, then jobs to be given back, then new pods, and last
all that is only to be said (I15).

The level is read from what is known when a key is added, so that nobody who wakes a unit has to
say why.
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
    """The lanes of the work queue, in the order in which they are served."""

    URGENT = 0
    RELEASE = 1
    NEW = 2
    REST = 3


class Pods(Protocol):
    """The pods as last seen."""

    def get(self, uid: str, /) -> Pod | None:
        """The pod of that uid."""
        ...


class Urgency:
    """Says at which level a unit waits for a worker."""

    def __init__(self, units: Units, pods: Pods) -> None:
        self._units = units
        self._pods = pods

    def tenant(self, key: str) -> str:
        """Who takes turns with others of the same level: its namespace, so that one with thousands
        of pods delays the first pod of another by one pod.
        """
        pod, unit = self._pods.get(key), self._units.get(key)
        if pod is not None:
            return pod.metadata.namespace
        return "" if unit is None else unit.namespace

    def __call__(self, key: str) -> Level:
        """The level of that key, by what is known now."""
        unit, pod = self._units.get(key), self._pods.get(key)
        if pod is None:
            return Level.REST if unit is None else Level.RELEASE
        if pod.finished:
            return Level.REST if unit is None or unit.job is None else Level.RELEASE
        if unit is None:
            # What runs is not followed before it was looked at once.
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
    # A pod that waits is to be bound to what runs; one that is bound has lost what does not.
    runs = job.state.base is BaseState.RUNNING
    return Level.REST if runs == bound else Level.URGENT
