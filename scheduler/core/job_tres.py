"""Reads what Slurm counts of a job, such as `cpu=4,mem=1.50G,node=1,gres/gpu=2`.

What a job asks for is made in `annotations/resources.py` and `annotations/pod_gres.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

MEMORY: Final = "mem"
ROUNDING: Final = 1.01
"""Slurm writes memory rounded to two decimals of its unit, so it may be this many times as much."""
_MIB: Final = {"K": 2**-10, "M": 1.0, "G": 2.0**10, "T": 2.0**20, "P": 2.0**30}


def amounts_of(text: str) -> Mapping[str, float]:
    """Each amount by its name; memory is in MiB. An amount that is no number is infinite."""
    pairs = (part.partition("=") for part in text.split(","))
    return {name: _tres_amount(value, name) for name, _, value in pairs if value}


def _tres_amount(text: str, name: str) -> float:
    unit = _MIB.get(text[-1:]) if name == MEMORY else None
    try:
        return float(text) if unit is None else float(text[:-1]) * unit
    except ValueError:
        return float("inf")
