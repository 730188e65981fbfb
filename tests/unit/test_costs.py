"""What the tests count as the cost of a block does not depend on what ran before it."""

from __future__ import annotations

import gc

from tests.support.costs import calls


class _Circle:
    """Garbage that only the collector finds, and that has something to say when it goes."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        _farewell()


def _farewell() -> None: ...


def _cost() -> int:
    with calls() as made:
        kept = [[number] for number in range(10 * gc.get_threshold()[0])]
    assert kept
    return made[0]


def test_garbage_of_others_makes_no_call_in_the_block() -> None:
    gc.collect()
    clean = _cost()
    _Circle()
    assert _cost() == clean
    assert gc.isenabled()
