"""Which types of a gres a node has, by what Slurm says of it."""

from __future__ import annotations

import pytest

from scheduler.core.node_gres import counts_of, types_of


@pytest.mark.parametrize(
    ("gres", "types"),
    [
        ("", set()),
        ("(null)", set()),
        ("gpu:8", set()),
        ("gpu:8(S:0-1)", set()),
        ("gpu:(null):8(S:0-1)", set()),
        ("gpu", set()),
        ("gpu:h100:8", {"h100"}),
        ("gpu:h100:8(S:0,1),gpu:1g.10gb:7(S:0)", {"h100", "1g.10gb"}),
        ("gpu:4090:2", set()),
        ("gpu:tesla:no_consume:1", {"tesla"}),
        ("gpu:no_consume:1", set()),
        ("gpu:h100", {"h100"}),
        ("nic:mlx5:2,gpu:a100:4K", {"a100"}),
        ("nic:mlx5:2", set()),
        ("gpus:h100:2", set()),
        (":::,,", set()),
    ],
)
def test_types(gres, types):
    assert types_of(gres, name="gpu") == types


@pytest.mark.parametrize(
    ("gres", "counts"),
    [
        ("", {}),
        ("(null)", {}),
        ("gpu", {"": 1}),
        ("gpu:8(S:0-1),nic:2", {"": 8}),
        ("gpu:h100:0(IDX:N/A)", {"h100": 0}),
        ("gpu:h100:8(S:0,1),gpu:1g.10gb:7(S:0),gpu:h100:1", {"h100": 9, "1g.10gb": 7}),
        ("gpu:a100:no_consume:2,gpumem:4", {"a100": 2}),
    ],
)
def test_gres_are_counted_by_their_type(gres: str, counts: dict[str, int]) -> None:
    assert counts_of(gres, name="gpu") == counts
