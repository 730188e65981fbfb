"""The shapes of a gang's pods: those that ask for the same CPUs, memory and devices are alike.

Pods of several shapes share one heterogeneous job, with a component for each shape. A component has
slots of one size, which is named by its `kind` in the owner tag. `facts/gang_facts.py` reads the
sizes, `seating.py` gives each pod a slot of its own kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import msgspec
from msgspec.structs import replace

from annotations import JobRequest, Problem
from scheduler.core.edits import digests
from scheduler.core.owner_tag import OwnerTag
from scheduler.core.slot_choice import Seat

MOST_SHAPES: Final = 8
"""Each shape is a component, which is a job of its own for Slurm. Slurm allows 128 of them."""
_FIELDS: Final = ("cpus", "memory_mib", "gres")
_SIZES: Final = (*_FIELDS, "gpus")
_JOINT: Final = "."


class Size(msgspec.Struct, frozen=True):
    """What a pod takes of a node; `gres` as in JobRequest."""

    cpus: int
    memory_mib: int
    gpus: int = 0
    gres: str | None = None

    @classmethod
    def of(cls, request: JobRequest) -> Size:
        """The size that is asked for."""
        return cls(request.cpus, request.memory_mib, request.gpus, request.gres)

    def applied(self, request: JobRequest) -> JobRequest:
        """The same request for a pod of this size."""
        if Size.of(request) == self:
            return request
        return replace(
            request,
            cpus=self.cpus,
            memory_mib=self.memory_mib,
            gpus=self.gpus,
            gres=self.gres,
        )

    @property
    def kind(self) -> str:
        """A short digest of the size, which stands in owner tags."""
        return _kind(self)

    def __str__(self) -> str:
        parts = (f"{self.cpus} CPUs", f"{self.memory_mib} MiB", self.gres or "")
        return ", ".join(filter(None, parts))


@dataclass(frozen=True, slots=True)
class PodShape:
    """The seats of pods of one size, in the order of their ranks. `nodes` are those on which these
    pods already run, with at most `per_node` on each. `excluded` are nodes that the component must
    not get, with reasons.
    """

    size: Size
    seats: tuple[Seat, ...]
    nodes: tuple[str, ...] = ()
    per_node: int = 1
    excluded: tuple[tuple[str, str], ...] = ()


def shapes_of(seats: Sequence[Seat], sizes: Mapping[int, Size]) -> tuple[PodShape, ...]:
    """The seats by size, the one with the lowest rank first. `sizes` are by rank. A pod that is
    still to come is taken to be like the pod of the next lower rank, or else like that of the next
    higher rank.
    """
    found: dict[Size, list[Seat]] = {}
    last = next((sizes[it.rank] for it in seats if it.rank in sizes), None)
    for seat in seats:
        last = sizes.get(seat.rank, last)
        if last is not None:
            found.setdefault(last, []).append(seat)
    return tuple(PodShape(size, tuple(of_it)) for size, of_it in found.items())


@dataclass(frozen=True, slots=True)
class Expected:
    """The size that a template gives to this many pods, whose ranks follow each other. `size` is
    None if it is not known; then `why` is the reason.
    """

    pods: int
    size: Size | None
    why: str = ""


def with_expected(sizes: Mapping[int, Size], templates: Iterable[Expected]) -> dict[int, Size]:
    """The sizes by rank, with those of pods that do not exist yet. A pod that exists shows what
    becomes of its template: defaults and webhooks change all pods alike.
    """
    found = dict(sizes)
    for template, ranks in _with_ranks(templates):
        size = next((sizes[rank] for rank in ranks if rank in sizes), template.size)
        if size is not None:
            found |= {rank: size for rank in ranks if rank not in sizes}
    return found


def unexpected(sizes: Mapping[int, Size], templates: Iterable[Expected]) -> tuple[str, ...]:
    """Why the size of pods that do not exist yet is unknown: no pod of their template shows it."""
    return tuple(
        template.why
        for template, ranks in _with_ranks(templates)
        if template.why and not any(rank in sizes for rank in ranks)
    )


def _with_ranks(templates: Iterable[Expected]) -> Iterator[tuple[Expected, range]]:
    """Each template with the ranks of its pods."""
    first = 0
    for template in templates:
        yield template, range(first, first + template.pods)
        first += template.pods


def kinds_of(tag: OwnerTag) -> tuple[str, ...]:
    """The kind of each slot of the job. "" if it is not known: a tag of an older version."""
    if tag.parts:
        return tuple(part.kind for part in tag.parts for _ in range(part.slots))
    kind = _joint_text(tag.asked) if tag.asked else ""
    return (kind,) * len(tag.ranks)


def accepted_by(tag: OwnerTag, request: JobRequest | tuple[Problem, ...]) -> Mapping[str, str]:
    """The digests of the request that the job was submitted with. The pods of a heterogeneous job
    may have any of its sizes.
    """
    if not isinstance(request, JobRequest) or Size.of(request).kind not in kinds_of(tag):
        return tag.asked
    now = digests(request)
    kept = {name: digest for name, digest in tag.asked.items() if name not in _SIZES}
    return kept | {name: now[name] for name in _SIZES if name in now}


@lru_cache(maxsize=512)
def _kind(size: Size) -> str:
    return _joint_text(
        digests(JobRequest(cpus=size.cpus, memory_mib=size.memory_mib, gres=size.gres))
    )


def _joint_text(asked: Mapping[str, str]) -> str:
    return _JOINT.join(asked.get(name, "") for name in _FIELDS)
