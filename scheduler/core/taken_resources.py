"""Whether other jobs have got what a pod uses, according to the record of its Slurm node."""

from __future__ import annotations

from collections.abc import Iterator

from annotations import JobRequest
from scheduler.core.node_gres import count_of
from slurmapi.model import SlurmNode


def lacks(node: SlurmNode, request: JobRequest) -> str:
    """Which resources of the pod other jobs hold on this node, in words for people; "" if there is
    room.

    Only valid for a pod whose own job holds nothing there, not even while it is COMPLETING.
    """
    return "; ".join(_shortages(node, request))


def _shortages(node: SlurmNode, request: JobRequest) -> Iterator[str]:
    # If nothing is allocated, no other job has taken anything, however small the node is by now.
    free = node.cpus - node.allocated_cpus
    if node.allocated_cpus and free < request.cpus:
        yield f"{free} of {node.cpus} CPUs are free, and the pod uses {request.cpus}"
    memory = node.memory_mib - node.allocated_memory_mib
    if node.allocated_memory_mib and memory < request.memory_mib:
        yield f"{memory} of {node.memory_mib} MiB are free, and the pod uses {request.memory_mib}"
    for entry in (request.gres or "").split(","):
        yield from _gres_shortage(node, entry.strip().removeprefix("gres/"))


def _gres_shortage(node: SlurmNode, entry: str) -> Iterator[str]:
    name, _, count = entry.rpartition(":")
    if not name or not count.isdigit():
        return
    used, there = count_of(node.gres_used, name), count_of(node.gres, name)
    if used and there - used < int(count):  # if none is used, no other job has taken any
        yield f"{max(0, there - used)} of {there} {name} are free, and the pod uses {count}"
