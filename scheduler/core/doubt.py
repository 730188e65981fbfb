"""How often Slurm must say that it knows no such job before the job counts as gone (I6).

One such answer may come from a slurmctld that is just starting, or from before the job was created.
The first one, mostly a list of states without the job, only raises a doubt. Each look at that job
with the same result adds one to the count, and an answer that shows the job resets it. The looks
follow each other by SOON_SECONDS (`intervals.py`). What is decided by the count: `running.py` and
`waiting.py`.
"""

from __future__ import annotations

from typing import Final

FIRST: Final = 1
"""The count after the first such answer. It is only a doubt: nothing is done to pods or jobs
because of it.
"""
ENOUGH: Final = 3
"""The count at which the job counts as gone: the first answer and two looks that confirm it."""


def is_gone(count: int) -> bool:
    """Whether this many such answers in a row prove that Slurm no longer knows the job."""
    return count >= ENOUGH


def wants_another(count: int) -> bool:
    """Whether another look at the job is needed to settle the doubt."""
    return FIRST <= count < ENOUGH
