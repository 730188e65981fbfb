"""Slurm's hostlist expressions as a person writes them: `a01,b[1-3,07]` to names.

A kilobyte of text can stand for gigabytes of names, and each pod may have two such texts. So they
are kept as they are written, and how much they stand for is counted before a name is made.
"""

import hashlib
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

from annotations.forms import joined

MOST_NAMES = 4096
"""One pod's list names so many nodes at most; whoever means more means a partition or a feature."""
MOST_BYTES = 64 * 1024
"""Of the names of one list together: what a submit may grow by, and what its expansion costs."""

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


@dataclass(frozen=True, slots=True, repr=False)
class NodeNames(Collection[str]):
    """The names of a list, each once and in order. Only the text is kept: the names are made each
    time they are gone through. Two are equal that name the same, however they are written.
    Raises NodeListError for a malformed or oversized list.
    """

    text: str = field(compare=False)
    _digest: bytes = field(init=False)

    def __post_init__(self) -> None:
        digest = hashlib.blake2s(",".join(self).encode(), digest_size=16).digest()
        object.__setattr__(self, "_digest", digest)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(expand(self.text)))

    def __len__(self) -> int:
        return len(dict.fromkeys(expand(self.text)))

    def __contains__(self, name: object) -> bool:
        return name in tuple(self)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return repr(self.text)


class _Span(NamedTuple):
    """Numbers from `first` to `last`, written with at least `width` digits."""

    first: int
    last: int
    width: int


_Part = str | tuple[_Span, ...]


def expand(text: str) -> Iterator[str]:
    """All names in order, zeros kept (`n[08-10]`); raises NodeListError, also beyond the bounds."""
    return (name for host in _checked(text) for name in _names(host))


def _checked(text: str) -> list[list[_Part]]:
    hosts = [_parts(host) for host in _COMMA_OUTSIDE_BRACKETS.split(text)]
    names = size = 0
    for host in hosts:
        count, longest = _measured(host)
        names += count
        size += count * longest
        if names > MOST_NAMES:
            raise NodeListError(f"more names than can be sent, which are {MOST_NAMES}")
        if size > MOST_BYTES:
            raise NodeListError(f"more than can be sent: the names exceed {MOST_BYTES} bytes")
    return hosts


def _parts(host: str) -> list[_Part]:
    if not _HOST.fullmatch(host):
        raise NodeListError(f"{host[:_SHOWN]!r} is no node name")
    return [match[2] or tuple(map(_span, match[1].split(","))) for match in _PART.finditer(host)]


def _span(part: str) -> _Span:
    match = _RANGE.fullmatch(part)
    if match is None:
        raise NodeListError(f"{part[:_SHOWN]!r} is no number or range")
    low, high = match[1], match[2] or match[1]
    if int(high) < int(low):
        raise NodeListError(f"range {part} runs backwards")
    return _Span(int(low), int(high), len(low))


def _measured(host: list[_Part]) -> tuple[int, int]:
    """How many names a host stands for, and the length of the longest."""
    count, longest = 1, 0
    for part in host:
        if isinstance(part, str):
            longest += len(part)
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
