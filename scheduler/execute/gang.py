"""What only gangs need: their object is read, slots are given anew, pods that are gone are
forgotten, and those that the gang can do without are served alone.

`core/gang.py`, `core/seating.py` and `core/spare_pods.py` decide when.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, assert_never

import structlog
from msgspec.structs import replace

from annotations import Problem
from scheduler.core.actions import PartWith, Reseat, ServeBeside
from scheduler.core.budgets import Turns
from scheduler.core.event_reasons import Reason
from scheduler.core.gang_objects import Unserved
from scheduler.core.gang_shape import GangShape, NoGang, shape_of, templates_of
from scheduler.core.gang_sources import OPEN_SOURCES, GroupRef
from scheduler.core.intervals import SOON_SECONDS
from scheduler.core.naming import BESIDE_GANG, GANG, JOB_ID
from scheduler.core.seating import retagged
from scheduler.execute.absent_pods import AbsentPods
from scheduler.execute.tools import Result, Tools
from scheduler.facts.template_sizes import TemplateSizes
from scheduler.kube.errors import (
    Forbidden,
    KubeGarbled,
    KubeRefused,
    TooMany,
)
from scheduler.state.gang import Gang
from scheduler.state.gangs import Gangs
from scheduler.state.units import Unit
from slurmapi import BaseState

log = structlog.get_logger(__name__)

READS_AGAIN: Final = (200, 0.1)
"""How often the objects of gangs in one namespace are read again: a burst, then once in this many
seconds. The first read of each comes without delay, because its pods wait for it.
"""


@dataclass(frozen=True, slots=True)
class _Absent(NoGang):
    """There is no such object."""


@dataclass(frozen=True, slots=True)
class _Unsaid(NoGang):
    """Nobody says now whether there is one: it may not be read, or its kind is not served. A gang
    that was read before stays as it is.
    """


def _may_be_created(unit: Unit, gang: Gang) -> bool:
    """Whether the object may be one that does not exist yet: people and operators create PodGroups
    beside the pods, perhaps after them. The other objects create the pods themselves, so one that
    does not exist has been deleted. Once a job has been submitted it has been there.
    """
    return gang.member.source in OPEN_SOURCES and gang.shape is None and unit.job is None


def _may_have_a_job(unit: Unit) -> bool:
    """Whether a job of all its pods may still be there, perhaps one that was given back."""
    return unit.job is not None or unit.doubt_since is not None or bool(unit.given_back)


class GangHand:
    """`wake` has these pods looked at, each as a unit of its own. `leave_lines` takes a unit out of
    the lines for submits and edits.
    """

    def __init__(
        self,
        tools: Tools,
        gangs: Gangs,
        *,
        sizes: TemplateSizes,
        wake: Callable[[str], None],
        absent: AbsentPods,
        leave_lines: Callable[[Unit], None],
    ) -> None:
        self._tools = tools
        self._gangs = gangs
        self._sizes = sizes
        self._wake = wake
        self._absent = absent
        self._leave_lines = leave_lines
        self._reads_again = Turns[str](*READS_AGAIN)

    async def read(self, unit: Unit) -> Result:
        """Read the object that says how many pods the gang has. If it says that the pods are no
        gang, each is served alone from now on. Returns after how many seconds to decide again.
        Raises KubeError.
        """
        gang = unit.gang
        if gang is None or gang.member.object is None:
            return SOON_SECONDS
        if pause := self._pause(unit, gang):
            return pause
        gang.asked = True
        found = await self._shape(unit, gang, gang.member.object)
        gang.read_at = self._tools.clock()
        return self._use(unit, gang, found)

    def _use(self, unit: Unit, gang: Gang, found: GangShape | NoGang | Problem | None) -> Result:
        """Note what the object has said."""
        waits = isinstance(found, _Absent) and _may_be_created(unit, gang)
        if not waits:
            gang.absent_since = None
        elif gang.absent_since is None:
            gang.absent_since = gang.read_at
        match found:
            case _Absent() if waits:
                return 0.0
            case GangShape():
                gang.shape, gang.problem, gang.disbanded = found, None, ""
            case Problem():
                gang.problem = found
            case NoGang() if gang.shape is None and not _may_have_a_job(unit):
                self._dissolve(unit, found)
                return None
            case _Unsaid():
                pass
            case _Absent() | None:
                if gang.shape is not None:
                    gang.shape = replace(gang.shape, over=True)
            case NoGang(why=why):
                return self._disband(unit, gang, found, why)
            case _:
                assert_never(found)
        return 0.0

    def _pause(self, unit: Unit, gang: Gang) -> float:
        """Seconds until the gang may read its object again; 0 if it may now. A gang that holds
        nodes need not wait: the object may say that it needs none of them.
        """
        job, now = unit.job, self._tools.clock()
        holds = job is not None and job.state is not None and job.state.base is BaseState.RUNNING
        if holds or not gang.asked:
            return 0.0
        pause = self._reads_again.wait(unit.namespace, unit.key, now)
        if not pause:
            self._reads_again.take(unit.namespace, unit.key, now)
        return pause

    def forget(self, unit: Unit) -> None:
        """The unit is gone, so the gangs that wait behind it move up."""
        self._reads_again.leave(unit.namespace, unit.key)

    def _disband(self, unit: Unit, gang: Gang, found: NoGang, why: str) -> Result:
        """The object says that what was a gang before is none any more. Pods that run stay in its
        job; if none does, each pod is served alone once that job is given back.
        """
        gang.disbanded = why
        if gang.shape is not None:
            gang.shape = replace(gang.shape, over=True)
        if unit.job is not None:
            return 0.0
        # Without a job the object is read only if no pod runs (`serve_waiting`).
        if _may_have_a_job(unit):
            return SOON_SECONDS
        self._dissolve(unit, found)
        return None

    async def _shape(
        self, unit: Unit, gang: Gang, ref: GroupRef
    ) -> GangShape | NoGang | Problem | None:
        """What the object says. None if it says nothing, and the pods themselves say how many there
        are. If the pods come in steps, what their templates ask for is noted.
        """
        member = gang.member
        try:
            found = await self._tools.kube.get_group(ref)
        except Forbidden as error:
            why = f"the scheduler may not read {member.group}: {error}"
            return None if member.size is not None else _Unsaid(why)
        except (KubeGarbled, KubeRefused) as error:
            await self._say_unread(unit, gang, error)
            raise
        if found is None:
            return _Absent(f"{member.group} does not exist")
        if isinstance(found, Unserved):
            return _Unsaid(f"this cluster has no {found.plural} of {found.api_version}")
        shape = shape_of(member, found)
        if isinstance(shape, GangShape) and shape.in_steps:
            gang.templates = await self._sizes.of(templates_of(found, shape), ref)
        return shape

    async def _say_unread(self, unit: Unit, gang: Gang, error: KubeGarbled | KubeRefused) -> None:
        """Say on the pods that wait why their object cannot be read. Raises KubeError."""
        if isinstance(error, TooMany):
            return
        message = (
            f"Gang {gang.member.name} waits because {gang.member.group} cannot be read: {error}. "
            "The scheduler tries again"
        )
        await self._tools.teller.tell_waiting(unit, Reason.GANG_INCOMPLETE, message)

    def _dissolve(self, unit: Unit, found: NoGang) -> None:
        """Serve each pod alone, or as a pod of another gang."""
        log.info("group is no gang", namespace=unit.namespace, group=unit.name, why=found.why)
        self._leave_lines(unit)
        self.forget(unit)
        self._tools.units.remove(unit.key)
        for uid in self._gangs.dissolve(unit.key, instead=found.instead):
            self._wake(uid)

    async def reseat(self, unit: Unit, action: Reseat) -> Result:
        """Write the seats into the owner tag of the unit's job, in the same action in which it is
        read. Raises SlurmError.
        """
        job = unit.job
        if job is None or job.job_id != action.job_id:
            return 0.0
        own = await self._tools.read_anew(unit, job)
        noted = None if own is None else retagged(own.job, action)
        if own is None or noted is None:
            return SOON_SECONDS  # the next pass decides from what this look has shown
        await self._tools.slurm.update_job(action.job_id, send_by=own.send_by, admin_comment=noted)
        job.wrote(replace(own.job, admin_comment=noted))
        return 0.0

    async def serve_beside(self, unit: Unit, action: ServeBeside) -> None:
        """Serve each of these pods alone from now on. The pod's annotations are written first.
        Otherwise the next process might give the pod a slot of the gang beside its own job. Raises
        KubeError.

        If the API server refuses this write, the Binding will write that the pod is served alone.
        """
        said = {GANG: BESIDE_GANG, JOB_ID: None}
        for pod in action.pods:
            own = [unit.pod(pod.uid)]
            await self._tools.teller.patch(unit, annotations=said, pods=own, must=True)
            if pod.uid not in unit.members:
                return  # a census has found a job of its own meanwhile
            self._gangs.set_beside(pod.uid)
            self._tools.units.part(unit, (pod.uid,))
            self._wake(pod.uid)
            log.info("pod is served beside its gang", namespace=unit.namespace, pod=pod.name)

    async def part_with(self, unit: Unit, action: PartWith) -> None:
        """Forget pods that are gone. Of one that was on a Node, or for which a binding was sent,
        only the API server's answer that there is no such pod is evidence. Raises KubeError, also
        if a pod does exist.
        """
        doubtful = [it for it in action.pods if it.placed or it.uid in unit.bindings.sent]
        sure = {it.uid for it in action.pods}.difference(it.uid for it in doubtful)
        # Together, because those that are left are gone through each time.
        self._tools.units.part(unit, sure & unit.uids)
        for gone in doubtful:
            await self._absent.make_sure(unit.namespace, gone.name, gone.uid)
            if gone.uid in unit.members:
                self._tools.units.part(unit, (gone.uid,))
