"""How often Slurm must say that it knows no such job before the job counts as gone (I6).

One answer may come from a slurmctld that is just starting, or from before the job was made. What
says it first only raises a doubt, mostly a list of states that lacks the job; each look at that one
job which says the same counts one more. An answer that shows the job begins anew.
"""

from __future__ import annotations

from typing import Final

FIRST: Final = 1
"""The count after the first such answer: a doubt, by which no pod and no job is touched."""
ENOUGH: Final = 3
"""The count at which the job is gone: the first answer and two looks that confirm it."""


def is_gone(count: int) -> bool:
    """Whether so many answers in a row prove that Slurm does not know the job any more."""
    return count >= ENOUGH


def wants_another(count: int) -> bool:
    """Whether there is a doubt that another look at the job has to settle."""
    return FIRST <= count < ENOUGH
