"""Slurm's hostlist expressions, such as `n[1-3,7],gpu01`, expanded to names.

Numeric ranges keep their zero padding ("n[08-10]" is n08 n09 n10). Several brackets in one name
multiply, the last one running fastest, as in `scontrol show hostnames`. Order is kept: it is the
rank order of the allocation.

A kilobyte of text can stand for gigabytes of names. So an expression is first read, then measured
against the caller's own bounds, and only then expanded. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Final, NamedTuple

_TOKEN: Final = re.compile(r"\[(?P<ranges>[0-9,-]+)\]|(?P<text>[^\[\],\s]+)|(?P<comma>,)")
_RANGE: Final = re.compile(r"(?P<low>[0-9]{1,18})(?:-(?P<high>[0-9]{1,18}))?")
_SHOWN: Final = 60


class HostlistError(ValueError):
    """The expression is malformed. The text says what is wrong."""


class Span(NamedTuple):
    """Numbers from `first` to `last`, written with at least `width` digits."""

    first: int
    last: int
    width: int


Host = list[str | tuple[Span, ...]]
"""One entry of an expression: literal strings, and for each bracket the numbers in it."""


def read_hosts(text: str) -> list[Host]:
    """The comma-separated entries of `text`. Raises HostlistError for a malformed expression."""
    hosts: list[Host] = [[]]
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise HostlistError(f"unexpected {text[at]!r} at {at}")
        at = match.end()
        if match["comma"]:
            hosts.append([])
        elif match["ranges"]:
            hosts[-1].append(tuple(map(_span, match["ranges"].split(","))))
        else:
            hosts[-1].append(match["text"])
    if not all(hosts):
        raise HostlistError("empty name between commas")
    return hosts


def totals(hosts: Iterable[Host]) -> Iterator[tuple[int, int]]:
    """After each entry, how many names all entries so far stand for, and at most how many bytes."""
    names = size = 0
    for host in hosts:
        count, longest = _measured(host)
        names += count
        size += count * longest
        yield names, size


def names_of(hosts: Iterable[Host]) -> Iterator[str]:
    """All names in order."""
    return (name for host in hosts for name in _names_of_host(host))


def _span(part: str) -> Span:
    match = _RANGE.fullmatch(part)
    if match is None:
        raise HostlistError(f"{part[:_SHOWN]!r} is no number or range")
    low, high = match["low"], match["high"] or match["low"]
    if int(high) < int(low):
        raise HostlistError(f"range {part} runs backwards")
    return Span(int(low), int(high), len(low))


def _measured(host: Host) -> tuple[int, int]:
    """How many names an entry stands for, and the bytes of the longest."""
    count, longest = 1, 0
    for part in host:
        if isinstance(part, str):
            longest += len(part.encode())
        else:
            count *= sum(span.last - span.first + 1 for span in part)
            longest += max(max(span.width, len(str(span.last))) for span in part)
    return count, longest


def _names_of_host(host: Host) -> Iterator[str]:
    choices = [(part,) if isinstance(part, str) else tuple(_numbers(part)) for part in host]
    return map("".join, product(*choices))


def _numbers(spans: tuple[Span, ...]) -> Iterator[str]:
    return (
        f"{number:0{span.width}d}" for span in spans for number in range(span.first, span.last + 1)
    )
