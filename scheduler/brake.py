"""Stands before every ending of a pod because of Slurm: asks the brake (I7), and says what it does.

Pods that run and pods that wait are counted apart: many of the one must not hide few of the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from scheduler.core.actions import Evict
from scheduler.core.brake import ASK_SECONDS, Brake, Go, Hold, Limits, LookAgain, Scene
from scheduler.core.endings import ending_of
from scheduler.core.facts import PodStage
from scheduler.core.reasons import Reason
from scheduler.kube.store import Joined
from scheduler.kube.wire import Pod
from scheduler.metrics import Metrics
from scheduler.units import Unit, Units
from slurmapi import SlurmClient, SlurmUnreachable

log = structlog.get_logger(__name__)

# What is read once serves all that are asked about meanwhile.
_SURVEY_SECONDS: Final = 0.5
_CONTROLLER_SECONDS: Final = 2.0
_KINDS: Final = ("run", "wait")
# A process that starts learns what became of its pods one by one: it ends none until it knows of
# nearly all, or has tried for so long.
_LEARN_SECONDS: Final = 15.0


class EndingBrake:
    """`tell` writes an Event on a pod, once for each message; `warn` one on our own."""

    def __init__(
        self,
        slurm: SlurmClient,
        *,
        limits: Limits,
        units: Units,
        pods: Joined[Pod],
        tell: Callable[[Unit, Reason, str], None],
        warn: Callable[[Reason, str], None],
        metrics: Metrics,
        clock: Callable[[], float],
    ) -> None:
        self._slurm = slurm
        self._limits = limits
        self._units = units
        self._pods = pods
        self._tell = tell
        self._warn = warn
        self._metrics = metrics
        self._clock = clock
        self._brakes = {kind: Brake(limits) for kind in _KINDS}
        self._engaged: set[str] = set()
        self._scenes: dict[str, Scene] = {}
        self._surveyed_at = float("-inf")
        self._unknown = 0
        self._learnt_by: float | None = None
        self._asking = asyncio.Lock()
        self._asked_at = float("-inf")
        self._boot: int | None = None
        metrics.brake_held.set_function(lambda: sum(self.held(kind) for kind in _KINDS))

    def held(self, kind: str) -> int:
        """How many pods are held, of those that "run" or "wait"."""
        return self._brakes[kind].held(self._clock())

    @property
    def trouble(self) -> str:
        """What is to be said of it, for people; empty while nothing is held."""
        told = [f"{self.held(kind)} that {kind}" for kind in _KINDS if self.held(kind)]
        return f"the brake holds the ending of pods: {', '.join(told)}" if told else ""

    async def run(self) -> None:
        """Notice for ever when nothing is held any longer; end it by cancelling."""
        while True:
            await asyncio.sleep(ASK_SECONDS)
            for kind in _KINDS:
                self._note(kind, 0)

    async def seconds(self, unit: Unit, action: Evict) -> float | None:
        """None where the pod may be ended now, else when to ask again. Raises SlurmError where the
        controller does not answer.
        """
        kind = "run" if action.pod.stage is PodStage.BOUND else "wait"
        brake, scene = self._brakes[kind], await self._scene(kind)
        if self._learns():
            return _SURVEY_SECONDS
        seen_at = 0.0 if unit.job is None else unit.job.record_at
        answer = brake.ask(action.pod.uid, scene, seen_at=seen_at, now=self._clock())
        self._note(kind, len(scene.all))
        match answer:
            case Go():
                return None
            case Hold(seconds=seconds):
                self._tell_held(unit, action, kind)
                return seconds
            case LookAgain():
                if unit.job is not None:
                    unit.job.proven = False  # the next pass has it looked at
                return 0.0

    def _learns(self) -> bool:
        if self._learnt_by is None:
            self._learnt_by = self._clock() + _LEARN_SECONDS
        return self._unknown > self._limits.minimum and self._clock() < self._learnt_by

    async def _scene(self, kind: str) -> Scene:
        """The pods as they are, and, once any of them are held, who the controller is."""
        now = self._clock()
        if now - self._surveyed_at >= _SURVEY_SECONDS:
            self._surveyed_at = now
            self._survey()
        scene = self._scenes[kind]
        if not self._engaged and len(scene.doomed) <= self._limits.minimum:
            return scene
        await self._identify()
        return Scene(all=scene.all, doomed=scene.doomed, boot=self._boot)

    def _survey(self) -> None:
        every: dict[str, set[str]] = {kind: set() for kind in _KINDS}
        doomed: dict[str, set[str]] = {kind: set() for kind in _KINDS}
        self._unknown = 0
        for pod in self._pods:
            if pod.finished or pod.metadata.deletion_timestamp is not None:
                continue
            uid = pod.metadata.uid
            unit = self._units.get(uid)
            kind = "run" if pod.spec.node_name or (unit is not None and unit.bound) else "wait"
            every[kind].add(uid)
            if unit is None or _unseen(unit):
                self._unknown += 1
            elif _doomed(unit, kind):
                doomed[kind].add(uid)
        self._scenes = {kind: Scene(all=every[kind], doomed=doomed[kind]) for kind in _KINDS}

    async def _identify(self) -> None:
        """Which start of the controller this is, where Slurm tells (`/conf`, from 26.05 on)."""
        async with self._asking:
            if self._clock() - self._asked_at < _CONTROLLER_SECONDS:
                return
            ping = await self._slurm.ping()
            if not ping.responding:
                raise SlurmUnreachable(ping.status)
            conf = await self._slurm.config()
            self._boot = None if conf is None else conf.boot_time
            self._asked_at = self._clock()

    def _note(self, kind: str, among: int) -> None:
        """Say so when it begins and when it is over."""
        held = self.held(kind)
        if held and kind not in self._engaged:
            self._engaged.add(kind)
            self._metrics.brake_engaged.labels(kind).inc()
            told = (
                f"Within {self._limits.window_seconds:.0f} s Slurm would end over "
                f"{self._limits.minimum} pods that {kind}, and over {self._limits.share:.0%} of "
                f"all {among}: each is held for {self._limits.pause_seconds:.0f} s, and goes only "
                "if a later look at Slurm confirms its end"
            )
            self._warn(Reason.BRAKE_ENGAGED, told)
            log.error("brake engaged", pods=kind, among=among, pause_s=self._limits.pause_seconds)
        elif not held and kind in self._engaged:
            self._engaged.discard(kind)
            told = f"Of the pods that {kind} none is held any longer: each has gone, or is to stay"
            self._warn(Reason.BRAKE_RELEASED, told)
            log.warning("brake released", pods=kind)

    def _tell_held(self, unit: Unit, action: Evict, kind: str) -> None:
        told = (
            f"{action.message}, and so would many pods that {kind}: this one stays until a look "
            f"{self._limits.pause_seconds:.0f} s later confirms it"
        )
        self._tell(unit, Reason.BRAKE_ENGAGED, told)


def _unseen(unit: Unit) -> bool:
    return unit.job is not None and unit.job.state is None and not unit.job.missing


def _doomed(unit: Unit, kind: str) -> bool:
    """Whether the last pulse has shown an end of its job that is an end of the pod."""
    state = None if unit.job is None else unit.job.state
    if state is None or not state.ended or (unit.job is not None and unit.job.missing):
        return False
    ending = ending_of(state)
    return not (ending.kept if kind == "run" else ending.again)
