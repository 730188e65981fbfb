"""Free ports outside the range that the kernel uses for outgoing connections.

The rigs stop a server and start it again on the same port. Meanwhile an outgoing connection could
take a port of the kernel's range. A port is handed out some time before its server listens on it,
so each test process hands out ports of a block that no other test process has.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Final

_FIRST: Final = 20000
_LAST: Final = 32000
_BLOCK: Final = 100
# A generator of its own, because pytest-randomly seeds the global one alike for every test.
_random: Final = random.SystemRandom()


def free_ports(count: int) -> tuple[int, ...]:
    """`count` different TCP ports of 127.0.0.1, free at this moment.

    A port is handed out again only after all others of the block. RuntimeError if too few are free.
    """
    found = tuple(islice(filter(_is_free, islice(_own_block(), _BLOCK)), count))
    if len(found) < count:
        raise RuntimeError(f"{count} ports wanted and {len(found)} free in a block of {_BLOCK}")
    return found


@cache
def _own_block() -> Iterator[int]:
    """Endless iterator over the ports of a block that this process owns until it ends."""
    firsts = list(range(_FIRST, _LAST, _BLOCK))
    _random.shuffle(firsts)
    for first in firsts:
        claim = _claim(first)
        if claim is not None:
            return _turns(claim, range(first + 1, first + _BLOCK))
    raise RuntimeError(f"all {len(firsts)} blocks of ports are taken by other test processes")


def _turns(claim: socket.socket, ports: range) -> Iterator[int]:
    with claim:
        while True:
            yield from ports


def _claim(port: int) -> socket.socket | None:
    """The port, bound as a lock on its block; the kernel releases it when this process ends."""
    claim = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        claim.bind(("127.0.0.1", port))
    except OSError:
        claim.close()
        return None
    return claim


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
