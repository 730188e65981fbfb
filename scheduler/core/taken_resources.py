"""Whether what a pod runs on has been given to other jobs, by the record of its Slurm node."""

from __future__ import annotations

from collections.abc import Iterator

from annotations import JobRequest
from scheduler.core.gres import count_of
from slurmapi.model import SlurmNode


def lacks(node: SlurmNode, request: JobRequest) -> str:
    """What others hold of the node that the pod needs, for people; empty where there is room.

    Only for a pod whose own job holds nothing there, not even while it is COMPLETING.
    """
    return "; ".join(_shortages(node, request))


def _shortages(node: SlurmNode, request: JobRequest) -> Iterator[str]:
    free = node.cpus - node.allocated_cpus
    if node.allocated_cpus and free < request.cpus:
        yield f"{free} of {node.cpus} CPUs are free, and the pod has {request.cpus}"
    memory = node.memory_mib - node.allocated_memory_mib
    if node.allocated_memory_mib and memory < request.memory_mib:
        yield f"{memory} of {node.memory_mib} MiB are free, and the pod has {request.memory_mib}"
    for entry in (request.gres or "").split(","):
        yield from _missing(node, entry.strip().removeprefix("gres/"))


def _missing(node: SlurmNode, entry: str) -> Iterator[str]:
    name, _, count = entry.rpartition(":")
    if not name or not count.isdigit():
        return
    used, there = count_of(node.gres_used, name), count_of(node.gres, name)
    if used and there - used < int(count):
        yield f"{max(0, there - used)} of {there} {name} are free, and the pod has {count}"
