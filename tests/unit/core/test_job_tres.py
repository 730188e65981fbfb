"""What Slurm counts of a job."""

from __future__ import annotations

import pytest

from scheduler.core.job_tres import amounts_of


@pytest.mark.parametrize(
    ("text", "amounts"),
    [
        ("", {}),
        ("cpu=4,mem=1.50G,node=1,billing=4", {"cpu": 4, "mem": 1536, "node": 1, "billing": 4}),
        ("mem=512M,gres/gpu=2,gres/gpu:h100=2", {"mem": 512, "gres/gpu": 2, "gres/gpu:h100": 2}),
        ("mem=2T", {"mem": 2 * 2**20}),
        ("mem=100", {"mem": 100}),
        ("cpu=", {}),
        ("cpu", {}),
        ("cpu=many,mem=xG", {"cpu": float("inf"), "mem": float("inf")}),
    ],
)
def test_each_amount_is_read_by_its_name(text: str, amounts: dict[str, float]) -> None:
    assert amounts_of(text) == amounts
