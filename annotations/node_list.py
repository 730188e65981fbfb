"""Slurm's hostlist expressions as a person writes them: `a01,b[1-3,07]` to names.

A kilobyte of text can stand for gigabytes of names, and each pod may have two such texts. So they
are kept as they are written, and how much they stand for is counted before a name is made.
"""

import hashlib
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from annotations.value_patterns import joined
from groundwork.hostlist import Host, HostlistError, names_of, read, totals

MOST_NAMES = 4096
"""One pod's list names so many nodes at most; whoever means more means a partition or a feature."""
MOST_BYTES = 64 * 1024
"""Of the names of one list together: what a submit may grow by, and what its expansion costs."""

_HOST = re.compile(r"(?:[A-Za-z0-9]|\[[0-9,-]+\])(?:[A-Za-z0-9._-]|\[[0-9,-]+\])*")
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


def expand(text: str) -> Iterator[str]:
    """All names in order, zeros kept (`n[08-10]`); raises NodeListError, also beyond the bounds."""
    return names_of(_within_bounds(text))


def _within_bounds(text: str) -> list[Host]:
    """The list, read. A person's list is read more narrowly than Slurm's own: its names have only
    the characters of a node's name.
    """
    for entry in _COMMA_OUTSIDE_BRACKETS.split(text):
        if not _HOST.fullmatch(entry):
            raise NodeListError(f"{entry[:_SHOWN]!r} is no node name")
    try:
        hosts = read(text)
    except HostlistError as error:
        raise NodeListError(str(error)) from None
    for names, size in totals(hosts):
        if names > MOST_NAMES:
            raise NodeListError(f"more names than can be sent, which are {MOST_NAMES}")
        if size > MOST_BYTES:
            raise NodeListError(f"more than can be sent: the names exceed {MOST_BYTES} bytes")
    return hosts
