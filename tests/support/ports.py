"""Ports nobody listens on, outside the range from which the kernel serves outgoing connections.

A server of a rig is stopped and started again on its port; a port of the kernel's own range could
be taken by any connection meanwhile.
"""

from __future__ import annotations

import random
import socket
from typing import Final

_FIRST: Final = 20000
_LAST: Final = 32000
# Not the global generator: pytest-randomly gives every test the same seed, and with it two rigs
# would be handed the same ports.
_random: Final = random.SystemRandom()


def free_ports(count: int) -> tuple[int, ...]:
    """`count` different TCP ports of 127.0.0.1, free at this moment."""
    found: set[int] = set()
    while len(found) < count:
        candidate = _random.randrange(_FIRST, _LAST)
        if candidate not in found and _is_free(candidate):
            found.add(candidate)
    return tuple(found)


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
