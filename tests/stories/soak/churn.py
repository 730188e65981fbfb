"""Makes pods come and go: some end by themselves, others are deleted, edited or lose their job."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import aiohttp

from tests.support import pods
from tests.support.kube import KubeAnswerError
from tests.support.world import World

_AT_ONCE: Final = 16
_CPUS: Final = ("1", "2", "8", "16")
_LONGEST_SECONDS: Final = 60.0


@dataclass(slots=True)
class Churn:
    """Keeps about `count` pods in the namespace. `did` counts what was done to them."""

    world: World
    count: int
    dice: random.Random
    did: Counter[str] = field(default_factory=Counter)
    _number: int = 0

    async def run(self) -> None:
        """Work for ever; end it by cancelling."""
        async with asyncio.TaskGroup() as group:
            for _ in range(_AT_ONCE):
                group.create_task(self._hand(), name="hand")

    async def _hand(self) -> None:
        """Act as one user of the cluster, for ever."""
        while True:
            with suppress(aiohttp.ClientError, KubeAnswerError, TimeoutError):
                await self._step()
            await asyncio.sleep(self.dice.uniform(0.1, 0.6))

    async def _step(self) -> None:
        found = await self.world.kube.items("pods", namespace=self.world.namespace)
        names = [it["metadata"]["name"] for it in found if not pods.leaving(it)]
        if len(names) < self.count:
            await self._create()
            return
        deeds: tuple[Callable[[str], Awaitable[None]], ...] = (
            self._delete, self._delete, self._edit, self._scancel
        )  # fmt: skip
        await self.dice.choice(deeds)(self.dice.choice(names))

    async def _create(self) -> None:
        self._number += 1
        ends = self.dice.random() < 0.5
        seconds = self.dice.uniform(1, _LONGEST_SECONDS)
        await self.world.create(
            f"churn-{self._number}",
            cpus=self.dice.choice(_CPUS),
            annotations={"sandbox/run-seconds": f"{seconds:.1f}"} if ends else {},
            restartPolicy="Never",
        )
        self.did["created, to end by themselves" if ends else "created"] += 1

    async def _delete(self, name: str) -> None:
        await self.world.delete(name)
        self.did["deleted"] += 1

    async def _edit(self, name: str) -> None:
        await self.world.edit(name, timeout=str(60 * self.dice.randrange(60, 600)))
        self.did["edited"] += 1

    async def _scancel(self, name: str) -> None:
        pod = await self.world.kube.find("pods", name, namespace=self.world.namespace)
        job_id = None if pod is None else pods.annotation(pod, pods.JOB_ID)
        record = None if job_id is None else await self.world.slurm.job(int(job_id))
        if pod is not None and record and pod["metadata"]["uid"] in record.tag.get("uids", ()):
            await self.world.slurm.cancel(record.job_id)
            self.did["their job cancelled"] += 1
