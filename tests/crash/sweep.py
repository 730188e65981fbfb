"""Plays a scenario with a death at a point, and lists the points that there are."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from tests.crash.process import LATE_SECONDS, Death, Moment, Process, Write
from tests.crash.scenarios import SCENARIOS, Scenario
from tests.crash.virtual_loop import VirtualLoop
from tests.crash.virtual_world import METRICS, VirtualWorld, virtual_world

# What a process finds at its start it has dealt with by then, as far as it does not have to wait.
RECOVERY_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Point:
    """A death, and in words what the process was about."""

    death: Death
    what: str

    def __str__(self) -> str:
        return f"{self.death.number}: {self.what}, {self.death.moment.value}"


@dataclass(frozen=True, slots=True)
class Played:
    """How a story went: its processes, and, where none has died, what the only one has called."""

    processes: tuple[Process, ...]
    operations: frozenset[str]


def play(scenario: Scenario, *deaths: Death) -> Played:
    """Tell the story from its beginning to a clean end.

    Raises AssertionError where something was lost, doubled or harmed, or does not come to its end.
    """
    with TemporaryDirectory() as folder, asyncio.Runner(loop_factory=VirtualLoop) as runner:
        random.seed(0)
        return runner.run(_played(scenario, deaths, Path(folder)))


async def _played(scenario: Scenario, deaths: Sequence[Death], folder: Path) -> Played:
    async with virtual_world(
        folder,
        release=scenario.release,
        flags=scenario.flags,
        hooks=scenario.hooks,
        **scenario.shape,
    ) as world:
        await world.begin()
        life = asyncio.create_task(world.live(*deaths), name="life")
        story = asyncio.create_task(_story(scenario, world, deaths), name="story")
        try:
            await asyncio.wait({life, story}, return_when=asyncio.FIRST_COMPLETED)
            if life.done():
                life.result()  # says why
            operations = await story
        finally:
            for task in (story, life):
                task.cancel()
            await asyncio.gather(story, life, return_exceptions=True)
        return Played(tuple(world.processes), operations)


async def _story(
    scenario: Scenario, world: VirtualWorld, deaths: Sequence[Death]
) -> frozenset[str]:
    await scenario.play(world)
    if any(it.moment is Moment.LATE for it in deaths):
        await asyncio.sleep(LATE_SECONDS)  # what is to be cleared away has arrived
    await world.finish()
    return frozenset() if deaths else await _operations()


async def _operations() -> frozenset[str]:
    """What the process says it has called, by its metrics."""
    async with aiohttp.ClientSession() as session, session.get(METRICS) as response:
        text = await response.text()
    return frozenset(
        sample.labels["operation"]
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.endswith("_requests_total") and "operation" in sample.labels
    )


@cache
def _undisturbed(scenario: str) -> Process:
    """The only process of a life without a death."""
    (only,) = play(next(it for it in SCENARIOS if it.name == scenario)).processes
    return only


def points(scenario: Scenario, moment: Moment) -> Iterator[Point]:
    """Every point of that moment, as a life without a death shows them."""
    for number, what in enumerate(_undisturbed(scenario.name).passed(moment)):
        yield Point(Death(moment, number), what)


class Recoveries:
    """The points of what processes do first that come after a death.

    What is still to be done when such a process dies, is what the next one finds: where that is the
    same, one of them is enough.
    """

    def __init__(self, moment: Moment) -> None:
        self._moment = moment
        self._seen: set[tuple[str, ...]] = set()

    def new(self, played: Played) -> Iterator[Point]:
        """Those of the second process of that story, if it had one, that none before has had."""
        writes = [it for each in played.processes[1:2] for it in each.writes if _recovers(it)]
        for begin, write in enumerate(writes):
            left = tuple(it.what for it in writes[begin:])
            if left not in self._seen:
                self._seen.add(left)
                yield Point(Death(self._moment, write.number), write.what)


def _recovers(write: Write) -> bool:
    """Whether it mends what the death before has left; an Event is lost with its process."""
    return write.at < RECOVERY_SECONDS and not write.what.endswith("/events")


def reached(process: Process, point: Point) -> bool:
    """Whether the process has died there, and not elsewhere or never."""
    done = process.passed(point.death.moment)
    return process.died.is_set() and done[point.death.number :][:1] == [point.what]
