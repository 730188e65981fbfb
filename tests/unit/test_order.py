"""Which tests are begun first."""

from __future__ import annotations

from typing import cast

import pytest

from tests.support.order import begin_slow_ones


class Item:
    def __init__(self, name: str) -> None:
        self.name = name

    def get_closest_marker(self, mark: str) -> object:
        return self.name.startswith(mark) or None


def ordered(*names: str, workers: int) -> list[str]:
    items = [Item(name) for name in names]
    begin_slow_ones(cast("list[pytest.Item]", items), workers=workers)
    return [item.name for item in items]


def test_every_second_worker_begins_with_slow_ones() -> None:
    names = ["1", "slow 1", "2", "3", "slow 2", "4", "5", "6", "slow 3"]
    expected = ["slow 1", "slow 3", "1", "2", "3", "4", "slow 2", "5", "6"]
    assert ordered(*names, workers=3) == expected


@pytest.mark.parametrize("workers", [1, 2, 6, 50])
@pytest.mark.parametrize("slow", [0, 1, 7, 20])
@pytest.mark.parametrize("others", [0, 1, 30])
def test_each_is_begun_once(workers: int, slow: int, others: int) -> None:
    names = [f"slow {it}" for it in range(slow)] + [str(it) for it in range(others)]
    assert sorted(ordered(*names, workers=workers)) == sorted(names)
