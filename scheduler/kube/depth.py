"""Cuts out of JSON what is nested more deeply than anything that is read.

The API server accepts 10 000 levels in the managedFields of any object, for which a pod's author
needs 10 kB. msgspec and json call themselves for each level, also for fields that are skipped, so
they fail at 1000 to 10 000 levels, by the version of Python. One such pod must not hide all others
that are in the same list or watch.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from scheduler.kube.errors import KubeTooDeep

T = TypeVar("T")

MOST_LEVELS: Final = 64
"""How many levels are kept. What is read of an object has fewer than 20."""
# One match for each bracket, with the texts and other values before it. Nothing is tried twice.
_TO_BRACKET: Final = re.compile(rb'(?:[^][{}"]++|"(?:[^"\\]++|\\.)*+")*+([][{}])', re.DOTALL)
_OPENING: Final = frozenset({b"[", b"{"})
# So many brackets take 5 ms (measured).
_BRACKETS_A_TURN: Final = 20_000


def shallow(data: bytes) -> bytes:
    """The JSON with `null` for each object and array that is nested too deeply. What is no JSON
    stays so.
    """
    kept: list[bytes] = []
    for _ in _cut(data, kept):
        pass
    return b"".join(kept)


async def shallow_in_turns(data: bytes) -> bytes:
    """As `shallow`, with pauses for other work."""
    kept: list[bytes] = []
    for _ in _cut(data, kept):
        await asyncio.sleep(0)
    return b"".join(kept)


async def decoded(decode: Callable[[bytes], T], data: bytes) -> T:
    """What `decode` makes of this answer, or of what is left of it if it is nested too deeply."""
    try:
        return decode(data)
    except KubeTooDeep:
        return decode(await shallow_in_turns(data))


def _cut(data: bytes, kept: list[bytes]) -> Iterator[None]:
    """Put the parts to keep into `kept`. Yields after each `_BRACKETS_A_TURN` brackets."""
    level = start = end = number = 0
    while (match := _TO_BRACKET.match(data, end)) is not None:
        end, number = match.end(), number + 1
        if match[1] in _OPENING:
            level += 1
            if level == MOST_LEVELS + 1:
                kept += data[start : end - 1], b"null"
        else:
            if level == MOST_LEVELS + 1:
                start = end
            level -= 1
        if number % _BRACKETS_A_TURN == 0:
            yield
    if level <= MOST_LEVELS:
        kept.append(data[start:])
