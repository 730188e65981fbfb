"""Patterns of acceptable values, as data for those who cannot call a reader.

The rules of the API server's admission policies are made from these patterns. No pattern is
narrower than the reader it stands for, so that the API server refuses nothing that the scheduler
would accept. `beyond` says what only the reader refuses. A test compares the two.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# slurmctld refuses a longer name, comment or extra as "too long" (measured on Slurm 26.05.5).
LONGEST_BYTES = 1024

_CONTROL = "\x00-\x1f\x7f-\x9f\u2028\u2029"
_BLANK = "\x20\xa0\u1680\u2000-\u200a\u202f\u205f\u3000"
_CHARACTER = f"[^{_CONTROL}]"
_EDGE = f"[^{_CONTROL}{_BLANK}]"

LINE = f"{_EDGE}(?:{_CHARACTER}*{_EDGE})?"
WORD = f"{_EDGE}+"
PATH = f"/(?:{_CHARACTER}*{_EDGE})?"
INTEGER = "[+-]?[0-9]{1,18}"
SHORT_NUMBER = "[0-9]{1,5}"
OBJECT_NAME = "[a-z0-9](?:[-.a-z0-9]{0,61}[a-z0-9])?"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValuePattern:
    """`pattern` matches the whole value, in the syntax that `re` and RE2 share. A whole number must
    be from `low` to `high`. `expected` is the message for people. `beyond` describes what the
    reader refuses in addition.
    """

    pattern: str
    expected: str
    low: int | None = None
    high: int | None = None
    beyond: str = ""


def comma_list(pattern: str) -> str:
    """The pattern of a comma-separated list whose entries match `pattern`."""
    entry = re.sub(r"\(\?P<\w+>", "(?:", pattern)
    return f"(?:{entry})(?:,(?:{entry}))*"
