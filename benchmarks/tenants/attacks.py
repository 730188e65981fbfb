"""The hostile tenants: each does one thing without end, as fast as the API server lets it, up to a
pace that a person with a script would reach.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import aiohttp

from benchmarks.tenants.silent import Face, SilentProcess
from tests.support import pods
from tests.support.kube import Kube, KubeAnswerError, Object

# Writes of one tenant each second; the API server's own limits are about there.
_EDITS_PER_SECOND: Final = 50.0
_FOREIGN_BYTES: Final = 250_000
_LIST_PODS: Final = 5
_LISTS_EVERY_SECONDS: Final = 10.0
_EXPANDS: Final = f"{'a' * 1000}[1-16384]"
# Slurm never starts a held job: the pods of these tenants take no room from the honest one.
_HELD: Final = {"hold": "true"}

Attack = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What the tenants can reach. `silent` is how many connections each face gets."""

    kube: Kube
    namespace: str
    probe_port: int
    metrics_port: int
    hooks_port: int
    silent: int


class Tenants:
    """All attacks at once, counted by name in `done`."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._numbers = itertools.count()
        self.done: dict[str, int] = {}

    async def run(self) -> None:
        """Attack until cancelled."""
        attacks: dict[str, Attack] = {
            "edits of a pod that waits": self._edits,
            "edits into what is refused": self._refusals,
            "node lists that expand": self._lists,
            "foreign annotations of 250 kB": self._foreign,
        }
        faces = (
            Face("hooks", self._target.hooks_port, tls=True),
            Face("metrics", self._target.metrics_port, tls=False),
            Face("health", self._target.probe_port, tls=False),
        )
        silent = await SilentProcess.start(faces, self._target.silent)
        try:
            async with asyncio.TaskGroup() as group:
                for name, attack in attacks.items():
                    self.done[name] = 0
                    group.create_task(self._repeat(name, attack), name=name)
        finally:
            for name, count in (await silent.end()).items():
                self.done[f"silent connections to {name}"] = count

    async def _repeat(self, name: str, attack: Attack) -> None:
        while True:
            with suppress(KubeAnswerError, aiohttp.ClientError, TimeoutError):
                await attack()
                self.done[name] += 1

    async def _edits(self) -> None:
        """Each edit changes the pending job, is tried as a submit first, or needs a new job."""
        number = next(self._numbers)
        change = (("comment", f"edit {number}"), ("qos", f"q{number}"), ("gres", f"x:{number}"))
        key, value = change[number % len(change)]
        await self._edit("edited", {f"{pods.PREFIX}{key}": value})

    async def _refusals(self) -> None:
        """Each edit is wrong in another way, which the pod's owner is to hear of."""
        await self._edit("refused", {f"{pods.PREFIX}timeout": f"never {next(self._numbers)}"})

    async def _foreign(self) -> None:
        """Write annotations that do not concern the scheduler."""
        filler = f"{next(self._numbers):08d}".ljust(_FOREIGN_BYTES, "x")
        await self._edit("foreign", {"example.com/filler": filler})

    async def _lists(self) -> None:
        """Create and delete a few pods that name millions of nodes in a kilobyte."""
        number = next(self._numbers)
        names = [f"lists-{number}-{index}" for index in range(_LIST_PODS)]
        lists = {"required-nodes": _EXPANDS, "excluded-nodes": _EXPANDS}
        for name in names:
            pod = pods.pod(name, slurm=lists | _HELD)
            await self._target.kube.create("pods", pod, namespace=self._target.namespace)
        await asyncio.sleep(_LISTS_EVERY_SECONDS)
        for name in names:
            await self._target.kube.delete(
                "pods", name, namespace=self._target.namespace, grace_seconds=0
            )

    async def _edit(self, name: str, annotations: dict[str, str]) -> None:
        """Edit the pod of that name; create it if it does not exist."""
        kube, namespace = self._target.kube, self._target.namespace
        await asyncio.sleep(1 / _EDITS_PER_SECOND)
        patch: Object = {"metadata": {"annotations": annotations}}
        try:
            await kube.patch("pods", name, patch, namespace=namespace)
        except KubeAnswerError as refusal:
            if refusal.status != 404:
                raise
            await kube.create("pods", pods.pod(name, slurm=_HELD), namespace=namespace)
