"""Passes each action to the object that carries it out, which is in the module of that name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from scheduler.core.actions import (
    Action,
    Again,
    Bind,
    Cancel,
    DropJob,
    Evict,
    Exclude,
    Forget,
    GiveBack,
    Hurry,
    Inspect,
    Locate,
    LookForTwins,
    NoteEnd,
    PartWith,
    ReadGang,
    Readmit,
    Record,
    Reject,
    Reseat,
    ServeBeside,
    Submit,
    TakeBack,
    Tell,
    TellGroup,
    Update,
    Warn,
    Weigh,
)
from scheduler.execute.avoid import Avoidance
from scheduler.execute.bind import Binder
from scheduler.execute.cancel import Release
from scheduler.execute.early_release import EarlyRelease
from scheduler.execute.evict import Evictor
from scheduler.execute.gang import GangHand
from scheduler.execute.group_status import GroupTeller
from scheduler.execute.learn import Learner
from scheduler.execute.submit import Submitter
from scheduler.execute.tools import Result, Tools
from scheduler.execute.update import Updater
from scheduler.state.units import Unit


class Executor:
    """Carries out actions."""

    def __init__(
        self,
        tools: Tools,
        *,
        submitter: Submitter,
        updater: Updater,
        binder: Binder,
        release: Release,
        learner: Learner,
        evictor: Evictor,
        gang_hand: GangHand,
    ) -> None:
        self._units = tools.units
        self._teller = tools.teller
        self._submitter = submitter
        self._updater = updater
        self._binder = binder
        self._release = release
        self._learner = learner
        self._evictor = evictor
        self._gang_hand = gang_hand
        self._group_teller = GroupTeller(tools)
        self._early_release = EarlyRelease(tools)
        self._avoidance = Avoidance(
            tools.slurm,
            owner=tools.owner,
            warn=tools.teller.warn,
            metrics=tools.metrics,
            clock=tools.clock,
        )

    async def bind(self, unit: Unit, actions: Sequence[Bind]) -> Result:
        """Bind all these pods of a unit, or none. Raises KubeError for unexpected answers."""
        return await self._binder.bind(unit, actions)

    async def evict(self, unit: Unit, actions: Sequence[Evict]) -> Result:
        """End these pods of a unit, as one case of the brake's. Raises KubeError and SlurmError."""
        return await self._evictor.evict(unit, actions)

    async def hurry(self, unit: Unit, actions: Sequence[Hurry]) -> Result:
        """Shorten the grace periods of these pods of a unit. Raises KubeError."""
        return await self._evictor.hurry_all(unit, actions)

    async def note_ends(self, unit: Unit, actions: Sequence[NoteEnd]) -> None:
        """Write the job's new end on these pods of a unit. Raises KubeError."""
        await self._teller.note_ends(unit, actions)

    async def tell(self, unit: Unit, actions: Sequence[Tell]) -> Result:
        """Set the conditions of several pods of a unit. Raises KubeError."""
        return await self._teller.tell_all(unit, actions)

    async def do(  # noqa: PLR0912 - one branch for each action
        self, unit: Unit, action: Action
    ) -> Result:
        """Carry out one action. Raises KubeError and SlurmError for unexpected answers."""
        match action:
            case Submit():
                return await self._submitter.submit(unit, action)
            case Update():
                return await self._updater.update(unit, action)
            case NoteEnd():
                await self.note_ends(unit, [action])
            case ReadGang():
                return await self._gang_hand.read(unit)
            case Reseat():
                return await self._gang_hand.reseat(unit, action)
            case GiveBack():
                return await self._early_release.give_back(unit, action)
            case PartWith():
                await self._gang_hand.part_with(unit, action)
            case ServeBeside():
                await self._gang_hand.serve_beside(unit, action)
            case TellGroup():
                return await self._group_teller.tell(unit, action)
            case Inspect(job_id=job_id):
                return await self._learner.inspect(unit, job_id)
            case LookForTwins(tell=tell):
                await self._learner.look_for_twins(unit, tell=tell)
            case Locate(nodes=nodes):
                await self._learner.locate(nodes)
            case Weigh(node=node):
                await self._learner.weigh(unit, node)
            case Record(job_id=job_id):
                await self._submitter.record(unit, job_id)
            case Bind():
                return await self.bind(unit, [action])
            case Cancel():
                return await self._release.cancel(unit, action)
            case TakeBack():
                await self._release.take_back(unit, action)
            case DropJob():
                await self._release.drop(unit, action)
            case Exclude():
                self._avoidance.exclude(unit, action)
            case Readmit():
                await self._avoidance.readmit(unit, action)
            case Evict():
                return await self.evict(unit, [action])
            case Hurry():
                return await self.hurry(unit, [action])
            case Reject():
                return await self._teller.reject(unit, action)
            case Tell():
                return await self.tell(unit, [action])
            case Warn(reason=reason, message=message):
                self._teller.warn(unit, reason, message)
            case Again(seconds=seconds):
                return seconds
            case Forget():
                self._submitter.forget(unit)
                self._gang_hand.forget(unit)
                self._units.remove(unit.key)
            case _:
                assert_never(action)
        return None
