"""Prometheus beside a story: its alerts, its queries, and a steady stream of changes to watch."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import aiohttp

from tests.rigs.prometheus import Prometheus, Sample
from tests.support.kube import KubeAnswerError
from tests.support.world import World

_BEAT_SECONDS: Final = 1.0
_SECONDS: Final = 45.0
_POLL_SECONDS: Final = 0.25
# What Prometheus writes into an annotation whose template fails.
_TEMPLATE_ERROR: Final = "<error"
# Alerts about slowness may be right at any time: the machine has many servers and few CPUs.
_BY_LOAD: Final = frozenset({"SlurmPodSchedulerStalls"})


@dataclass(frozen=True, slots=True)
class Monitor:
    """The Prometheus that scrapes the scheduler of a story; all waits are bounded."""

    world: World
    prometheus: Prometheus

    async def fires(self, *names: str) -> None:
        """Wait until each of these alerts has fired.

        AssertionError if another alert keeps firing, or if a text was rendered wrongly. Others may
        fire for a moment, because the rules count seconds for minutes and the machine is busy.
        """
        wanted, seen = set(names), dict[str, list[dict[str, Any]]]()

        async def lacking() -> set[str]:
            seen.update(await asyncio.to_thread(self.prometheus.firing))
            return wanted - set(seen)

        async def others() -> set[str]:
            return set(await asyncio.to_thread(self.prometheus.firing)) - _BY_LOAD - wanted

        await self._until_none(f"alerts that fire, of {sorted(wanted)}", lacking)
        await self._until_none(f"silence of all but {sorted(wanted)}", others)
        texts = [text for alerts in seen.values() for it in alerts for text in _texts(it)]
        assert not [text for text in texts if _TEMPLATE_ERROR in text]

    async def silent(self, *names: str) -> None:
        """Wait until the scheduler is scraped and none of these alerts (by default: any) fires."""

        async def firing() -> set[str]:
            if not await asyncio.to_thread(self.prometheus.targets_up):
                return {"a target is down"}
            found = set(await asyncio.to_thread(self.prometheus.firing))
            return found & set(names) if names else found - _BY_LOAD

        await self._until_none("silence", firing)

    async def gives_data(self, queries: Mapping[str, str]) -> None:
        """Wait until each query gives a number; `queries` maps a name to each expression."""

        async def empty() -> set[str]:
            return {name for name, expr in queries.items() if not await self._has_data(expr)}

        await self._until_none("data of every query", empty)

    async def _has_data(self, expr: str) -> bool:
        found: list[Sample] = await asyncio.to_thread(self.prometheus.query, expr)
        return any(not math.isnan(it.value) for it in found)

    async def _until_none(self, what: str, left: Callable[[], Awaitable[set[str]]]) -> None:
        lacks: set[str] = set()
        with suppress(TimeoutError):
            async with asyncio.timeout(_SECONDS):
                while lacks := await _answered(left):  # noqa: ASYNC110 - of another process
                    await asyncio.sleep(_POLL_SECONDS)
                return
        firing = sorted(await asyncio.to_thread(self.prometheus.firing))
        raise AssertionError(
            f"not within {_SECONDS} s: {what}; left: {sorted(lacks)}; firing: {firing}\n"
            f"{self.world.scheduler.log_tail()}"
        )


@asynccontextmanager
async def watched(world: World, prometheus: Prometheus) -> AsyncIterator[Monitor]:
    """Changes a pod and a Node every second within the block, so that a watch without events has
    been lost.
    """
    gates = [{"name": "example.com/never"}]
    await world.create("beat", schedulingGates=gates)
    async with asyncio.TaskGroup() as group:
        beating = group.create_task(_beat(world), name="beat")
        monitor = Monitor(world, prometheus)
        await monitor.silent()
        yield monitor
        beating.cancel()


async def _beat(world: World) -> None:
    node, count = world.cluster.nodes[-1], 0
    while True:
        count += 1
        patch = {"metadata": {"annotations": {"example.com/beat": str(count)}}}
        # The story may have stopped the API server.
        with suppress(aiohttp.ClientError, TimeoutError, KubeAnswerError):
            await world.kube.patch("pods", "beat", patch, namespace=world.namespace)
            await world.kube.patch("nodes", node, patch)
        await asyncio.sleep(_BEAT_SECONDS)


async def _answered(left: Callable[[], Awaitable[set[str]]]) -> set[str]:
    try:
        return await left()
    except OSError:
        return {"an answer of Prometheus"}


def _texts(alert: dict[str, Any]) -> list[str]:
    return list(alert["annotations"].values())
