"""Resource quantities, as far as an API server compares them."""

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
    """The quantity as a number; None when it is none."""
    match = _FORM.match(str(value))
    if match is None:
        return None
    number, suffix = Decimal(match[1]), match[2]
    if suffix is None:
        return number
    return number * (_FACTORS.get(suffix) or Decimal(f"1{suffix}"))


def as_text(quantities: Any) -> Any:
    """A map of quantities with plain numbers as the strings that the server stores."""
    if not isinstance(quantities, dict):
        return quantities
    return {name: _text(value) for name, value in quantities.items()}


def _text(value: Any) -> Any:
    if isinstance(value, float):
        whole = int(value * 1000)
        return str(whole // 1000) if whole % 1000 == 0 else f"{whole}m"
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value
