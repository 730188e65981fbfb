"""Namespaces take turns where more jobs need a look than may be looked at."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import chain, islice, zip_longest
from operator import attrgetter, itemgetter
from typing import Final, TypeVar

from scheduler.state.units import Unit

T = TypeVar("T")
namespace_of: Final = attrgetter("namespace")
Due = tuple[float, Unit]
"""A unit whose job needs a look, after the time since when: in a namespace, the earliest is first.
"""


class LookTurns:
    """The namespaces in line for the looks of one budget. With each look at one of its jobs, a
    namespace goes to the end. So does a new one: otherwise one whose only pod is deleted after each
    look, and replaced, would always come first.
    """

    def __init__(self) -> None:
        self._line: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._line)

    def line(self, namespaces: Set[str]) -> Sequence[str]:
        """These namespaces, the first in line first. All others are forgotten."""
        if self._line.keys() != namespaces:
            for gone in self._line.keys() - namespaces:
                del self._line[gone]
            for it in namespaces:
                self._line.setdefault(it)
        return tuple(self._line)

    def first(self, most: int, found: Iterable[Due]) -> list[Due]:
        """At most so many of those that were found, in the order in which they are to be looked at.
        Many can be passed in parts, each with the result for the parts before it.
        """
        of_each = defaultdict[str, list[Due]](list)
        for it in found:
            of_each[it[1].namespace].append(it)
        for namespace in of_each:
            self._line.setdefault(namespace)
        having = islice(filter(of_each.__contains__, self._line), most)
        rows = [heapq.nsmallest(most, of_each[it], key=itemgetter(0)) for it in having]
        return one_of_each(rows, most)

    def taken(self, units: Iterable[Unit]) -> Iterator[Unit]:
        """The units, one by one. Each that the caller takes is the turn of its namespace; those for
        which no time is left cost nobody a turn.
        """
        for unit in units:
            self._line.pop(unit.namespace, None)
            self._line[unit.namespace] = None
            yield unit


def one_of_each(rows: Iterable[Sequence[T]], most: int) -> list[T]:
    """At most so many items: the first of each row, then the second of each, and so on."""
    in_turn = (it for it in chain.from_iterable(zip_longest(*rows)) if it is not None)
    return list(islice(in_turn, most))
