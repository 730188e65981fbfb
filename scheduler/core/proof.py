"""Whether this scheduler has bound a pod, by what the pod's author cannot write.

`spec.nodeName` and our annotations prove nothing: anybody who creates a pod may set them.
"""

from __future__ import annotations

from scheduler.core.naming import Owner
from scheduler.core.tagged import TaggedJob


def proves_binding(record: TaggedJob, uid: str, *, owner: Owner, node: str) -> bool:
    """Whether a job, live or ended, shows that the pod got `node`, a Slurm node, from Slurm.

    Our own job shows it that was asked for while the pod had no Node, since only a binding can have
    given it one later, and so does a job that Slurm has started on that very node.
    """
    if record.tag is None or not record.stands_for(uid, owner=owner):
        return False
    return not record.tag.node or node in record.nodes
