"""What has been written on the pods of a unit, so that nothing is written twice."""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.core.event_reasons import Reason
from scheduler.core.facts import Remark
from scheduler.kube.wire import PodCondition


@dataclass(slots=True)
class SaidOnPod:
    """What was written on one pod. Set by `execute`, which writes on the pod. `facts` creates it
    from what a new pod shows.
    """

    condition: tuple[str, str] = ("", "")
    """Reason and message of the pod's PodScheduled=False, as last written or first seen."""
    reason: str = ""
    """Our own reason for the last condition, even if the site's setting puts another in its
    place.
    """
    at: float = -1e9
    """When the last condition was written."""
    cause: str = ""
    """Slurm's last reason for which an Event was recorded."""
    recorded: int | None = None
    """The job id on the pod, as last written or first seen."""
    ends_at: str | None = None
    """The end that was last written on the pod; None if none was written."""

    def has(self, condition: PodCondition) -> bool:
        """Whether the pod has this condition already."""
        return self.condition == (condition.reason, condition.message)


@dataclass(slots=True)
class Said:
    """What was written on all pods of the unit alike. Set by `execute`."""

    warned: dict[Reason, str] = field(default_factory=dict)
    """The last message for each reason."""
    submitted: tuple[int, str] | None = None
    """A job that was submitted and whose Event is not recorded yet, with the text of the Event."""
    remarks: tuple[Remark, ...] = ()
    """The last remarks about the request."""
