"""Decides who else may use the node of a pod with GPUs.

Slurm allocates devices to a job by index, but the kubelet chooses the pod's devices itself. If only
pods run on a node, that does no harm. Beside a native Slurm job, both might use the same GPU. How a
pod's Node is handed over to the next one is decided elsewhere: `core/in_the_way.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from annotations import JobRequest, Sharing
from annotations.pod_gres import asks_for_gpus
from scheduler.nodes.node_kinds import NodeKinds

SharingSetting = Literal["user", "node", "shared"]

_SHARING: Final[Mapping[SharingSetting, Sharing]] = {"user": Sharing.USER, "node": Sharing.NONE}


class GpuSharing:
    """Applies `--gpu-node-sharing` to nodes with a slurmd, where native jobs may run."""

    def __init__(self, setting: SharingSetting, *, kinds: NodeKinds) -> None:
        self._sharing = _SHARING.get(setting)
        self._kinds = kinds

    async def of(self, request: JobRequest, *, nodes: tuple[str, ...] = ()) -> Sharing | None:
        """The sharing that the job requests. An annotation of the pod wins, even `"false"`. `nodes`
        are those to which the job is pinned. Raises SlurmError if Slurm must be asked about its
        nodes first and does not answer.
        """
        if "exclusive" in request.keys or self._sharing is None:
            return request.exclusive
        if not request.gpus and not asks_for_gpus(request.gres):
            return request.exclusive
        kinds = await self._kinds.of(request.partition, nodes or request.required_nodes)
        return self._sharing if kinds.with_slurmd else request.exclusive
