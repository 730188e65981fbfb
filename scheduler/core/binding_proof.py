"""Proves that this scheduler has bound a pod, by something that the pod's author cannot write.

`spec.nodeName` and our annotations prove nothing: anybody who creates a pod can set them.
How old a look may be that a bind relies on: `intervals.py` (`FRESH_SECONDS`).
"""

from __future__ import annotations

from scheduler.core.owner_tag import Owner
from scheduler.core.tagged import TaggedJob


def proves_binding(record: TaggedJob, uid: str, *, owner: Owner, node: str) -> bool:
    """Whether a job, live or ended, proves that Slurm gave the pod the Slurm node `node`.

    Our own job proves it if it was submitted while the pod had no Node, because only a Binding can
    have given it one later. Our own job also proves it if Slurm has started it on that very node.
    """
    if record.tag is None or not record.seats(uid, owner=owner):
        return False
    return not record.tag.node or node in record.nodes
