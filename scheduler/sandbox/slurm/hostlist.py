"""Slurm's hostlist expressions, e.g. ``n[01-03,07]``: conversion to and from names."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product

_NUMBERED = re.compile(r"(.*?)(\d+)")


@dataclass(slots=True)
class _Run:
    """Consecutive names with the same prefix and the same zero padding of their numbers."""

    prefix: str
    width: int
    padded: bool
    numbers: list[int] = field(default_factory=list)

    def takes(self, prefix: str, digits: str) -> bool:
        if prefix != self.prefix or not digits or not self.numbers:
            return False
        return len(digits) == self.width if self.padded else digits[0] != "0"

    def text(self) -> str:
        width = self.width if self.padded else 1
        if not self.numbers:
            return self.prefix
        if len(self.numbers) == 1:
            return f"{self.prefix}{self.numbers[0]:0{width}}"
        return f"{self.prefix}[{','.join(_ranges(self.numbers, width))}]"


def expand(text: str) -> Iterator[str]:
    """Yield the names in an expression; a malformed one counts as a name that no node has."""
    for host in re.split(r",(?![^\[\]]*\])", text):
        parts = [_alternatives(part) for part in re.split(r"(\[[0-9,-]+\])", host)]
        yield from map("".join, product(*parts))


def _alternatives(part: str) -> list[str]:
    if not part.startswith("["):
        return [part]
    ranges = (item.partition("-") for item in part[1:-1].split(","))
    return [
        f"{number:0{len(low)}d}"
        for low, _, high in ranges
        if low.isdigit() and (high or low).isdigit()
        for number in range(int(low), int(high or low) + 1)
    ]


def order(name: str) -> list[str | int]:
    """Return a sort key for names in Slurm's order: n2 comes before n10 (measured on 24.11.5)."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def fold(names: Iterable[str]) -> str:
    """Return the hostlist expression for ``names``, in their order."""
    runs: list[_Run] = []
    for name in names:
        match = _NUMBERED.fullmatch(name)
        prefix, digits = (match[1], match[2]) if match else (name, "")
        if not runs or not runs[-1].takes(prefix, digits):
            runs.append(_Run(prefix, len(digits), padded=digits.startswith("0")))
        if digits:
            runs[-1].numbers.append(int(digits))
    return ",".join(run.text() for run in runs)


def _ranges(numbers: list[int], width: int) -> Iterator[str]:
    first = last = numbers[0]
    for number in numbers[1:]:
        if number != last + 1:
            yield _range(first, last, width)
            first = number
        last = number
    yield _range(first, last, width)


def _range(first: int, last: int, width: int) -> str:
    return f"{first:0{width}}" if first == last else f"{first:0{width}}-{last:0{width}}"
