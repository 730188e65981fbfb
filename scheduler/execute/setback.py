"""The growing pause before a unit's next submit, after a refusal or the loss of its job.

`core/backoff.py` lists all such pauses. While Slurm accepts no jobs at all, `gate.py` holds back
the submits of all units.
"""

from __future__ import annotations

import random
from typing import Final

from annotations import JobRequest
from scheduler.core.refused_request import Pauses
from scheduler.state.units import Unit

SETBACKS: Final = Pauses(1.0, 300.0)
"""After a job was dropped or lost, or a submit whose outcome is unknown."""
REFUSALS: Final = Pauses(30.0, 300.0)
"""After a refusal."""


def set_back(unit: Unit, request: JobRequest | None, pauses: Pauses, *, now: float) -> float:
    """Lengthen the pause. Returns the seconds until the unit may submit again; only an edit of
    `request` can shorten them.
    """
    share = 1.0 - 0.25 * random.random()  # noqa: S311 - spreads joint failures
    unit.refusals.submit = unit.refusals.submit.again(request, pauses, now=now, share=share)
    return unit.refusals.submit.until - now
