"""The loop: take a key, look, decide, do; then leave the key to events or look again later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

import structlog
from structlog.contextvars import bound_contextvars

from scheduler.core.actions import Action
from scheduler.core.decide import decide
from scheduler.core.facts import PodStage
from scheduler.execute import Executor
from scheduler.kube.errors import KubeError
from scheduler.look import Look
from scheduler.metrics import Metrics
from scheduler.teller import Teller
from scheduler.units import Unit
from scheduler.workqueue import QueueShutDown, WorkQueue
from slurmapi import SlurmError

log = structlog.get_logger(__name__)

_PASSES_AT_ONCE: Final = 4
_SETTLED = frozenset({PodStage.BOUND, PodStage.DEPARTING, PodStage.GATED})


class Controller:
    """Works on units, each by one worker at a time."""

    def __init__(
        self,
        *,
        queue: WorkQueue[str],
        look: Look,
        executor: Executor,
        teller: Teller,
        metrics: Metrics,
        clock: Callable[[], float],
    ) -> None:
        self._queue = queue
        self._look = look
        self._executor = executor
        self._teller = teller
        self._metrics = metrics
        self._clock = clock

    async def work(self) -> None:
        """One worker; returns when the queue is shut down and empty."""
        while True:
            try:
                key = await self._queue.get()
            except QueueShutDown:
                return
            try:
                await self._reconcile(key)
            finally:
                self._queue.done(key)
            # Nothing in a pass need wait for anything: without this, a thousand keys would be one
            # turn of the loop (measured: 60 ms).
            await asyncio.sleep(0)

    async def _reconcile(self, key: str) -> None:
        with bound_contextvars(uid=key):
            try:
                again = await self._passes(key)
            except (KubeError, SlurmError) as error:
                self._later(key, error)
            except Exception as error:
                log.exception("unit could not be handled")
                self._later(key, error)
            else:
                self._next(key, again)

    def _next(self, key: str, again: float | None) -> None:
        if again == 0.0:
            self._queue.add_rate_limited(key)  # what never settles must not keep a worker busy
            return
        self._queue.forget(key)
        if again is not None:
            self._queue.add_after(key, again)

    async def _passes(self, key: str) -> float | None:
        """Look again at once where that was asked for: at the end of a long queue, what was just
        learnt of the job would be too old to bind on.
        """
        for _ in range(_PASSES_AT_ONCE):
            again = await self._pass(key)
            if again != 0.0:
                return again
        return 0.0

    async def _pass(self, key: str) -> float | None:
        unit = self._look.unit(key)
        if unit is None:
            return None
        facts = self._look.facts(unit)
        unit.waiting = not any(pod.stage in _SETTLED for pod in facts.pods)
        if unit.waiting:
            self._teller.remark(unit, facts.remarks)
        return await self._do(unit, decide(facts, self._clock()))

    async def _do(self, unit: Unit, actions: Iterable[Action]) -> float | None:
        """All actions in order; the soonest wish to look again counts."""
        wishes = [await self._executor.do(unit, action) for action in actions]
        given = [seconds for seconds in wishes if seconds is not None]
        return min(given, default=None)

    def _later(self, key: str, error: Exception) -> None:
        asked = getattr(error, "retry_after", None) or 0.0
        seconds = self._queue.add_rate_limited(key, at_least=asked)
        self._metrics.actions.labels("reconcile", getattr(error, "outcome", "error")).inc()
        log.debug("unit is tried again", error=str(error), after_s=round(seconds, 3))


async def run_workers(controller: Controller, count: int) -> None:
    """Workers until the queue is shut down."""
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(controller.work(), name=f"worker {number}")
