"""What the verbs have in common: both servers, what is remembered, and how a pod is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scheduler.core.naming import Owner
from scheduler.execute.tell import Teller
from scheduler.kube.api import KubeApi
from scheduler.observe.metrics import Metrics
from scheduler.slurm.ownership import OwnJob, own_placeholder
from scheduler.state.units import Placeholder, Unit, Units
from slurmapi import (
    SlurmClient,
)

Result = float | None
"""Seconds after which the unit should be looked at again; None leaves it to events."""


@dataclass(frozen=True, slots=True)
class Tools:
    """Given to each verb. `clock` is the event loop's, in seconds."""

    kube: KubeApi
    slurm: SlurmClient
    units: Units
    teller: Teller
    owner: Owner
    metrics: Metrics
    clock: Callable[[], float]

    def count(self, action: str, outcome: str) -> None:
        """Count what came of an action."""
        self.metrics.actions.labels(action, outcome).inc()

    async def read_anew(self, unit: Unit, job: Placeholder) -> OwnJob | None:
        """The job of the unit as it is now; None where it is not the unit's any more. Raises
        SlurmError.
        """
        return await own_placeholder(self.slurm, unit, job, owner=self.owner, clock=self.clock)
