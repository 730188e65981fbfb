"""Reads the `gres` of a Slurm node, such as "gpu:h100:8(S:0-1),nic:2".

What a pod asks for is in `annotations/pod_gres.py`, and which type of GPU it requires in
`annotations/gpu_type.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_SOCKETS: Final = re.compile(r"\([^)]*\)")
_COUNT: Final = re.compile(r"\d+[A-Za-z]*")
_NO_CONSUME: Final = "no_consume"
# The types that `slurmapi` lets a job ask for. Without a letter, a type could be read as a count.
_TYPE: Final = re.compile(r"[\w.-]*[A-Za-z][\w.-]*", re.ASCII)


def types_of(gres: str, *, name: str) -> frozenset[str]:
    """The types that a node has of the gres of this name, if jobs can ask for them. Empty if the
    node's gres has no type.

    An entry is name[:type][:no_consume]:count (slurm.conf(5), Gres), followed by the sockets.
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
    """How many of "gpu" or "gpu:h100" a node has, according to its `gres` or `gres_used`."""
    return sum(
        count for kind, count in _counts(gres) if kind == wanted or kind.startswith(f"{wanted}:")
    )


def counts_of(gres: str, *, name: str) -> dict[str, int]:
    """How many a node has of each type of the gres of this name, according to its `gres` or
    `gres_used`. Those without a type are under "".
    """
    found: dict[str, int] = {}
    for kind, count in _counts(gres):
        head, _, of_type = kind.partition(":")
        if head == name:
            found[of_type] = found.get(of_type, 0) + count
    return found


def less(gres_used: str, freed: str) -> str:
    """What is used on a node after a job has ended that had this much there. If the job did not ask
    for a type, it had some of any type.
    """
    left = []
    for kind, count in _counts(gres_used):
        name = kind.partition(":")[0]
        gone = count_of(freed, kind) or counts_of(freed, name=name).get("", 0)
        left.append(f"{kind}:{max(0, count - gone)}")
    return ",".join(left)


def _counts(gres: str) -> Iterator[tuple[str, int]]:
    """Each entry as its name, with the type if it has one, and its count."""
    for entry in _SOCKETS.sub("", gres).split(","):
        parts = entry.strip().split(":")
        count = parts.pop() if _COUNT.fullmatch(parts[-1]) else "1"
        kind = ":".join(part for part in parts if part != _NO_CONSUME)
        yield kind, int(count) if count.isdigit() else 0
