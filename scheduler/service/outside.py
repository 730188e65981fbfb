"""What the parts of a process depend on: the settings, both servers, the clock, and who leads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scheduler.config.settings import Settings
from scheduler.core.event_reasons import Reason
from scheduler.core.owner_tag import Owner
from scheduler.kube.api import KubeApi
from scheduler.kube.recorder import Recorder
from scheduler.observe.metrics import Metrics
from slurmapi import SlurmClient, SlurmError


@dataclass(frozen=True, slots=True)
class Outside:
    """`clock` is the event loop's, in seconds. `leads` says whether this process is the leader.
    `warn` writes an Event on our own pod. `on_pulse` is called after each pulse with its error, or
    with None if Slurm answered.
    """

    settings: Settings
    kube: KubeApi
    slurm: SlurmClient
    recorder: Recorder
    owner: Owner
    metrics: Metrics
    clock: Callable[[], float]
    leads: Callable[[], bool]
    warn: Callable[[Reason, str], None]
    on_pulse: Callable[[SlurmError | None], None]
