"""Checks each pod that is to be ended because of Slurm: if the evidence is weak, the brake decides
whether it may be ended (I7). Also reports when the brake holds pods. The rule is in
`core/brake.py`.

The end of a job is one case, and so the pods of a gang count as one. Pods that run and pods that
wait are counted separately, because many pods of one kind would hide a few of the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import structlog

from groundwork.pauses import with_pauses
from scheduler.core.actions import Evict
from scheduler.core.brake import ASK_SECONDS, Brake, BrakeLimits, Go, Hold, Scene
from scheduler.core.endings import Ending, ending_of
from scheduler.core.event_reasons import Reason
from scheduler.core.evidence import SETTLING_SECONDS, is_weak
from scheduler.core.facts import PodStage
from scheduler.core.taken_resources import lacks
from scheduler.facts.claims import recorded_job
from scheduler.kube.store import Joined
from scheduler.kube.wire import Pod
from scheduler.nodes.node_allocations import NodeAllocations
from scheduler.observe.metrics import Metrics
from scheduler.slurm.slurmctld import Slurmctld
from scheduler.state.units import Unit, Units

log = structlog.get_logger(__name__)

# One survey of all pods serves all questions within this time.
_SURVEY_SECONDS: Final = 0.5
# A survey looks at so many pods in one turn of the event loop, which takes about 2 ms. 30 000 pods
# in one turn took 54 to 68 ms (measured).
_PODS_A_TURN: Final = 1000
_KINDS: Final = ("run", "wait")
# A process that has just started learns the states of its pods' jobs one by one. It ends no pod
# until it knows nearly all of them, or has tried for this long.
_LEARN_SECONDS: Final = 15.0

# Nodes that are lost together are not lost in the same instant. However soon the first loss is
# seen, no pod is ended because of it before the other losses are seen too.
_LOST_TOGETHER_SECONDS: Final = 2.0


@dataclass(slots=True)
class _Survey:
    """The cases of one kind: all of them, those whose jobs have ended, and of these the ones whose
    job lost its node.
    """

    all: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    lost_nodes: set[str] = field(default_factory=set)

    def see(self, unit: Unit, kind: str) -> None:
        """Count a unit that has pods of this kind."""
        case = _case(unit)
        self.all.add(case)
        ending = None if _unseen(unit) else _ending(unit, kind)
        if ending is not None:
            self.ended.add(case)
            if ending.reason is Reason.NODE_FAILED:
                self.lost_nodes.add(case)


class EndingBrake:
    """`tell` writes an Event on each pod of a unit, once for each message. `warn` writes one on our
    own pod. `key_of` returns the key of the unit to which the pod with this uid belongs.
    """

    def __init__(
        self,
        slurmctld: Slurmctld,
        *,
        allocations: NodeAllocations,
        limits: BrakeLimits,
        units: Units,
        pods: Joined[Pod],
        key_of: Callable[[str], str],
        tell: Callable[[Unit, Reason, str], None],
        warn: Callable[[Reason, str], None],
        metrics: Metrics,
        clock: Callable[[], float],
    ) -> None:
        self._slurmctld = slurmctld
        self._allocations = allocations
        self._limits = limits
        self._units = units
        self._pods = pods
        self._key_of = key_of
        self._tell = tell
        self._warn = warn
        self._metrics = metrics
        self._clock = clock
        self._brakes = {kind: Brake(limits) for kind in _KINDS}
        self._engaged: set[str] = set()
        self._scenes: dict[str, _Survey] = {}
        self._surveying = asyncio.Lock()
        self._surveyed_at = float("-inf")
        self._unknown = 0
        self._learnt_by: float | None = None
        metrics.brake_held.set_function(lambda: sum(self.held(kind) for kind in _KINDS))

    def held(self, kind: str) -> int:
        """How many pods of this kind ("run" or "wait") are held now; a gang counts as one."""
        return self._brakes[kind].held(self._clock())

    @property
    def trouble(self) -> str:
        """The message for people about the brake; "" while no pod is held."""
        kinds = [f"{self.held(kind)} that {kind}" for kind in _KINDS if self.held(kind)]
        return f"the brake holds the ending of pods: {', '.join(kinds)}" if kinds else ""

    async def run(self) -> None:
        """Notice when pods are no longer held. Runs for ever; cancel it to stop."""
        while True:
            await asyncio.sleep(ASK_SECONDS)
            for kind in _KINDS:
                self._note(kind, 0)

    async def seconds(self, unit: Unit, action: Evict) -> float | None:
        """None if the pod may be ended now, otherwise after how many seconds to ask again. Raises
        SlurmError if the controller does not answer.
        """
        kind = "run" if action.pod.stage is PodStage.BOUND else "wait"
        brake, scene, case = self._brakes[kind], await self._scene(kind), _case(unit)
        seen_at = 0.0 if unit.job is None else unit.job.record_at
        doubted_at = self._slurmctld.doubted_at
        if not is_weak(action.evidence, action.reason, seen_at=seen_at, doubted_at=doubted_at):
            brake.let_go(case)
            return None
        early = _SURVEY_SECONDS if self._learns() else self._too_early(unit, action)
        if early > 0:
            return early
        answer = brake.ask(case, scene, seen_at=seen_at, now=self._clock())
        self._note(kind, len(scene.all))
        if isinstance(answer, Go):
            return None
        if await self._taken(unit, action):
            brake.confirm(case, self._clock())
            return None
        if isinstance(answer, Hold):
            self._tell_held(unit, action, kind)
            return answer.seconds
        if unit.job is not None:
            unit.job.read_again()
        return 0.0

    def _too_early(self, unit: Unit, action: Evict) -> float:
        """How many seconds the pod must wait, because other nodes may still be lost together with
        its node. If a job goes on without the node, its pod need not wait.
        """
        job = unit.job
        if job is None or job.state is None or not job.state.ended:
            return 0.0
        alive_at = job.lived_at
        if action.reason is not Reason.NODE_FAILED or alive_at is None:
            return 0.0
        return alive_at + _LOST_TOGETHER_SECONDS - self._clock()

    async def _taken(self, unit: Unit, action: Evict) -> bool:
        """Whether another job already holds the resources that the pod runs on. If so, holding the
        pod would only make two workloads share the node.
        """
        state = None if unit.job is None else unit.job.state
        if action.needs is None or (state is not None and (not state.ended or state.completing)):
            return False
        node = await self._allocations.of(action.pod.node)
        return node is not None and bool(lacks(node, action.needs))

    def _learns(self) -> bool:
        if self._learnt_by is None:
            self._learnt_by = self._clock() + _LEARN_SECONDS
        return self._unknown > self._limits.minimum and self._clock() < self._learnt_by

    async def _scene(self, kind: str) -> Scene:
        """The pods as they are now. If any are held, or many may be, slurmctld is asked first
        whether it has restarted.
        """
        asked_at = self._clock()
        async with self._surveying:
            # Those who asked while the last survey went on share it, however long it took.
            if asked_at - self._surveyed_at >= _SURVEY_SECONDS:
                began_at = self._clock()
                await self._survey()
                self._surveyed_at = began_at
        survey, now = self._scenes[kind], self._clock()
        many = max(len(survey.ended), self._brakes[kind].counted(now)) > self._limits.minimum
        if self._engaged or many:
            await self._slurmctld.ask()
        in_doubt = self._clock() < self._slurmctld.doubted_at + SETTLING_SECONDS
        doomed = survey.ended if in_doubt else survey.lost_nodes
        return Scene(all=survey.all, doomed=doomed, boot=self._slurmctld.boot)

    async def _survey(self) -> None:
        units, strays, run = dict[str, Unit](), dict[str, bool](), set[str]()
        async for pod in with_pauses(tuple(self._pods), every=_PODS_A_TURN):
            if pod.finished or pod.metadata.deletion_timestamp is not None:
                continue
            uid = pod.metadata.uid
            unit = self._units.of_pod(uid)
            key = self._key_of(uid) if unit is None else unit.key
            if pod.spec.node_name or (unit is not None and unit.bindings.nodes):
                run.add(key)
            if unit is None:
                strays[key] = strays.get(key, False) or _may_have_a_job(pod)
            else:
                units[key] = unit
        scenes, unknown = {kind: _Survey() for kind in _KINDS}, sum(strays.values())
        for key in strays.keys() - units.keys():
            scenes["run" if key in run else "wait"].all.add(key)
        async for key, unit in with_pauses(units.items(), every=_PODS_A_TURN):
            kind = "run" if key in run else "wait"
            scenes[kind].see(unit, kind)
            unknown += _unseen(unit)
        self._scenes, self._unknown = scenes, unknown

    def _note(self, kind: str, among: int) -> None:
        """Report when the brake begins to hold pods of this kind, and when it holds none any more.
        `among` is the number of all pods of this kind, each gang counted as one.
        """
        held = self.held(kind)
        if held and kind not in self._engaged:
            self._engaged.add(kind)
            self._metrics.brake_engaged.labels(kind).inc()
            message = (
                f"Within {self._limits.window_seconds:.0f} s Slurm would end over "
                f"{self._limits.minimum} pods that {kind}, and over {self._limits.share:.0%} of "
                f"all {among} (a gang counts as one): each is held for "
                f"{self._limits.pause_seconds:.0f} s, and ends only if a later look at Slurm "
                "confirms its end"
            )
            self._warn(Reason.BRAKE_ENGAGED, message)
            log.error("brake engaged", pods=kind, among=among, pause_s=self._limits.pause_seconds)
        elif not held and kind in self._engaged:
            self._engaged.discard(kind)
            message = f"The brake holds none of the pods that {kind} any longer"
            self._warn(Reason.BRAKE_RELEASED, message)
            log.warning("brake released", pods=kind)

    def _tell_held(self, unit: Unit, action: Evict, kind: str) -> None:
        message = (
            f"{action.message}, and so would many pods that {kind}: this one stays until a look "
            f"{self._limits.pause_seconds:.0f} s later confirms it"
        )
        self._tell(unit, Reason.BRAKE_ENGAGED, message)


def _case(unit: Unit) -> str:
    """What the brake counts: the end of this job for all pods that it has."""
    return unit.key if unit.job is None else f"{unit.key}/{unit.job.job_id}"


def _may_have_a_job(pod: Pod) -> bool:
    """Whether Slurm may be ending this pod, which no pass has looked at yet. A new pod has no job,
    and a crowd of new pods must not delay the endings of others.
    """
    return bool(pod.spec.node_name) or recorded_job(pod) is not None


def _unseen(unit: Unit) -> bool:
    return unit.job is not None and unit.job.state is None and not unit.job.missing


def _ending(unit: Unit, kind: str) -> Ending | None:
    """How the job ended according to the last pulse, if a pod of this kind ("run" or "wait") must
    end with it; otherwise None.
    """
    state = None if unit.job is None else unit.job.state
    if state is None or not state.ended or (unit.job is not None and unit.job.missing):
        return None
    ending = ending_of(state)
    stays = ending.kept if kind == "run" else ending.again
    return None if stays else ending
