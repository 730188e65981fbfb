"""Slurm's hostlist expressions as people write them: expands `a01,b[1-3,07]` to names.

A kilobyte of text can stand for gigabytes of names, and each pod may have two such texts. So only
the text is kept, and the names are counted before any is made.
"""

import hashlib
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from annotations.value_patterns import comma_list
from groundwork.hostlist import Host, HostlistError, names_of, read_hosts, totals

MOST_NAMES = 4096
"""The most nodes that one pod's list may name. For more, a partition or a feature is the better
way.
"""
MOST_NAMES_BYTES = 64 * 1024
"""The most bytes that the names of one list may have together, because a submit contains all of
them and each use expands them.
"""

_HOST = re.compile(r"(?:[A-Za-z0-9]|\[[0-9,-]+\])(?:[A-Za-z0-9._-]|\[[0-9,-]+\])*")
_RANGES = r"\[[0-9]{1,18}(?:-[0-9]{1,18})?(?:,[0-9]{1,18}(?:-[0-9]{1,18})?)*\]"
# Matches all that `node_names` accepts. It can check neither lengths nor ranges that run backwards.
NODE_LIST_PATTERN = comma_list(rf"(?:[A-Za-z0-9]|{_RANGES})(?:[A-Za-z0-9._-]|{_RANGES})*")
_COMMA_OUTSIDE_BRACKETS = re.compile(r",(?![^\[\]]*\])")
_SHOWN = 60


class NodeListError(ValueError):
    """The list is malformed or too long; the text says why."""


@dataclass(frozen=True, slots=True, repr=False)
class NodeNames(Collection[str]):
    """The names of a list, each once and in order. Only the text is kept, and it is expanded at
    each iteration. Two lists with the same names are equal, however they are written. Raises
    NodeListError for a malformed or oversized list.
    """

    text: str = field(compare=False)
    _digest: bytes = field(init=False)

    def __post_init__(self) -> None:
        digest = hashlib.blake2s(",".join(self).encode(), digest_size=16).digest()
        object.__setattr__(self, "_digest", digest)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(node_names(self.text)))

    def __len__(self) -> int:
        return len(dict.fromkeys(node_names(self.text)))

    def __contains__(self, name: object) -> bool:
        return name in tuple(self)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return repr(self.text)


def node_names(text: str) -> Iterator[str]:
    """All names in order, with their zeros (`n[08-10]`). Raises NodeListError, also for too many
    names.
    """
    return names_of(_within_bounds(text))


def _within_bounds(text: str) -> list[Host]:
    """The parsed list. It may contain only the characters that a node's name can have, although
    Slurm's own hostlists may contain others.
    """
    for entry in _COMMA_OUTSIDE_BRACKETS.split(text):
        if not _HOST.fullmatch(entry):
            raise NodeListError(f"{entry[:_SHOWN]!r} is no node name")
    try:
        hosts = read_hosts(text)
    except HostlistError as error:
        raise NodeListError(str(error)) from None
    for names, size in totals(hosts):
        if names > MOST_NAMES:
            raise NodeListError(f"more names than can be sent, which are {MOST_NAMES}")
        if size > MOST_NAMES_BYTES:
            raise NodeListError(f"more than can be sent: the names exceed {MOST_NAMES_BYTES} bytes")
    return hosts
