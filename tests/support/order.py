"""Starts tests that take long first, because the last test to end determines how long the tier
takes.
"""

from __future__ import annotations

from itertools import islice

import pytest


def begin_slow_ones(items: list[pytest.Item], *, workers: int) -> None:
    """Put the tests marked `slow` where the workers of xdist begin (`--dist worksteal`).

    At first each worker has an equal share of the list. Every second worker begins with slow tests:
    they mostly wait, and leave the CPUs to the other workers meanwhile.
    """
    slow = [it for it in items if it.get_closest_marker("slow")]
    rest = iter([it for it in items if not it.get_closest_marker("slow")])
    waiting = (workers + 1) // 2
    left, dealt = len(items), list[pytest.Item]()
    for number in range(workers):
        size = left // (workers - number)
        first = slow[number // 2 :: waiting][:size] if number % 2 == 0 else []
        dealt += [*first, *islice(rest, size - len(first))]
        left -= size
    # In a short list a share may be too small for its slow tests.
    missing = set(items).difference(dealt)
    items[:] = [*dealt, *(it for it in items if it in missing)]
