"""Resource quantities, parsed for comparison and written as the API server stores them."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

_FORM = re.compile(r"^([+-]?(?:\d+\.?\d*|\.\d+))([numkMGTPE]|[KMGTPE]i|[eE][+-]?\d+)?$")
_FACTORS = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal("1e3"),
    "M": Decimal("1e6"),
    "G": Decimal("1e9"),
    "T": Decimal("1e12"),
    "P": Decimal("1e15"),
    "E": Decimal("1e18"),
    **{f"{prefix}i": Decimal(1024) ** power for power, prefix in enumerate("KMGTPE", start=1)},
}


def parse(value: Any) -> Decimal | None:
    """The quantity as a number; None if the value is not a quantity."""
    match = _FORM.match(str(value))
    if match is None:
        return None
    number, suffix = Decimal(match[1]), match[2]
    if suffix is None:
        return number
    return number * (_FACTORS.get(suffix) or Decimal(f"1{suffix}"))


def as_text(quantities: Any) -> Any:
    """The map of quantities, with plain numbers as strings, as the server stores them."""
    if not isinstance(quantities, dict):
        return quantities
    return {name: _text(value) for name, value in quantities.items()}


def _text(value: Any) -> Any:
    if isinstance(value, float):
        whole = int(value * 1000)
        return str(whole // 1000) if whole % 1000 == 0 else f"{whole}m"
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value
