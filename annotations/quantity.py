"""Kubernetes quantities, exactly: `500m`, `1.5Gi`, `2e3`.

Kubernetes keeps nine decimal places: finer parts are rounded up (away from zero), and amounts
beyond 2^63-1 are capped (apimachinery, `resource.ParseQuantity`). So an amount is an int of
billionths.
"""

import re

NANOS = 10**9
MAXIMUM = (2**63 - 1) * NANOS

_QUANTITY = re.compile(
    r"(?P<sign>[+-]?)(?:(?P<whole>[0-9]+)(?:\.(?P<part>[0-9]*))?|\.(?P<only_part>[0-9]+))"
    r"(?:(?P<binary>[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]+)|(?P<decimal>[numkMGTPE]?))"
)
_BINARY = {suffix + "i": 10 * power for power, suffix in enumerate("KMGTPE", start=1)}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
# Far above any amount a pod names, and far below the length at which Python's int() gets slow.
_LONGEST_TEXT = 256
# With at most 256 digits, any exponent beyond this caps the amount or rounds it to a billionth.
_LARGEST_EXPONENT = 300


def parse_quantity(text: str) -> int:
    """The amount in billionths of the unit. Raises ValueError if Kubernetes would not accept the
    text.
    """
    match = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST_TEXT else None
    if match is None:
        raise ValueError(f"{text[:_LONGEST_TEXT]!r} is not a Kubernetes quantity")
    part = match["part"] or match["only_part"] or ""
    digits = int((match["whole"] or "") + part)
    amount = min(_scaled(digits, match=match, places=len(part)), MAXIMUM)
    return -amount if match["sign"] == "-" else amount


def _scaled(digits: int, *, match: re.Match[str], places: int) -> int:
    shift = 0 if match["binary"] is None else _BINARY[match["binary"]]
    power = 9 - places + _exponent(match)
    return divide_up((digits << shift) * 10 ** max(power, 0), 10 ** max(-power, 0))


def _exponent(match: re.Match[str]) -> int:
    if match["exponent"] is None:
        return _DECIMAL[match["decimal"] or ""]
    return max(-_LARGEST_EXPONENT, min(int(match["exponent"]), _LARGEST_EXPONENT))


def divide_up(amount: int, unit: int) -> int:
    """`amount / unit`, rounded up. Both are whole numbers, and `unit` is positive."""
    return -(-amount // unit)
