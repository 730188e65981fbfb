"""Two schedulers of one name, each behind fault proxies, restarted as kubelets would do it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.faults.cluster import ProxiedCluster
from tests.support.cluster import Cluster
from tests.support.scheduler import SchedulerProcess

_LOOK_SECONDS: Final = 0.2
# The pause before a restart. A kubelet pauses too, but longer.
_PAUSE_SECONDS: Final = 1.0


@dataclass(slots=True)
class Replica:
    """One of the two schedulers. `starts` counts how often it was started."""

    name: str
    process: SchedulerProcess
    proxied: ProxiedCluster
    starts: int = 0
    paused: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by the code that ends the process, so that `keep_alive` does not start it meanwhile."""

    async def keep_alive(self) -> None:
        """Start the process whenever it does not run, for ever."""
        while True:
            async with self.paused:
                if not self.process.running:
                    await self.start()
            await asyncio.sleep(_LOOK_SECONDS)

    async def start(self) -> None:
        """Start it once. If faults keep it from getting ready, the caller tries again."""
        self.starts += 1
        with suppress(AssertionError):
            await asyncio.to_thread(self.process.start)
            return
        await asyncio.sleep(_PAUSE_SECONDS)


@contextmanager
def replicas(cluster: Cluster, *, folder: Path, namespace: str) -> Iterator[list[Replica]]:
    """Two replicas, not started yet. At the end of the block their processes are killed."""
    with ExitStack() as stack:
        found = []
        for name in ("one", "two"):
            own = folder / name
            own.mkdir()
            proxied = stack.enter_context(ProxiedCluster(cluster, folder=own))
            flags = ("--leader-elect", f"--leader-elect-resource-namespace={namespace}")
            process = SchedulerProcess(proxied, folder=own, flags=flags)
            stack.callback(process.kill)
            found.append(Replica(name, process, proxied))
        yield found
