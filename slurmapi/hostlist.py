"""Slurm's hostlist expressions: `n[1-3,7],gpu01` to names and back.

Numeric ranges keep their zero padding ("n[08-10]" is n08 n09 n10). Several brackets in one name
multiply, the last one running fastest, as in `scontrol show hostnames`. Order is kept: it is the
rank order of the allocation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

MAX_HOSTS: Final = 100_000

_TOKEN: Final = re.compile(r"\[(?P<ranges>[0-9,-]+)\]|(?P<text>[^\[\],\s]+)|(?P<comma>,)")
_RANGE: Final = re.compile(r"(?P<low>[0-9]{1,18})(?:-(?P<high>[0-9]{1,18}))?")
_NUMBERED: Final = re.compile(r"(?P<prefix>.*?)(?P<digits>[0-9]{1,18})(?P<suffix>[^0-9]*)")

# A run of names that differ in one number: its fixed parts, the digits' width, first and last
# number.
_Run = tuple[str, str, int, int, int]


class HostlistError(ValueError):
    """The text is no hostlist, or names more hosts than allowed."""


def expand(text: str, *, limit: int = MAX_HOSTS) -> tuple[str, ...]:
    """All names in `text`, in order; raises HostlistError for a malformed or oversized
    expression.
    """
    if not text:
        return ()
    names: list[str] = []
    for parts in _split(text):
        names += _product(parts, limit=limit, text=text)
        _within(len(names), limit, text)
    return tuple(names)


def fold(names: Iterable[str]) -> str:
    """A hostlist expression that expands to exactly `names`, in the same order; neighbouring
    numbers share brackets.
    """
    return ",".join(_written(run) for run in _runs(names))


def _split(text: str) -> Iterator[list[str | list[str]]]:
    """The comma-separated hosts of `text`, each as literal strings and lists of alternatives."""
    parts: list[str | list[str]] = []
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
            parts.append(_alternatives(match["ranges"], text))
        else:
            parts.append(match["text"])
    yield _complete(parts, text)


def _complete(parts: list[str | list[str]], text: str) -> list[str | list[str]]:
    if not parts:
        raise HostlistError(f"hostlist {_shown(text)}: empty name between commas")
    return parts


def _alternatives(ranges: str, text: str) -> list[str]:
    numbers: list[str] = []
    for item in ranges.split(","):
        match = _RANGE.fullmatch(item)
        if match is None:
            raise HostlistError(f"hostlist {_shown(text)}: {item!r} is no number or range")
        numbers.extend(_range(match["low"], match["high"] or match["low"], text))
        _within(len(numbers), MAX_HOSTS, text)
    return numbers


def _range(low: str, high: str, text: str) -> Iterator[str]:
    first, last = int(low), int(high)
    if last < first:
        raise HostlistError(f"hostlist {_shown(text)}: range {low}-{high} runs backwards")
    _within(last - first + 1, MAX_HOSTS, text)
    return (f"{number:0{len(low)}d}" for number in range(first, last + 1))


def _product(parts: list[str | list[str]], *, limit: int, text: str) -> list[str]:
    names = [""]
    for part in parts:
        choices = [part] if isinstance(part, str) else part
        _within(len(names) * len(choices), limit, text)
        names = [name + choice for name in names for choice in choices]
    return names


def _within(count: int, limit: int, text: str) -> None:
    if count > limit:
        raise HostlistError(f"hostlist {_shown(text)} names more than {limit} hosts")


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")


def _runs(names: Iterable[str]) -> Iterator[_Run]:
    current: _Run | None = None
    for name in names:
        run = _single(name)
        if current is not None and _follows(current, run):
            current = (*current[:4], run[4])
            continue
        if current is not None:
            yield current
        current = run
    if current is not None:
        yield current


def _single(name: str) -> _Run:
    if not name or re.search(r"[\[\],\s]", name):
        raise HostlistError(f"{name!r} is no host name")
    match = _NUMBERED.fullmatch(name)
    if match is None:
        return (name, "", 0, 0, 0)
    number = int(match["digits"])
    return (match["prefix"], match["suffix"], len(match["digits"]), number, number)


def _follows(run: _Run, single: _Run) -> bool:
    """Whether `single` is the next name of `run`: unpadded numbers may grow a digit (n9, n10),
    padded ones may not.
    """
    prefix, suffix, width, _, last = run
    if width == 0 or (prefix, suffix) != single[:2] or single[3] != last + 1:
        return False
    return f"{single[3]:0{width}d}" == f"{single[3]:0{single[2]}d}"


def _written(run: _Run) -> str:
    prefix, suffix, width, first, last = run
    if width == 0:
        return prefix
    if first == last:
        return f"{prefix}{first:0{width}d}{suffix}"
    return f"{prefix}[{first:0{width}d}-{last:0{width}d}]{suffix}"
