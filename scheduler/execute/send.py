"""Sends one job to Slurm, in the form that its possible nodes need.

When a unit gets a job, and what follows: `submit.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from annotations import Sharing
from scheduler.core.actions import Submit
from scheduler.core.owner_tag import PACKED, Owner, TagPart
from scheduler.core.packing import MOST_PARTS, Packed, Part
from scheduler.core.shapes import PodShape, Size
from scheduler.execute.placeholder import Mode, component, submission
from scheduler.execute.placeholder_mode import Modes
from scheduler.nodes.gpu_sharing import GpuSharing
from scheduler.nodes.layout import Layouts
from scheduler.state.units import Unit
from slurmapi import JobSubmission, SlurmClient, SlurmRefused, Submitted


@dataclass(frozen=True, slots=True)
class _Part:
    """A component: pods of this shape, and how the owner tag tells it."""

    shape: PodShape
    tag: TagPart


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
        plain = not action.shapes and (action.nodes or action.per_node == 1)
        parts = [] if plain else await self._parts(unit, action)
        try:
            return await self._submit(unit, action, choice.mode, parts, sharing)
        except SlurmRefused as error:
            if not choice.is_over(error):
                raise
        return await self._submit(unit, action, "external", parts, sharing)

    async def _parts(self, unit: Unit, action: Submit) -> list[_Part]:
        """The components of the job, in the order of its slots; one for a plain job."""
        alike = PodShape(Size.of(action.request), action.seats, action.nodes, action.per_node)
        shapes = action.shapes or (alike,)
        found = [it for shape in shapes for it in await self._dealt(unit, action, shape)]
        if len(found) <= MOST_PARTS or action.nodes:
            return found
        return [_Part(it, TagPart(len(it.seats), 1, it.size.kind)) for it in shapes]

    async def _dealt(self, unit: Unit, action: Submit, shape: PodShape) -> list[_Part]:
        """The components for one shape."""
        pods, kind = len(shape.seats), shape.size.kind
        if action.nodes:
            return [_Part(shape, TagPart(pods, shape.per_node, kind))]
        request = shape.size.applied(action.request)
        excluded = shape.excluded if action.shapes else action.excluded
        parts = await self._layouts.parts(
            request,
            pods,
            most=action.per_node,
            may_pack=unit.asked.may_pack,
            sharing=await self._gpu_sharing.of(request),
            avoided=[node for node, _ in excluded],
        )
        return [_Part(shape, _tagged(it, kind)) for it in parts]

    async def _submit(
        self,
        unit: Unit,
        action: Submit,
        mode: Mode,
        parts: list[_Part],
        sharing: Sharing | None,
    ) -> Submitted:
        if not parts:
            return await self._slurm.submit(self._job(unit, action, mode, sharing, ()))
        first, *others = parts
        one = replace(action, per_node=first.tag.per_node)
        if action.shapes:
            seats = tuple(seat for shape in action.shapes for seat in shape.seats)
            one = replace(one, seats=seats, excluded=first.shape.excluded)
        job = self._job(unit, one, mode, sharing, tuple(it.tag for it in parts) if others else ())
        if first.shape.nodes:
            job = replace(job, required_nodes=first.shape.nodes)
        if not others:
            return await self._slurm.submit(job)
        more = [await self._component(job, action, it) for it in others]
        return await self._slurm.submit(job, others=more)

    async def _component(self, first: JobSubmission, action: Submit, part: _Part) -> JobSubmission:
        shape = part.shape
        request = shape.size.applied(action.request)
        avoided = shape.excluded if action.shapes else action.excluded
        return component(
            first,
            request,
            part=part.tag,
            nodes=shape.nodes,
            excluded=tuple(node for node, _ in avoided),
            sharing=await self._gpu_sharing.of(request, nodes=shape.nodes),
        )

    def _job(
        self,
        unit: Unit,
        action: Submit,
        mode: Mode,
        sharing: Sharing | None,
        parts: tuple[TagPart, ...],
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
            parts=parts,
            excluded=tuple(node for node, _ in action.excluded),
        )


def _tagged(part: Part | Packed, kind: str) -> TagPart:
    return TagPart(part.pods, PACKED if isinstance(part, Packed) else part.pods_per_node, kind)
