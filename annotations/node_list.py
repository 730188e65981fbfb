"""Slurm's hostlist expressions as people write them: expands `a01,b[1-3,07]` to names.

A kilobyte of text can stand for gigabytes of names, and each pod may have two such texts. So a pod
keeps only the text, and the names are counted before any is made.
"""

import hashlib
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from annotations.value_patterns import comma_list
from groundwork.hostlist import Host, HostlistError, names_of, read_hosts, totals

MOST_NAMES = 4096
"""The most nodes that one pod's list may name. For more, a partition or a feature is the better
way.
"""
MOST_NAMES_BYTES = 64 * 1024
"""The most bytes that the names of one list may have together, because a submit contains all of
them and each use may expand them.
"""

_HOST = re.compile(r"(?:[A-Za-z0-9]|\[[0-9,-]+\])(?:[A-Za-z0-9._-]|\[[0-9,-]+\])*")
_RANGES = r"\[[0-9]{1,18}(?:-[0-9]{1,18})?(?:,[0-9]{1,18}(?:-[0-9]{1,18})?)*\]"
# Matches all that `node_names` accepts. It can check neither lengths nor ranges that run backwards.
NODE_LIST_PATTERN = comma_list(rf"(?:[A-Za-z0-9]|{_RANGES})(?:[A-Za-z0-9._-]|{_RANGES})*")
_COMMA_OUTSIDE_BRACKETS = re.compile(r",(?![^\[\]]*\])")
_SHOWN = 60
# How many lists are kept expanded: the pods of one template have the same, and to expand one of
# MOST_NAMES takes 2 to 4 ms. Each takes up to 0.4 MB.
_EXPANDED = 16


class NodeListError(ValueError):
    """The list is malformed or too long; the text says why."""


@dataclass(frozen=True, slots=True, repr=False)
class NodeNames(Collection[str]):
    """The names of a list, each once and in order. Only the text is kept, and those of a few lists
    that were used last. Two lists with the same names are equal, however they are written. Raises
    NodeListError for a malformed or oversized list.
    """

    text: str = field(compare=False)
    _digest: bytes = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_digest", _expanded(self.text)[1])

    def __iter__(self) -> Iterator[str]:
        return iter(_expanded(self.text)[0])

    def __len__(self) -> int:
        return len(_expanded(self.text)[0])

    def __contains__(self, name: object) -> bool:
        return name in _expanded(self.text)[0]

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return repr(self.text)


@lru_cache(maxsize=_EXPANDED)
def _expanded(text: str) -> tuple[tuple[str, ...], bytes]:
    """The names of a list, each once and in order, and a digest of them."""
    names = tuple(dict.fromkeys(node_names(text)))
    return names, hashlib.blake2s(",".join(names).encode(), digest_size=16).digest()


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
