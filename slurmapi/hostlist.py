"""Expands the hostlist expressions in Slurm's answers to host names, within limits."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from groundwork.hostlist import Host, HostlistError, names_of, read_hosts, totals

MAX_HOSTS: Final = 100_000
MAX_BYTES: Final = 4 * 1000 * 1000
"""Limit for all names together: MAX_HOSTS names of 40 bytes."""
_SHOWN: Final = 80


@dataclass(frozen=True, slots=True)
class Hosts(Collection[str]):
    """The hosts of an expression. Only its text is kept, and it is expanded at each iteration.
    Raises HostlistError in the same cases as `expand`.
    """

    text: str

    def __post_init__(self) -> None:
        _within_bounds(self.text)

    @property
    def names(self) -> tuple[str, ...]:
        """All names, in order. `tuple(hosts)` is the same, but expands twice: once for `len`."""
        return expand(self.text)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.names


def expand(text: str) -> tuple[str, ...]:
    """All names in `text`, in order. Raises HostlistError if the expression is malformed or stands
    for more than MAX_HOSTS names or MAX_BYTES; it is counted before any name is made.
    """
    return tuple(names_of(_within_bounds(text)))


def _within_bounds(text: str) -> list[Host]:
    try:
        hosts = read_hosts(text) if text else []
    except HostlistError as error:
        raise HostlistError(f"hostlist {_quoted(text)}: {error}") from None
    for names, size in totals(hosts):
        if names > MAX_HOSTS:
            raise HostlistError(f"hostlist {_quoted(text)} names more than {MAX_HOSTS} hosts")
        if size > MAX_BYTES:
            raise HostlistError(f"hostlist {_quoted(text)}: its names exceed {MAX_BYTES} bytes")
    return hosts


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "...")
