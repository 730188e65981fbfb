"""Host ports of pods: which of them exclude each other, by kube-scheduler's rules.

`nodes/fit.py` asks before a submit and before a bind.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

_ANY: Final = "0.0.0.0"  # noqa: S104 - a value that pods have, nothing listens here


class HostPort(NamedTuple):
    """A port of the Node; the default address means all addresses."""

    port: int
    protocol: str = "TCP"
    address: str = _ANY

    def __str__(self) -> str:
        at = "" if self.address == _ANY else f" of {self.address}"
        return f"{self.port}/{self.protocol}{at}"

    def excludes(self, other: HostPort) -> bool:
        """Whether two pods on one Node cannot have these two ports."""
        if (self.port, self.protocol) != (other.port, other.protocol):
            return False
        return self.address == other.address or _ANY in {self.address, other.address}


def host_port(port: int, protocol: str, address: str) -> HostPort:
    """The port as the API writes it; empty values get their defaults."""
    return HostPort(port, protocol or "TCP", address or _ANY)


def taken(wanted: Collection[HostPort], used: Collection[HostPort]) -> HostPort | None:
    """The first wanted port that a used one excludes; None if none is. Both lists may be long."""
    numbers = {(it.port, it.protocol) for it in wanted}
    rivals = [it for it in used if (it.port, it.protocol) in numbers]
    return next((it for it in wanted if any(it.excludes(other) for other in rivals)), None)
