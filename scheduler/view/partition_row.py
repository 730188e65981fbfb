"""What a namespace may ask for, partition by partition: the answer of the scheduler's page.

`page/partitions.py` makes it from both servers, `partitions_of_pods.py` from pods alone, and
`partition_table.py` prints it. In JSON the fields are named in Kubernetes' manner.
docs/partitions.md describes them.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

MOST_ROWS: Final = 100
"""How many partitions one answer has; `continue` names the last one, to go on behind it."""
LONGEST_ANSWER: Final = 2 * 1024 * 1024
"""In bytes. The bounds of its parts keep it below."""
MOST_SAID: Final = 12
"""How many `limits`, and how many `notes`, a row or an answer has."""
MOST_KINDS: Final = 8
LONGEST_TEXT: Final = 256
"""Of a name or a sentence, in bytes."""

_Amount = Annotated[int, Meta(ge=0, lt=2**53)]


class SizeTold(msgspec.Struct, frozen=True, rename="camel"):
    """CPUs, memory and GPUs on one node. GPUs without a type in Slurm are under ""."""

    cpus: _Amount
    memory_mib: _Amount = msgspec.field(name="memoryMiB")
    gpus: dict[str, _Amount] = {}


class GpuCount(msgspec.Struct, frozen=True, rename="camel"):
    """GPUs of one type: those that a pod could have now, and all."""

    free: _Amount
    total: _Amount


class NodeKind(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Nodes that are alike. `shape` is what the largest pod there could have. `idle` nodes have no
    job: on each, a pod could now have `room`. A gang with a pod on each node could have `gang` of
    them.
    """

    shape: SizeTold
    nodes: _Amount
    usable: _Amount
    idle: _Amount
    gang: _Amount
    room: SizeTold | None = None


class PartitionRow(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One partition. None and "" stand for what is not known or not limited: `time_limited` tells
    these apart for time, which is in seconds.

    `allowed` says whether the policy lets pods of the namespace ask for it, and `default` whether
    they get it without asking. `usable` nodes start pods, if not now. `now` are the largest pods
    that there is room for: the one with the most GPUs, and the one with the most CPUs if it has
    more.
    """

    name: str
    state: str = ""
    default: bool | None = None
    allowed: bool | None = None
    time_limited: bool | None = None
    max_seconds: int | None = None
    default_seconds: int | None = None
    max_nodes: int | None = None
    nodes: int | None = None
    usable: int | None = None
    gpus: dict[str, GpuCount] = {}
    kinds: tuple[NodeKind, ...] = ()
    now: tuple[SizeTold, ...] = ()
    limits: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def gang(self) -> NodeKind | None:
        """The idle nodes for the gang with the most GPUs, or without GPUs with the most CPUs."""
        return max(
            (it for it in self.kinds if it.gang and it.room is not None),
            key=lambda it: (it.gang * _gpu_count(it.room), it.gang * _cpus(it.room)),
            default=None,
        )


class PartitionsTold(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Partitions, sorted by name. `source` is "scheduler" or "pods". `age_seconds` is how old
    Slurm's list of nodes is. `limits` are those of the namespace's policy, and `notes` say what is
    not known.
    """

    namespace: str
    source: str
    items: tuple[PartitionRow, ...] = ()
    age_seconds: float | None = None
    limits: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    continue_: str = msgspec.field(name="continue", default="")


def _gpu_count(shape: SizeTold | None) -> int:
    return 0 if shape is None else sum(shape.gpus.values())


def _cpus(shape: SizeTold | None) -> int:
    return 0 if shape is None else shape.cpus
