"""Slurm's hostlist expressions as a person writes them: `a01,b[1-3,07]` to names."""

import re
from collections.abc import Iterator
from itertools import product

from annotations.forms import joined

_HOST = re.compile(r"(?:[A-Za-z0-9]|\[[0-9,-]+\])(?:[A-Za-z0-9._-]|\[[0-9,-]+\])*")
_PART = re.compile(r"\[([0-9,-]+)\]|([^\[\]]+)")
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_RANGES = r"\[[0-9]{1,18}(?:-[0-9]{1,18})?(?:,[0-9]{1,18}(?:-[0-9]{1,18})?)*\]"
# What `expand` takes, but for ranges that run backwards and for lengths.
PATTERN = joined(rf"(?:[A-Za-z0-9]|{_RANGES})(?:[A-Za-z0-9._-]|{_RANGES})*")
_COMMA_OUTSIDE_BRACKETS = re.compile(r",(?![^\[\]]*\])")
_SHOWN = 60


class NodeListError(ValueError):
    """What is wrong with the list."""


def expand(text: str, *, limit: int) -> Iterator[str]:
    """All names in order, zeros kept (`n[08-10]`); raises NodeListError, also beyond `limit`."""
    left = limit
    for host in _COMMA_OUTSIDE_BRACKETS.split(text):
        if not _HOST.fullmatch(host):
            raise NodeListError(f"{host[:_SHOWN]!r} is no node name")
        choices = [_choices(match, limit=left) for match in _PART.finditer(host)]
        count = 1
        for found in choices:
            count *= len(found)
        left = _left(left - count)
        yield from map("".join, product(*choices))


def _choices(match: re.Match[str], *, limit: int) -> list[str]:
    if match[1] is None:
        return [match[2]]
    return [number for part in match[1].split(",") for number in _range(part, limit=limit)]


def _range(part: str, *, limit: int) -> list[str]:
    match = _RANGE.fullmatch(part)
    if match is None:
        raise NodeListError(f"{part[:_SHOWN]!r} is no number or range")
    low, high = match[1], match[2] or match[1]
    if int(high) < int(low):
        raise NodeListError(f"range {part} runs backwards")
    _left(limit - (int(high) - int(low) + 1))
    return [f"{number:0{len(low)}d}" for number in range(int(low), int(high) + 1)]


def _left(left: int) -> int:
    if left < 0:
        raise NodeListError("more names than can be sent")
    return left
