"""Disturbs schedulers and servers: one random disturbance after the other."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.faults import faults
from tests.faults.calls import CALLS, Call
from tests.faults.matrix import FAULTS, UNUSED, Row
from tests.stories.soak.replicas import Replica
from tests.support.cluster import Cluster

_PAST_THE_LEASE_SECONDS: Final = 17.0
_CALLS: Final = tuple(it for it in CALLS if it.name not in UNUSED)
# These end a process: a list that goes back in time, or a lease that cannot be kept.
_FATAL: Final = (faults.stale, faults.empty, faults.refused)
# Not delivered_twice: the proxy would repeat a write of the scheduler, and the auditor could not
# tell the two apart.
_ROWS: Final = tuple(it for it in FAULTS if it.fault is not faults.delivered_twice)


@dataclass(slots=True)
class Chaos:
    """Plays disturbances. `did` counts them by name."""

    cluster: Cluster
    replicas: Sequence[Replica]
    dice: random.Random
    did: Counter[str] = field(default_factory=Counter)

    async def run(self, *, mild: bool = False) -> None:
        """Disturb for ever; end it by cancelling, which waits until the present disturbance is
        over. With `mild`, no disturbance ends a process.
        """
        while True:
            await asyncio.sleep(self.dice.uniform(1, 4))
            one = asyncio.ensure_future(self._mild() if mild else self.dice.choice(self._all())())
            try:
                await asyncio.shield(one)
            except asyncio.CancelledError:
                await one
                raise

    def _all(self) -> tuple[Callable[[], Awaitable[None]], ...]:
        # Network faults are more frequent than all other disturbances together.
        return (*[self._network] * 8, self._kill, self._stop, self._stand_still, self._cut,
                self._restart_server)  # fmt: skip

    async def _mild(self) -> None:
        rows = [it for it in _ROWS if it.fault not in _FATAL]
        calls = [it for it in _CALLS if not it.name.endswith("_lease")]
        await self._play(rows, calls)

    async def _network(self) -> None:
        await self._play(_ROWS, _CALLS)

    async def _play(self, rows: Sequence[Row], calls: Sequence[Call]) -> None:
        row = self.dice.choice(rows)
        call = self.dice.choice([it for it in calls if row.fits(it)])
        who = self.dice.choice(self.replicas)
        rule = who.proxied.play.add(row.fault, call=call.name, times=self.dice.choice((1, 3, 20)))
        await asyncio.sleep(self.dice.uniform(1, 8))
        who.proxied.play.rules.remove(rule)
        if rule.played:
            self.did[f"network: {row.name}"] += 1

    async def _cut(self) -> None:
        self.dice.choice(self.replicas).proxied.cut()
        self.did["all connections of one scheduler cut"] += 1

    async def _kill(self) -> None:
        who = self._one()
        async with who.paused:
            self._count(who, "killed (SIGKILL)")
            await asyncio.to_thread(who.process.kill)

    async def _stop(self) -> None:
        who = self._one()
        async with who.paused:
            self._count(who, "stopped (SIGTERM)")
            await asyncio.to_thread(who.process.stop)

    async def _stand_still(self) -> None:
        who = self._one()
        async with who.paused:
            if not who.process.running:
                return
            self._count(who, "stood still (SIGSTOP) past its lease")
            who.process.suspend()
            await asyncio.sleep(_PAST_THE_LEASE_SECONDS)
            who.process.resume()

    async def _restart_server(self) -> None:
        name = self.dice.choice(("slurmctld", "slurmrestd", "kube-apiserver"))
        kill = name != "slurmctld" and self.dice.random() < 0.5
        self.did[f"{name} {'killed' if kill else 'stopped'} and started"] += 1
        await self.cluster.stop(name, kill=kill)
        await asyncio.sleep(self.dice.uniform(0, 5))
        await self.cluster.start(name)

    def _one(self) -> Replica:
        leading = [it for it in self.replicas if it.process.running and it.process.leads]
        return self.dice.choice(leading * 2 + list(self.replicas))

    def _count(self, who: Replica, what: str) -> None:
        leads = who.process.running and who.process.leads
        self.did[f"{'leader' if leads else 'standby'} {what}"] += 1
