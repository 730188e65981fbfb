"""Sends one job to Slurm, in the form that its possible nodes need.

When a unit gets a job, and what follows: `submit.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from annotations import Sharing
from scheduler.core.actions import Submit
from scheduler.core.naming import Owner
from scheduler.execute.placeholder import Mode, submission
from scheduler.execute.placeholder_mode import Modes
from scheduler.nodes.gpu_sharing import GpuSharing
from scheduler.nodes.layout import Layouts
from scheduler.state.units import Unit
from slurmapi import JobSubmission, SlurmClient, SlurmRefused, Submitted


class Sender:
    """`environment` takes a unit's key and returns the variables with which its job's script finds
    the hooks API.
    """

    def __init__(
        self,
        slurm: SlurmClient,
        *,
        owner: Owner,
        modes: Modes,
        gpu_sharing: GpuSharing,
        layouts: Layouts,
        environment: Callable[[str], Mapping[str, str]],
    ) -> None:
        self._slurm = slurm
        self._owner = owner
        self._modes = modes
        self._gpu_sharing = gpu_sharing
        self._layouts = layouts
        self._environment = environment

    async def send(self, unit: Unit, action: Submit) -> Submitted:
        """Submit one job for the unit. Raises SlurmError."""
        request = action.request
        nodes = action.nodes or request.required_nodes
        choice = await self._modes.choose(request.partition, nodes)
        sharing = await self._gpu_sharing.of(request, nodes=action.nodes)
        if not action.nodes and action.per_node > 1:
            pods = len(action.seats)
            each = await self._layouts.per_node(request, pods, most=action.per_node)
            action = replace(action, per_node=each)
        try:
            return await self._slurm.submit(self._job(unit, action, choice.mode, sharing))
        except SlurmRefused as error:
            if not choice.is_over(error):
                raise
        return await self._slurm.submit(self._job(unit, action, "external", sharing))

    def _job(
        self, unit: Unit, action: Submit, mode: Mode, sharing: Sharing | None
    ) -> JobSubmission:
        return submission(
            action.request,
            owner=self._owner,
            mode=mode,
            namespace=unit.namespace,
            name=unit.name,
            key=unit.key,
            group="" if unit.gang is None else unit.gang.member.group,
            seats=action.seats,
            per_node=action.per_node,
            nodes=action.nodes,
            first=action.first,
            minutes=action.minutes,
            tries=action.tries,
            until=action.until,
            grace_seconds=action.grace_seconds,
            environment=self._environment(unit.key),
            sharing=sharing,
            excluded=tuple(node for node, _ in action.excluded),
        )
