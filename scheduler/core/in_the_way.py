"""Another pod on the allocated Node whose containers may run though no job holds the Node for it.

No pod is bound beside one (I12): Slurm has given to the next job what the other still uses.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from scheduler.core.intervals import FRESH_SECONDS, HANDOVER_SECONDS, UNFIT_SECONDS

# Until the next pulse tells of the other pod's job.
ASK_AGAIN_SECONDS: Final = 0.25


def patience(seconds_to_leave: float) -> float:
    """How long an allocation is kept for a pod that leaves in so many seconds, or does not: as long
    as for an unfit Node at least. Nobody uses those resources meanwhile, so it has an end.
    """
    return min(max(UNFIT_SECONDS, seconds_to_leave), HANDOVER_SECONDS)


@dataclass(frozen=True, slots=True)
class InWay:
    """`pod` is what the other pod is called to this one's owner, `more` how many there are besides.
    `since` is when that was noticed, `since_epoch` the same in seconds of the epoch. The allocation
    is kept until `until`. Not `sure`: Slurm has not yet told of the other pod's job.
    """

    pod: str
    since: float
    since_epoch: float
    until: float
    more: int = 0
    sure: bool = True

    def is_young(self, now: float) -> bool:
        """Whether the next pulse will most likely settle it."""
        return not self.sure and now - self.since < FRESH_SECONDS

    def __str__(self) -> str:
        """As the rest of a sentence that begins with the node."""
        others = f" and {self.more} more" if self.more else ""
        if not self.sure:
            return f"where Slurm has not told yet whether a job holds it for {self.pod}{others}"
        noticed = datetime.fromtimestamp(self.since_epoch, UTC)
        return (
            f"where {self.pod}{others} may still run, though no Slurm job holds it for that since "
            f"{noticed:%Y-%m-%d %H:%M:%S} UTC"
        )
