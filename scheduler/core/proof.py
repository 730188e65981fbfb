"""Whether this scheduler has bound a pod, by what the pod's author cannot write.

`spec.nodeName` and our annotations prove nothing: anybody who creates a pod may set them.
"""

from __future__ import annotations

from scheduler.core.naming import Owner, read_tag, stands_for
from slurmapi.model import Job


def proves_binding(record: Job, uid: str, *, owner: Owner, node: str) -> bool:
    """Whether a job, live or ended, shows that the pod got `node`, a Slurm node, from Slurm.

    Our own job shows it that was asked for while the pod had no Node, since only a binding can have
    given it one later, and so does a job that Slurm has started on that very node.
    """
    tag = read_tag(record.admin_comment)
    if tag is None or not stands_for(record.admin_comment, uid, owner=owner):
        return False
    return not tag.node or node in record.nodes
