"""What has been seen of the pod of a unit, and what its job's records say about the pod."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from scheduler.core.succession import Forerunner
from scheduler.core.tenure import Tenure
from scheduler.state.lingering import Remains
from slurmapi.model import SlurmNode


@dataclass(slots=True)
class Seen:
    """Written by `facts`, which reads the caches; `slurm` makes it for a job without a pod."""

    runs: bool = False
    """Whether its pod was on a Node when it was first seen."""
    forerunner: Forerunner | None = None
    """In whose place its pod came, where that one ended too soon."""
    bound_by_us: bool = False
    """Whether a look at its job has ever shown that its pod got the node from Slurm."""
    tenure: Tenure = field(default_factory=Tenure)
    """What is known of the time that Slurm gave its pod, whatever job holds the node now."""
    over: bool = False
    """Whether the end of its pod has been noticed."""
    outcome: str = ""
    """How its pod ended, as last seen of it."""
    remains: Remains | None = None
    """What its pod left on its Node, where its containers may still run."""
    orphaned: bool = False
    """Whether its job was found, and its pod was gone before this process saw it."""

    def asked_anew(self, *, tries: int, now: float) -> None:
        """So many jobs have been asked for in the place of lost ones; the last waits since now."""
        self.tenure = replace(self.tenure, tries=tries, pinned_since=now)

    def weighed(self, node: SlurmNode, *, now: float) -> None:
        """This is the record of the Slurm node on which its pod is."""
        self.tenure = replace(self.tenure, node=node, node_at=now)
