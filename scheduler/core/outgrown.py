"""Pods that were resized (pods/resize) beyond what their job holds.

A pending job is updated as after any edit. A started job cannot grow: before the bind it is
cancelled, and the owner of a running pod gets an Event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from annotations import JobRequest
from scheduler.core.edits import digests
from scheduler.core.facts import PodFacts
from scheduler.core.job_tres import MEMORY, ROUNDING, amounts_of
from scheduler.core.shapes import kinds_of
from scheduler.core.slot_choice import suits
from scheduler.core.tagged import TaggedJob
from slurmapi.model import Job

_RESIZED: Final = ("cpus", "memory_mib")


def outgrown(record: TaggedJob, request: JobRequest) -> str:
    """What each pod requests beyond what its job holds for it; "" if nothing.

    A job that got less than it was submitted with does not count: the tag says what was requested.
    """
    tag = record.tag
    pods = 1 if tag is None else len(tag.ranks) or 1
    if pods > 1 and record.nodes:  # it may have lost nodes, or given them back
        pods = min(pods, len(record.slots))
    cpus = amounts_of(record.tres_allocated).get("cpu")
    grown_by = []
    if cpus is not None and request.cpus * pods > cpus:
        grown_by.append(
            f"{request.cpus} CPUs and its Slurm job {record.job_id} holds {cpus / pods:g}"
        )
    grown_by += _more_memory(record, request.memory_mib, pods=pods, job_id=record.job_id)
    return ", ".join(grown_by) if grown_by and _was_resized(record, request) else ""


def grown_pods(record: TaggedJob, pods: Iterable[PodFacts]) -> Iterator[tuple[PodFacts, str]]:
    """The pods of a heterogeneous job that request more CPUs or memory than their slots have, and
    what is beyond. Kubernetes resizes nothing else of a pod that runs.
    """
    tag = record.tag
    kinds = {} if tag is None else dict(zip(tag.ranks, kinds_of(tag), strict=True))
    rooms = zip(record.parts, record.rooms, strict=False)
    held = {node: (part, sum(room.values())) for part, room in rooms for node in room}
    for pod in pods:
        found, size = held.get(pod.node), pod.size
        if found is None or size is None or suits(size.kind, kinds.get(pod.rank, "")):
            continue
        part, slots = found
        more = []
        if size.cpus > part.cpus_per_task:
            more.append(
                f"{size.cpus} CPUs and its Slurm job {record.job_id} holds {part.cpus_per_task}"
            )
        more += _more_memory(part, size.memory_mib, pods=slots, job_id=record.job_id)
        if more:
            yield pod, ", ".join(more)


def _more_memory(job: Job, memory_mib: int, *, pods: int, job_id: int) -> list[str]:
    """What each of this many pods requests beyond the memory that the job, or component, holds."""
    held = amounts_of(job.tres_allocated).get(MEMORY)
    if held is None or memory_mib * pods <= held * ROUNDING:
        return []
    return [f"{memory_mib} MiB of memory and its Slurm job {job_id} holds {held / pods:.0f} MiB"]


def _was_resized(record: TaggedJob, request: JobRequest) -> bool:
    tag = record.tag
    if tag is None or not tag.asked:
        return False
    now = digests(request)
    return any(tag.asked.get(name) != now.get(name) for name in _RESIZED)
