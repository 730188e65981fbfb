"""Slurm's hostlist expressions: `n[1-3,7],gpu01` to names.

Numeric ranges keep their zero padding ("n[08-10]" is n08 n09 n10). Several brackets in one name
multiply, the last one running fastest, as in `scontrol show hostnames`. Order is kept: it is the
rank order of the allocation.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final, NamedTuple

MAX_HOSTS: Final = 100_000
# A kilobyte of text can stand for gigabytes of names: both numbers are checked before a name is
# made. This allows MAX_HOSTS names of 40 bytes.
MAX_BYTES: Final = 4 * 1000 * 1000

_TOKEN: Final = re.compile(r"\[(?P<ranges>[0-9,-]+)\]|(?P<text>[^\[\],\s]+)|(?P<comma>,)")
_RANGE: Final = re.compile(r"(?P<low>[0-9]{1,18})(?:-(?P<high>[0-9]{1,18}))?")


class HostlistError(ValueError):
    """The text is no hostlist, or names more hosts than allowed."""


@dataclass(frozen=True, slots=True)
class Hosts(Collection[str]):
    """The hosts of an expression, kept as that text and expanded each time they are gone through.
    Raises HostlistError where `expand` does.
    """

    text: str

    def __post_init__(self) -> None:
        _checked(self.text)

    def __iter__(self) -> Iterator[str]:
        return iter(expand(self.text))

    def __len__(self) -> int:
        return len(expand(self.text))

    def __contains__(self, name: object) -> bool:
        return name in expand(self.text)


class _Span(NamedTuple):
    """Numbers from `first` to `last`, written with at least `width` digits."""

    first: int
    last: int
    width: int


_Part = str | tuple[_Span, ...]


def expand(text: str) -> tuple[str, ...]:
    """All names in `text`, in order; raises HostlistError for a malformed expression, and for one
    of more than MAX_HOSTS names or of more than MAX_BYTES in all, before any name is made.
    """
    hosts = _checked(text)
    return tuple(name for host in hosts for name in _names(host))


def _checked(text: str) -> list[list[_Part]]:
    """The hosts of `text` as parts. Raises HostlistError where they stand for too many names."""
    hosts = list(_split(text)) if text else []
    names = size = 0
    for host in hosts:
        count, longest = _measured(host)
        names += count
        size += count * longest
        if names > MAX_HOSTS:
            raise HostlistError(f"hostlist {_shown(text)} names more than {MAX_HOSTS} hosts")
        if size > MAX_BYTES:
            raise HostlistError(f"hostlist {_shown(text)}: its names exceed {MAX_BYTES} bytes")
    return hosts


def _measured(host: list[_Part]) -> tuple[int, int]:
    """How many names a host stands for, and the length of the longest."""
    count, longest = 1, 0
    for part in host:
        if isinstance(part, str):
            longest += len(part.encode())
        else:
            count *= sum(span.last - span.first + 1 for span in part)
            longest += max(max(span.width, len(str(span.last))) for span in part)
    return count, longest


def _names(host: list[_Part]) -> Iterator[str]:
    choices = [(part,) if isinstance(part, str) else tuple(_numbers(part)) for part in host]
    return map("".join, product(*choices))


def _numbers(spans: tuple[_Span, ...]) -> Iterator[str]:
    return (
        f"{number:0{span.width}d}" for span in spans for number in range(span.first, span.last + 1)
    )


def _split(text: str) -> Iterator[list[_Part]]:
    """The comma-separated hosts of `text`, each as literal strings and spans of numbers."""
    parts: list[_Part] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise HostlistError(f"hostlist {_shown(text)}: unexpected {text[at]!r} at {at}")
        at = match.end()
        if match["comma"]:
            yield _complete(parts, text)
            parts = []
        elif match["ranges"]:
            parts.append(tuple(_spans(match["ranges"], text)))
        else:
            parts.append(match["text"])
    yield _complete(parts, text)


def _complete(parts: list[_Part], text: str) -> list[_Part]:
    if not parts:
        raise HostlistError(f"hostlist {_shown(text)}: empty name between commas")
    return parts


def _spans(ranges: str, text: str) -> Iterator[_Span]:
    for item in ranges.split(","):
        match = _RANGE.fullmatch(item)
        if match is None:
            raise HostlistError(f"hostlist {_shown(text)}: {item!r} is no number or range")
        low, high = match["low"], match["high"] or match["low"]
        if int(high) < int(low):
            raise HostlistError(f"hostlist {_shown(text)}: range {low}-{high} runs backwards")
        yield _Span(int(low), int(high), len(low))


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")
