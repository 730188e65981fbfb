"""Slurm's formats such as `%.18i %.9P`: fields with a width, and a dot for those at the right."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

_FIELD: Final = re.compile(r"%(?P<right>\.?)(?P<size>\d*|#)(?P<letter>[A-Za-z])")


_WIDEST: Final = 10_000


class FormatError(ValueError):
    """The format has a field that is not known."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field, and the text before it. A size of 0 is no limit; None is that of the longest."""

    letter: str
    before: str
    size: int | None
    right: bool


def fields(text: str, known: str) -> tuple[Field, ...]:
    """The fields of a format. Raises FormatError."""
    found = tuple(_fields(text))
    wrong = [it.letter for it in found if it.letter not in known]
    if wrong or not found:
        named = f"%{wrong[0]}" if wrong else repr(text)
        raise FormatError(
            f"format: {named}: expected some of {', '.join(f'%{it}' for it in known)}"
        )
    return found


def _fields(text: str) -> Iterator[Field]:
    at = 0
    for it in _FIELD.finditer(text):
        size = None if it["size"] == "#" else min(int(it["size"] or 0), _WIDEST)
        yield Field(it["letter"], text[at : it.start()], size, bool(it["right"]))
        at = it.end()


def lines(layout: Sequence[Field], rows: Sequence[Sequence[str]]) -> list[str]:
    """The rows as text; each has a cell for each field."""
    sizes = [
        max(len(row[at]) for row in rows) if it.size is None else it.size
        for at, it in enumerate(layout)
    ]
    return [
        "".join(
            it.before + _cell(cell, size, right=it.right)
            for it, cell, size in zip(layout, row, sizes, strict=True)
        ).rstrip()
        for row in rows
    ]


def _cell(text: str, size: int, *, right: bool) -> str:
    if not size:
        return text
    return text[:size].rjust(size) if right else text[:size].ljust(size)
