"""What has been said on the pod of a unit, so that nothing is said twice."""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.core.facts import Remark
from scheduler.core.reasons import Reason


@dataclass(slots=True)
class Said:
    """Written by `execute`, which writes on the pod; `facts` makes it of what a new pod shows."""

    condition: tuple[str, str] = ("", "")
    """Reason and message of the pod's PodScheduled=False, as last written or first seen."""
    reason: str = ""
    """Our own reason of what was last written, whatever stands in the condition for it."""
    at: float = -1e9
    cause: str = ""
    warned: dict[Reason, str] = field(default_factory=dict)
    """What was last warned of, by its reason."""
    remarks: tuple[Remark, ...] = ()
    """What was said of its request last."""
    recorded: int | None = None
    """The job id on the pod, as last written or first seen."""
    ends_at: str | None = None
    """What was last written on the pod about its end, None where nothing was."""
