"""What has been said on the pod of a unit, so that nothing is said twice."""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.core.facts import Remark
from scheduler.core.reasons import Reason


@dataclass(slots=True)
class Said:
    """Written by `execute`, which writes on the pod. `facts` creates it from what a new pod
    shows.
    """

    condition: tuple[str, str] = ("", "")
    """Reason and message of the pod's PodScheduled=False, as last written or first seen."""
    reason: str = ""
    """Our own reason of the last condition, even if the site has another written in its place."""
    at: float = -1e9
    cause: str = ""
    warned: dict[Reason, str] = field(default_factory=dict)
    """The last message for each reason."""
    remarks: tuple[Remark, ...] = ()
    """The last remarks about the pod's request."""
    recorded: int | None = None
    """The job id on the pod, as last written or first seen."""
    ends_at: str | None = None
    """The end that was last written on the pod; None if none was written."""
