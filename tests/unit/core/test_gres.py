"""Which types of a gres a node has, by what Slurm says of it."""

from __future__ import annotations

import pytest

from scheduler.core.gres import types_of


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
