"""The loop: take a key, gather, decide, execute. Afterwards an event or a timer brings the
key back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Final

import structlog

from scheduler.core.actions import Action, Bind, Evict, Hurry, Inspect, NoteEnd, Tell
from scheduler.core.decide import decide
from scheduler.core.facts import PodStage
from scheduler.execute.dispatch import Executor
from scheduler.execute.tell import Teller
from scheduler.execute.tools import Result
from scheduler.facts.gather import Gatherer
from scheduler.facts.newcomers import Newcomers
from scheduler.kube.errors import KubeError
from scheduler.observe.logs import PASS_FIELDS
from scheduler.observe.metrics import Metrics
from scheduler.reconcile.urgency import Level
from scheduler.reconcile.workqueue import QueueShutDown, WorkQueue
from scheduler.state.units import Unit
from slurmapi import SlurmError

log = structlog.get_logger(__name__)

_PASSES_AT_ONCE: Final = 4
_KEPT_PART: Final = 8
_SETTLED = frozenset({PodStage.BOUND, PodStage.DEPARTING, PodStage.GATED})


class Controller:
    """Handles units. One unit is handled by one worker at a time."""

    def __init__(
        self,
        *,
        queue: WorkQueue[str],
        newcomers: Newcomers,
        gatherer: Gatherer,
        executor: Executor,
        teller: Teller,
        metrics: Metrics,
        clock: Callable[[], float],
    ) -> None:
        self._queue = queue
        self._newcomers = newcomers
        self._gatherer = gatherer
        self._executor = executor
        self._teller = teller
        self._metrics = metrics
        self._clock = clock

    async def work(self, least_urgent: Level = Level.REST) -> None:
        """Run one worker, which takes keys whose level is `least_urgent` or more urgent. Returns
        when the queue is shut down and empty.
        """
        while True:
            try:
                key = await self._queue.get(least_urgent)
            except QueueShutDown:
                return
            try:
                await self._reconcile(key, least_urgent)
            finally:
                self._queue.done(key)
            # A pass may complete without waiting for anything. Without this pause, a thousand such
            # keys would take one turn of the loop (measured: 60 ms).
            await asyncio.sleep(0)

    async def _reconcile(self, key: str, least_urgent: Level) -> None:
        cause = ",".join(self._queue.causes(key))
        before = PASS_FIELDS.set({"uid": key, "cause": cause, **self._newcomers.names(key)})
        try:
            again = await self._passes(key, least_urgent)
        except (KubeError, SlurmError) as error:
            self._later(key, error)
        except Exception as error:
            log.exception("unit could not be handled")
            self._later(key, error)
        else:
            self._next(key, again)
        finally:
            PASS_FIELDS.reset(before)

    def _next(self, key: str, again: float | None) -> None:
        if again == 0.0:
            self._queue.add_rate_limited(key)  # a unit that never settles must not block a worker
            return
        self._queue.forget(key)
        if again is not None:
            self._queue.add_after(key, again)

    async def _passes(self, key: str, least_urgent: Level) -> float | None:
        """Pass again at once if the pass wants that: after a wait in a long queue, the look at the
        job would be too old for a bind. If the unit is no longer urgent, a worker that is reserved
        for urgent units leaves it to the others.
        """
        for _ in range(_PASSES_AT_ONCE):
            again = await self._pass(key)
            if again != 0.0:
                return again
            if self._queue.level(key) > least_urgent:
                self._queue.add(key, *self._queue.causes(key))
                return None
        return 0.0

    async def _pass(self, key: str) -> float | None:
        unit = self._newcomers.unit(key)
        if unit is None:
            return None
        job = unit.job
        if job is not None and job.is_unread:
            # Without its record there is nothing to decide about it, so no facts are gathered yet.
            await self._executor.do(unit, Inspect(job.job_id))
        ahead = None if unit.gang is None else await self._gatherer.read_ahead(unit)
        facts = self._gatherer.facts(unit, ahead)
        unit.waiting = not any(pod.stage in _SETTLED for pod in facts.pods)
        if unit.waiting:
            self._teller.remark(unit, facts.remarks)
        actions = decide(facts, self._clock())
        log.debug("unit decided", actions=[type(it).__name__ for it in actions])
        return await self._do(unit, actions)

    async def _do(self, unit: Unit, actions: Iterable[Action]) -> float | None:
        """Execute all actions in order. Bindings that follow each other are executed together, as
        are evictions, messages and other writes on several pods.

        Returns after how many seconds the unit needs another pass: the least that any action asks
        for, or None if no action asks.
        """
        wishes: list[Result] = []
        for kind, group in groupby(actions, type):
            if kind is Bind:
                binds = [action for action in group if isinstance(action, Bind)]
                wishes.append(await self._executor.bind(unit, binds))
                if any(it.pod.uid in unit.bindings.nodes for it in binds):
                    unit.waiting = False  # the next pass may come seconds later
            elif kind is Evict:
                evicts = [action for action in group if isinstance(action, Evict)]
                wishes.append(await self._executor.evict(unit, evicts))
            elif kind is Hurry:
                hurries = [action for action in group if isinstance(action, Hurry)]
                wishes.append(await self._executor.hurry(unit, hurries))
            elif kind is NoteEnd:
                ends = [action for action in group if isinstance(action, NoteEnd)]
                await self._executor.note_ends(unit, ends)
            elif kind is Tell:
                tells = [action for action in group if isinstance(action, Tell)]
                wishes.append(await self._executor.tell(unit, tells))
            else:
                for action in group:
                    wishes.append(await self._executor.do(unit, action))  # noqa: PERF401
        given = [seconds for seconds in wishes if seconds is not None]
        return min(given, default=None)

    def _later(self, key: str, error: Exception) -> None:
        asked = getattr(error, "retry_after", None) or 0.0
        seconds = self._queue.add_rate_limited(key, at_least=asked)
        self._metrics.actions.labels("reconcile", getattr(error, "outcome", "error")).inc()
        log.debug("unit is tried again", error=str(error), after_s=round(seconds, 3))


async def run_workers(controller: Controller, count: int) -> None:
    """Run that many workers until the queue is shut down."""
    async with asyncio.TaskGroup() as group:
        for number, least_urgent in enumerate(shifts(count)):
            group.create_task(controller.work(least_urgent), name=f"worker {number}")


def shifts(count: int) -> list[Level]:
    """The least urgent level that each worker takes. Most workers take everything. An eighth takes
    only endings and binds, so that slow submits or cancels cannot hold those up, and another eighth
    takes those and jobs to be cancelled. There are always at least three workers.
    """
    kept = max(1, count // _KEPT_PART)
    free = max(1, count - 2 * kept)
    return [Level.REST] * free + [Level.RELEASE] * kept + [Level.URGENT] * kept
