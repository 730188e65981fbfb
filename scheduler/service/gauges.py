"""Sets the gauges that no part sets by itself: when Kubernetes and Slurm were last heard, the work
queue, the token, readiness and leadership.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from scheduler.kube.wire import Pod
from scheduler.observe.metrics import Metrics
from scheduler.reconcile.workqueue import QueueStatistics
from scheduler.state.units import Units
from slurmapi.jwt import Lifetime

_EVERY_SECONDS: Final = 5.0
_STARTED: Final = frozenset({"Running", "Succeeded"})


class Heard(Protocol):
    """What we need of a watch to tell when it last heard something."""

    name: str
    synced: asyncio.Event
    last_event_at: float | None


class Gauges:
    """Most of them are read when they are scraped. `leads` says whether this process is the leader.
    `answered_at` and the watches' last events are times of `clock`.
    """

    def __init__(
        self,
        metrics: Metrics,
        *,
        reflectors: Callable[[], Iterable[Heard]],
        queue: Callable[[], QueueStatistics],
        answered_at: Callable[[], float | None],
        lifetime: Callable[[], Lifetime],
        unguarded: Callable[[], int],
        ready: Callable[[], bool],
        leads: Callable[[], bool],
        clock: Callable[[], float],
    ) -> None:
        self._metrics = metrics
        self._reflectors = reflectors
        self._clock = clock
        self._started_at = clock()
        self._shown: set[str] = set()
        metrics.slurm_answered.set_function(lambda: self._epoch(answered_at()))
        metrics.token_issued.set_function(lambda: lifetime().issued_at)
        metrics.token_expires.set_function(lambda: lifetime().expires_at)
        metrics.queue_depth.set_function(lambda: queue().depth)
        metrics.queue_unfinished.set_function(lambda: queue().unfinished_seconds)
        metrics.queue_longest.set_function(lambda: queue().longest_seconds)
        metrics.ready.set_function(ready)
        metrics.leader.set_function(leads)
        metrics.unguarded_nodes.set_function(lambda: unguarded() if leads() and ready() else 0)

    async def run(self) -> None:
        """Find the watches that have started, for ever; cancel it to stop."""
        while True:
            self.find_watches()
            await asyncio.sleep(_EVERY_SECONDS)

    def find_watches(self) -> None:
        """Show when each watch in use last heard something. A series stays as long as its watch."""
        found = {it.name for it in self._followed()}
        for name in self._shown - found:
            self._metrics.watch_heard.remove(name)
        for name in found - self._shown:
            self._metrics.watch_heard.labels(name).set_function(self._heard(name))
        self._shown = found

    def _heard(self, name: str) -> Callable[[], float]:
        """Returns a function for the time, in seconds since the epoch, at which the watches of this
        name last heard something. Of several watches, the one that was silent longest counts.
        """
        return lambda: min(
            (self._epoch(it.last_event_at) for it in self._followed() if it.name == name),
            default=math.nan,
        )

    def _followed(self) -> list[Heard]:
        """All watches in use, so without those that we may not start, such as that of Nodes."""
        reflectors = self._reflectors()
        return [it for it in reflectors if it.last_event_at or not it.synced.is_set()]

    def _epoch(self, moment: float | None) -> float:
        return time.time() - self._clock() + (self._started_at if moment is None else moment)


def observe_start(
    metrics: Metrics, units: Units, *, old: Pod | None, new: Pod | None, now: float
) -> None:
    """Observe how long it took from the bind of a pod until the watch showed that its containers
    started.
    """
    if new is None or new.status.phase not in _STARTED:
        return
    unit = units.of_pod(new.metadata.uid)
    bound_at = None if unit is None else unit.bindings.started()
    if bound_at is not None and old is not None and old.status.phase not in _STARTED:
        metrics.stages["started"].observe(now - bound_at)
