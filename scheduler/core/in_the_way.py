"""Another pod on the allocated Node whose containers may run although no job of its own holds the
Node.

No pod is bound beside it (I12), because it still uses what Slurm has given to the next job. Who is
in the way is found by `nodes/coverage.py`. The wait is decided in `waiting.py`
(`_another_in_the_way`), as is what happens with a Node that is cordoned or not ready (`_unfit`). A
native job that follows a pod waits by Slurm's guard (`hooks/guard.py`).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import msgspec

from scheduler.core.intervals import FRESH_SECONDS, HANDOVER_SECONDS, UNFIT_SECONDS

# Until the next pulse shows the state of the other pod's job.
ASK_AGAIN_SECONDS: Final = 0.25


def patience(seconds_to_leave: float) -> float:
    """How many seconds an allocation is kept while the other pod leaves within `seconds_to_leave`:
    at least as long as for an unfit Node. The time is limited, because nobody uses those resources
    in the meantime.
    """
    return min(max(UNFIT_SECONDS, seconds_to_leave), HANDOVER_SECONDS)


class InWay(msgspec.Struct, frozen=True):
    """`pod` is the other pod's name as this pod's owner may see it, and `more` how many others
    there are. `since` is when this was noticed, and `since_epoch` the same in Unix seconds. The
    allocation is kept until `until`. If not `sure`, Slurm has not shown yet whether the other pod's
    job holds the Node. `targets` are the Nodes where they may run.
    """

    pod: str
    since: float
    since_epoch: float
    until: float
    more: int = 0
    sure: bool = True
    targets: frozenset[str] = frozenset()

    def is_young(self, now: float) -> bool:
        """Whether the next pulse will most likely settle it."""
        return not self.sure and now - self.since < FRESH_SECONDS

    def __str__(self) -> str:
        """The rest of a sentence that begins with the node's name."""
        others = f" and {self.more} more" if self.more else ""
        if not self.sure:
            return f"where Slurm has not yet said whether a job holds it for {self.pod}{others}"
        noticed = datetime.fromtimestamp(self.since_epoch, UTC)
        return (
            f"where {self.pod}{others} may still run, although since "
            f"{noticed:%Y-%m-%d %H:%M:%S} UTC no Slurm job has held the node for it"
        )
