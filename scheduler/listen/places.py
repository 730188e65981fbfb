"""Who may hold a connection: there are few places, and nobody can take those of everybody else.

A connection belongs to a *stranger* until its caller has shown a token. Strangers have places of
their own, and one address has at most half of them. When all places are taken, a newcomer gets the
place of a stranger that has had time to send its request, or whose address holds more places. So a
flood takes places from its own address, and an honest caller who shares that address (NAT) is
served a little later instead of being banned.
"""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Protocol

# A stranger keeps its place at least this long, unless its address holds more places than the
# newcomer's. A handshake and the head of a request take milliseconds, even in a burst of honest
# callers.
STRANGER_KEPT_SECONDS: Final = 0.25
# The owner of one IPv6 address usually controls its whole /64 network.
_IPV6_BITS: Final = 64
_REMEMBERED_ADDRESSES: Final = 4096


class Guest(Protocol):
    """A connection: where it comes from, and how to close it."""

    @property
    def address(self) -> str:
        """The address that its places are counted for (see `block_of`)."""
        ...

    def cut(self) -> None:
        """Close it at once."""
        ...


@dataclass(frozen=True, slots=True)
class Capacity:
    """How many connections there may be at a time, and how many of those may be strangers'."""

    connections: int
    strangers: int

    @property
    def share(self) -> int:
        """How many of the strangers' places one address may have."""
        return max(1, self.strangers // 2)

    def within(self, descriptors: int) -> Capacity:
        """This capacity, reduced to what so many file descriptors allow. Each listener gets a
        quarter of them, so our three listeners leave a quarter for everything else.
        """
        most = max(2, descriptors // 4)
        return Capacity(min(self.connections, most), min(self.strangers, max(1, most // 2)))


class ConnectionPlaces:
    """The places of one listener. A guest that is cut calls `leave` itself, before `cut`
    returns.
    """

    def __init__(self, capacity: Capacity, *, clock: Callable[[], float]) -> None:
        self._capacity = capacity
        self._clock = clock
        # By address: its strangers and when they came, oldest first.
        self._strangers: defaultdict[str, dict[Guest, float]] = defaultdict(dict)
        self._count = 0
        self._known: set[Guest] = set()
        self.refused = 0

    def __len__(self) -> int:
        return self._count + len(self._known)

    def enter(self, guest: Guest) -> bool:
        """Give it a place, if necessary that of another stranger. Returns False if it gets none."""
        if not self._has_room(guest.address) and not self._make_room(guest.address):
            self.refused += 1
            return False
        self._strangers[guest.address][guest] = self._clock()
        self._count += 1
        return True

    def know(self, guest: Guest) -> None:
        """Its caller has shown a token, so it no longer counts as a stranger."""
        if self._forget_stranger(guest):
            self._known.add(guest)

    def leave(self, guest: Guest) -> None:
        """The connection has ended."""
        self._forget_stranger(guest)
        self._known.discard(guest)

    def _has_room(self, address: str) -> bool:
        return (
            len(self) < self._capacity.connections
            and self._count < self._capacity.strangers
            and len(self._strangers.get(address, ())) < self._capacity.share
        )

    def _make_room(self, address: str) -> bool:
        own = self._strangers.get(address, {})
        if len(own) >= self._capacity.share:
            return self._take_from(own, by_force=False)
        if not self._strangers:
            return False
        largest = max(self._strangers.values(), key=len)
        return self._take_from(largest, by_force=len(largest) > len(own) + 1)

    def _take_from(self, strangers: dict[Guest, float], *, by_force: bool) -> bool:
        oldest, since = next(iter(strangers.items()))
        if not by_force and self._clock() - since < STRANGER_KEPT_SECONDS:
            return False
        self._forget_stranger(oldest)
        oldest.cut()
        return True

    def _forget_stranger(self, guest: Guest) -> bool:
        strangers = self._strangers.get(guest.address, {})
        if strangers.pop(guest, None) is None:
            return False
        self._count -= 1
        if not strangers:
            del self._strangers[guest.address]
        return True


@lru_cache(_REMEMBERED_ADDRESSES)
def block_of(host: str) -> str:
    """The address under which a caller's connections are counted: its IPv4 address, or the /64
    network of its IPv6 address.
    """
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, _IPV6_BITS), strict=False))
