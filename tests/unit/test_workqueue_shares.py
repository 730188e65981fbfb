"""Who may take a key of the work queue, compared with a plain count of who works and who waits."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.observe.wake import WakeCause
from scheduler.reconcile.lanes import TenantLine
from scheduler.reconcile.workqueue import WorkQueue

LEVELS = 3
levels = st.integers(0, LEVELS - 1)
steps = st.lists(
    st.one_of(
        st.builds("{}{}.{}".format, st.sampled_from("ab"), levels, st.integers(0, 9)),
        st.tuples(st.just("a worker comes"), levels),
        st.tuples(st.just("a worker has done, or waits no longer"), st.integers(0, 9)),
    ),
    max_size=60,
)


class Worker(NamedTuple):
    least_urgent: int
    getting: asyncio.Task[str]

    def key(self) -> str | None:
        return self.getting.result() if self.getting.done() else None


class Workers:
    """Workers of a queue with keys such as `a1.7`, of tenant a and level 1."""

    def __init__(self) -> None:
        self.queue = WorkQueue[str](
            levels=LEVELS, level=lambda key: int(key[1]), line=lambda key: TenantLine(key[0])
        )
        self.all: list[Worker] = []
        self.keys: set[str] = set()

    def add(self, key: str) -> None:
        if key not in self.keys:
            self.keys.add(key)
            self.queue.add(key, WakeCause.WATCH)

    def come(self, least_urgent: int) -> None:
        getting = asyncio.ensure_future(self.queue.get(least_urgent))
        self.all.append(Worker(least_urgent, getting))

    def end(self, worker: Worker) -> None:
        self.all.remove(worker)
        key = worker.key()
        if key is None:
            worker.getting.cancel()
        else:
            self.keys.remove(key)
            self.queue.done(key)
            self.come(worker.least_urgent)

    def left(self) -> set[str]:
        """Keys that wait although, by a plain count, a worker that waits might take them."""
        found = self.keys - {it.key() for it in self.all}
        return {it for it in found if self._may_be_taken(it[0], int(it[1]))}

    def _may_be_taken(self, tenant: str, level: int) -> bool:
        serving = [it.key() for it in self.all if it.least_urgent >= level]
        held = sum(it is not None and it[0] == tenant for it in serving)
        return held < serving.count(None)


@given(steps=steps)
@settings(deadline=None)
def test_nobody_waits_for_what_he_may_take(steps: list[str | tuple[str, int]]) -> None:
    async def play() -> None:
        workers = Workers()
        for step in steps:
            if isinstance(step, str):
                workers.add(step)
            elif step[0] == "a worker comes":
                workers.come(step[1])
            elif step[1] < len(workers.all):
                workers.end(workers.all[step[1]])
            for _ in range(2 * len(workers.all) + 2):
                await asyncio.sleep(0)
            assert workers.left() == set()
        for worker in workers.all:
            worker.getting.cancel()

    asyncio.run(play())
