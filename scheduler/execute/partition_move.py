"""Checks whether a job still has the right form, sharing of its node and number of pods on each.
They are chosen at submit, by the nodes that the job may get, and no update can change them.
"""

from __future__ import annotations

from msgspec.structs import replace

from annotations import JobRequest
from scheduler.core.edits import called
from scheduler.core.tagged import TaggedJob
from scheduler.execute.placeholder_mode import Modes
from scheduler.nodes.gpu_sharing import GpuSharing
from scheduler.nodes.node_kinds import NodeKinds


class PartitionMove:
    """Checks whether a pending job still suits its pod when the pod is moved to another
    partition. A node gets `per_node` pods of a gang at most, if the pods do not say otherwise.
    """

    def __init__(
        self, modes: Modes, gpu_sharing: GpuSharing, *, kinds: NodeKinds, per_node: int
    ) -> None:
        self._modes = modes
        self._gpu_sharing = gpu_sharing
        self._kinds = kinds
        self._per_node = per_node

    async def unfit(self, record: TaggedJob, request: JobRequest) -> str:
        """Why the job cannot be moved to the request's partition; "" if it can, or if we do not
        know the partition (then Slurm's answer to the update decides). Raises SlurmError if Slurm
        must be asked first and does not answer.
        """
        if not await self._kinds.knows(request.partition or ""):
            return ""
        former = replace(request, partition=record.partition)
        moved = f"{called('partition', request)} was edited, and on the nodes of the new partition"
        follows = "a new one follows, at the end of the queue"
        here = await self._modes.choose(former.partition, former.required_nodes)
        there = await self._modes.choose(request.partition, request.required_nodes)
        if there.mode != here.mode:
            return f"{moved} another form of job is needed ({there.why}): {follows}"
        if _is_laid_out(record, request.pods_per_node or self._per_node):
            return f"{moved} another number of its pods may go on each: {follows}"
        sharing = await self._gpu_sharing.of(request)
        if sharing is not None and sharing != await self._gpu_sharing.of(former):
            return f"{moved} another rule says who shares the node (--gpu-node-sharing): {follows}"
        return ""


def _is_laid_out(record: TaggedJob, most: int) -> bool:
    """Whether the sizes of the nodes decide how many pods of a gang go on each (`layout.py`)."""
    tag = record.tag
    if tag is None or len(tag.ranks) < 2:
        return False
    return most > 1 or {tag.per_node, *(it.per_node for it in tag.parts)} != {1}
