"""What an admission policy makes of the pattern of an annotation's values."""

from __future__ import annotations

import re

from annotations.value_patterns import LONGEST_BYTES, ValuePattern


def matches(pattern: ValuePattern, value: str) -> bool:
    """Whether the value has the form, and is within the limits of length and number."""
    if len(value.encode(errors="replace")) > LONGEST_BYTES:
        return False
    if not re.fullmatch(pattern.pattern, value, re.ASCII):
        return False
    low, high = pattern.low, pattern.high
    return low is None or high is None or low <= int(value) <= high
