"""Shows edits as a unified diff. It is made of the edits themselves, so a large file costs no
search for what differs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from scheduler.migrate.edit import TextEdit, with_edits

_CONTEXT: Final = 3
_NO_NEWLINE: Final = "\n\\ No newline at end of file\n"


@dataclass(slots=True)
class _Region:
    """Lines that change: from `first` up to `last` of the old text, and the new lines."""

    first: int
    last: int
    new: list[str]


def unified(text: str, edits: Sequence[TextEdit], name: str) -> str:
    """The diff of a file with this name."""
    lines = split_lines(text)
    regions = list(_regions(text, lines, edits))
    shown, moved = [f"--- {name}\n", f"+++ {name}\n"], 0
    for hunk in _hunks(regions):
        shown += _hunk_lines(lines, hunk, moved)
        moved += sum(len(it.new) - (it.last - it.first) for it in hunk)
    return "".join(shown)


def split_lines(text: str) -> list[str]:
    """The lines with their ends."""
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _regions(text: str, lines: list[str], edits: Sequence[TextEdit]) -> Iterator[_Region]:
    starts = [0, *accumulate(map(len, lines))]
    groups: list[tuple[int, int, list[TextEdit]]] = []
    for edit in edits:
        first, last = _touched(starts, edit)
        if groups and first <= groups[-1][1]:
            before = groups.pop()
            groups.append((before[0], max(last, before[1]), [*before[2], edit]))
        else:
            groups.append((first, last, [edit]))
    for first, last, inside in groups:
        begin, end = starts[first], starts[last]
        yield _Region(first, last, split_lines(with_edits(text[begin:end], inside, begin=begin)))


def _touched(starts: list[int], edit: TextEdit) -> tuple[int, int]:
    """The lines that the edit changes. New whole lines change none."""
    first, last = _line_of(starts, edit.start), _line_of(starts, edit.end)
    at_starts = (starts[first], starts[last]) == (edit.start, edit.end)
    if at_starts and (not edit.text or edit.text.endswith("\n")):
        return first, last
    lines = len(starts) - 1
    return min(first, lines - 1), min(last + 1, lines)


def _line_of(starts: list[int], at: int) -> int:
    return bisect_right(starts, at) - 1


def _hunks(regions: list[_Region]) -> Iterator[list[_Region]]:
    """Regions that are so near to each other that their surroundings meet."""
    hunk: list[_Region] = []
    for region in regions:
        if hunk and region.first - hunk[-1].last > 2 * _CONTEXT:
            yield hunk
            hunk = []
        hunk.append(region)
    if hunk:
        yield hunk


def _hunk_lines(lines: list[str], hunk: list[_Region], moved: int) -> Iterator[str]:
    begin = max(0, hunk[0].first - _CONTEXT)
    end = min(len(lines), hunk[-1].last + _CONTEXT)
    grown = sum(len(it.new) - (it.last - it.first) for it in hunk)
    old, new = _range(begin, end - begin), _range(begin + moved, end - begin + grown)
    yield f"@@ -{old} +{new} @@\n"
    for region in hunk:
        yield from _marked(" ", lines[begin : region.first])
        yield from _marked("-", lines[region.first : region.last])
        yield from _marked("+", region.new)
        begin = region.last
    yield from _marked(" ", lines[begin:end])


def _range(first: int, length: int) -> str:
    return f"{first + 1 if length else first},{length}"


def _marked(mark: str, lines: list[str]) -> Iterator[str]:
    for line in lines:
        yield f"{mark}{line}" if line.endswith("\n") else f"{mark}{line}{_NO_NEWLINE}"
