"""Who else may use the node of a pod with GPUs.

Slurm gives a job devices by index, and the kubelet gives the pod devices of its own choice. On a
node where only pods run that does no harm; beside a native job both might use the same GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from annotations import JobRequest, Sharing
from scheduler.nodes.node_kinds import NodeKinds

Setting = Literal["user", "node", "shared"]

_SHARING: Final[Mapping[Setting, Sharing]] = {"user": Sharing.USER, "node": Sharing.NONE}


class GpuSharing:
    """What `--gpu-node-sharing` says, for nodes with a slurmd: native jobs run there."""

    def __init__(self, setting: Setting, *, kinds: NodeKinds) -> None:
        self._sharing = _SHARING.get(setting)
        self._kinds = kinds

    async def of(self, request: JobRequest, *, node: str = "") -> Sharing | None:
        """What the job asks for; an annotation of the pod wins, `"false"` too. Raises SlurmError
        where Slurm must be asked about its nodes first, and does not answer.
        """
        if "exclusive" in request.keys or not request.gpus or self._sharing is None:
            return request.exclusive
        nodes = (node,) if node else request.required_nodes
        kinds = await self._kinds.of(request.partition, nodes)
        return self._sharing if kinds.with_slurmd else request.exclusive
