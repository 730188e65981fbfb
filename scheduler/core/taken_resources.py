"""Whether other jobs have got what a pod uses, according to the record of its Slurm node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from annotations import JobRequest
from scheduler.core.job_tres import MEMORY, ROUNDING, amounts_of
from scheduler.core.node_gres import count_of, less
from scheduler.core.tagged import TaggedJob
from slurmapi.model import SlurmNode


def lacks(node: SlurmNode, request: JobRequest) -> str:
    """Which resources of the pod other jobs hold on this node, in words for people; "" if there is
    room.

    Only valid for a pod whose own job holds nothing there, not even while it is COMPLETING.
    """
    return "; ".join(_shortages(node, request))


def without(node: SlurmNode, jobs: Iterable[TaggedJob]) -> SlurmNode:
    """The node's record as it will be once these jobs, which run there, have ended."""
    cpus, memory = float(node.allocated_cpus), float(node.allocated_memory_mib)
    used = node.gres_used
    for job in jobs:
        part = job.part_on(node.name)
        held = amounts_of(part.tres_allocated)
        cpus -= part.cpus_by_node.get(node.name, held.get("cpu", 0.0) / len(part.nodes))
        memory -= held.get(MEMORY, 0.0) * ROUNDING / len(part.nodes)
        used = less(used, part.gres.replace("gres/", ""))
    return replace(
        node,
        allocated_cpus=int(max(0.0, cpus)),
        allocated_memory_mib=int(max(0.0, memory)),
        gres_used=used,
    )


def _shortages(node: SlurmNode, request: JobRequest) -> Iterator[str]:
    # If nothing is allocated, no other job has taken anything, however small the node is by now.
    # What is specialized (CoreSpecCount, MemSpecLimit) no job gets, so it is not free either.
    cpus = node.job_cpus or node.cpus
    free = cpus - node.allocated_cpus
    if node.allocated_cpus and free < request.cpus:
        yield f"{max(0, free)} of {cpus} CPUs are free, and the pod uses {request.cpus}"
    memory = node.job_memory_mib
    left = memory - node.allocated_memory_mib
    if node.allocated_memory_mib and left < request.memory_mib:
        yield f"{max(0, left)} of {memory} MiB are free, and the pod uses {request.memory_mib}"
    for entry in (request.gres or "").split(","):
        yield from _gres_shortage(node, entry.strip().removeprefix("gres/"))


def _gres_shortage(node: SlurmNode, entry: str) -> Iterator[str]:
    name, _, count = entry.rpartition(":")
    if not name or not count.isdigit():
        return
    used, there = count_of(node.gres_used, name), count_of(node.gres, name)
    if used and there - used < int(count):  # if none is used, no other job has taken any
        yield f"{max(0, there - used)} of {there} {name} are free, and the pod uses {count}"
