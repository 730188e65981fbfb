"""Some pods of a unit are missing, and none was ever on a Node: all are started, or none.

The pods of a group need each other, so none of them computes without the others. Once they have
started, each lives by itself: a pod that has ended does not hold up the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from scheduler.core.facts import RUNS, PodStage, UnitFacts

_STARTED: Final = RUNS | {PodStage.FINISHED}
_MOST_NAMES: Final = 3


def lacking(facts: UnitFacts) -> str:
    """The names of the pods without which no other may start; "" if there are none. Always "" for
    a gang: `missing_of` in `gang.py` knows which of its pods are missing.
    """
    if not facts.missing or facts.gang is not None:
        return ""
    begun = any(pod.stage in _STARTED for pod in facts.pods)
    if begun or any(it.placed for it in facts.missing):
        return ""
    return a_few([it.name for it in facts.missing])


def a_few(names: Sequence[str]) -> str:
    """The first of these names, so that a text is short however many there are."""
    shown = ", ".join(names[:_MOST_NAMES])
    more = len(names) - _MOST_NAMES
    return f"{shown} and {more} more" if more > 0 else shown
