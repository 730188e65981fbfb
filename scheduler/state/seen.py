"""What has been seen of a unit and of its pods, and what its job's records say about them."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec.structs import replace

from scheduler.core.crash_pause import Forerunner
from scheduler.core.tenure import Tenure, weighed
from scheduler.state.pod_remains import Deletion, Remains
from slurmapi.model import SlurmNode


@dataclass(slots=True)
class SeenOfPod:
    """What concerns one pod. Written by `facts`, which reads the caches. `slurm` creates it for a
    job without a pod.
    """

    runs: bool = False
    """Whether the pod was on a Node already when it was first seen."""
    bound_by_us: bool = False
    """Whether a look at the job has ever proven that Slurm gave the pod its node."""
    placed: bool = False
    """Whether it was ever seen on a Node."""
    over: bool = False
    """Whether the end of the pod has been noticed."""
    outcome: str = ""
    """How the pod ended, as last seen."""
    deletion: Deletion | None = None
    """Its graceful deletion; None if no state of the pod has shown one."""
    remains: Remains | None = None
    """What the pod left on its Node, if containers may still run there."""
    orphaned: bool = False
    """Whether its job was found after the pod had vanished unseen."""


@dataclass(slots=True)
class Seen:
    """What concerns the unit as a whole. Written by `facts`, which reads the caches."""

    forerunner: Forerunner | None = None
    """The pod that ended too soon and that this unit's pod replaces; None if there is none."""
    tenure: Tenure = field(default_factory=Tenure)
    """The time that Slurm gave the pod, whichever job holds the node now."""

    def asked_anew(self, *, tries: int, now: float) -> None:
        """Note that `tries` jobs have been submitted to replace lost ones; the last one is pinned
        and waits since `now`.
        """
        self.tenure = replace(self.tenure, tries=tries, pinned_since=now, short_since=None)

    def weighed(self, node: SlurmNode, *, vacant: bool, now: float) -> None:
        """Note the record of the Slurm node on which the pod runs. `vacant` says that it is without
        jobs of ours that will soon release the node.
        """
        self.tenure = weighed(self.tenure, node, vacant=vacant, now=now)
