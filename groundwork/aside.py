"""Values of which some fields do not count when two are compared."""

from __future__ import annotations

from functools import cache
from operator import attrgetter
from typing import Any, ClassVar

import msgspec


class WithAside(msgspec.Struct, frozen=True, eq=False):
    """The fields that `ASIDE` names, for example texts for messages, do not count when two values
    of a class are compared or hashed. A class needs at least two other fields.
    """

    ASIDE: ClassVar[frozenset[str]] = frozenset()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        compared = _compared(type(self))
        return bool(compared(self) == compared(other))

    def __ne__(self, other: object) -> bool:
        return not self == other  # the one of Struct compares by identity

    def __hash__(self) -> int:
        return hash(_compared(type(self))(self))


@cache
def _compared(kind: type[WithAside]) -> attrgetter[Any]:
    return attrgetter(*(it for it in kind.__struct_fields__ if it not in kind.ASIDE))
