"""What the `gres` of a Slurm node says: "gpu:h100:8(S:0-1),nic:2"."""

from __future__ import annotations

import re
from typing import Final

_SOCKETS: Final = re.compile(r"\([^)]*\)")
_COUNT: Final = re.compile(r"\d+[A-Za-z]*")
_NO_CONSUME: Final = "no_consume"
# What `slurmapi` lets a job ask for: without a letter it could be meant as a count.
_TYPE: Final = re.compile(r"[\w.-]*[A-Za-z][\w.-]*", re.ASCII)


def types_of(gres: str, *, name: str) -> frozenset[str]:
    """The types that a node has of the gres of that name, as far as jobs can be asked for them;
    empty where it has them without a type.

    An entry is name[:type][:no_consume]:count (slurm.conf(5), Gres), with the sockets behind it.
    """
    found = set()
    for entry in _SOCKETS.sub("", gres).split(","):
        head, *rest = entry.strip().split(":")
        if rest and _COUNT.fullmatch(rest[-1]):
            del rest[-1]
        if head == name and rest and rest[0] != _NO_CONSUME and _TYPE.fullmatch(rest[0]):
            found.add(rest[0])
    return frozenset(found)


def count_of(gres: str, wanted: str) -> int:
    """How many a node has of "gpu" or "gpu:h100", by what `gres` or `gres_used` says of it."""
    found = 0
    for entry in _SOCKETS.sub("", gres).split(","):
        parts = entry.strip().split(":")
        count = parts.pop() if _COUNT.fullmatch(parts[-1]) else "1"
        kind = ":".join(part for part in parts if part != _NO_CONSUME)
        if kind == wanted or kind.startswith(f"{wanted}:"):
            found += int(count) if count.isdigit() else 0
    return found
