"""What all verbs need: both servers, the units, and the means to write on a pod."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scheduler.core.owner_tag import Owner
from scheduler.execute.tell import Teller
from scheduler.kube.api import KubeApi
from scheduler.observe.metrics import Metrics
from scheduler.slurm.ownership import OwnJob, own_placeholder
from scheduler.state.units import Placeholder, Unit, Units
from slurmapi import (
    SlurmClient,
)

Result = float | None
"""Seconds after which the unit should be looked at again; None if it can wait for an event."""


@dataclass(frozen=True, slots=True)
class Tools:
    """Passed to each verb. `clock` is the event loop's, in seconds."""

    kube: KubeApi
    slurm: SlurmClient
    units: Units
    teller: Teller
    owner: Owner
    metrics: Metrics
    clock: Callable[[], float]

    def count(self, action: str, outcome: str) -> None:
        """Count an action by its outcome."""
        self.metrics.actions_by(action, outcome).inc()

    async def read_anew(self, unit: Unit, job: Placeholder) -> OwnJob | None:
        """Read the unit's job again. None if the job no longer belongs to the unit. Raises
        SlurmError.
        """
        return await own_placeholder(self.slurm, unit, job, owner=self.owner, clock=self.clock)
