"""How long a failover takes: from the failure of the leader until the other scheduler leads, and
until a pod that was created in that moment is bound.

    python -m benchmarks.failover --rounds 5                                 # sandbox
    python -m benchmarks.failover --on live --release 26.05 --rounds 5       # as root

Two schedulers with the default lease (15 s, 10 s, 2 s) lead in turn.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.clusters import cluster_on
from benchmarks.command import check_number, status_of
from tests.support import pods
from tests.support.cluster import Cluster
from tests.support.kube import Kube
from tests.support.replicas import Replica, access, replica

_LOOK_SECONDS: Final = 0.02
_LONGEST_SECONDS: Final = 60.0

Act = Callable[[Replica], object]


@dataclass(frozen=True, slots=True)
class Case:
    """A failure of the leader, and the action that brings it back as a standby."""

    name: str
    befalls: Act
    mends: Act


def _resume(it: Replica) -> None:
    it.process.resume()
    it.process.ended(seconds=_LONGEST_SECONDS)
    it.process.start()


def _heal(it: Replica) -> None:
    it.process.ended(seconds=_LONGEST_SECONDS)
    it.kube.heal()
    it.process.start()


CASES: Final = (
    Case("stopped (SIGTERM)", lambda it: it.process.stop(), lambda it: it.process.start()),
    Case("killed (SIGKILL)", lambda it: it.process.kill(), lambda it: it.process.start()),
    Case("stands still (SIGSTOP)", lambda it: it.process.suspend(), _resume),
    Case("no way to the API server", lambda it: it.kube.cut(), _heal),
)


class Pair:
    """Two schedulers; each measurement first finds out which of them leads."""

    def __init__(self, cluster: Cluster, kube: Kube, namespace: str, both: list[Replica]) -> None:
        self._cluster = cluster
        self._kube = kube
        self._namespace = namespace
        self._both = both
        self._pods = 0

    async def measure(self, case: Case) -> tuple[float, float]:
        """Seconds until the other one leads, and until the pod is bound."""
        await _until(lambda: _said(any(it.process.leads for it in self._both)))
        leader, other = sorted(self._both, key=lambda it: not it.process.leads)
        began = time.monotonic()
        fault = asyncio.create_task(asyncio.to_thread(case.befalls, leader))
        name = f"pod-{self._pods}"
        self._pods += 1
        body = pods.pod(name, container=self._cluster.container)
        await self._kube.create("pods", body, namespace=self._namespace)
        await _until(lambda: asyncio.to_thread(lambda: other.process.leads))
        leads = time.monotonic()
        await _until(lambda: self._bound(name))
        bound = time.monotonic()
        await fault
        await asyncio.to_thread(case.mends, leader)
        await self._kube.delete("pods", name, namespace=self._namespace, grace_seconds=0)
        return leads - began, bound - began

    async def _bound(self, name: str) -> bool:
        return (
            pods.node_of(await self._kube.get("pods", name, namespace=self._namespace)) is not None
        )


async def _said(answer: bool) -> bool:
    return answer


async def _until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(_LONGEST_SECONDS):
        while not await holds():  # noqa: ASYNC110 - of another process
            await asyncio.sleep(_LOOK_SECONDS)


async def _measure(cluster: Cluster, cases: list[Case], rounds: int, folder: Path) -> None:
    async with AsyncExitStack() as stack:
        client = Kube(cluster.kube_url, token=cluster.kube_token, ca=cluster.kube_ca)
        kube = await stack.enter_async_context(client)
        namespace = f"bench-{secrets.token_hex(4)}"
        await kube.create_namespace(namespace)
        both = []
        for name in ("one", "two"):
            token = await stack.enter_async_context(access(kube, cluster, namespace, name))
            made = replica(
                cluster, folder=folder, name=name, namespace=namespace, token=token, flags=()
            )
            both.append(stack.enter_context(made))
            await asyncio.to_thread(both[-1].process.start)
        pair = Pair(cluster, kube, namespace, both)
        print(f"{cluster.name}: seconds, median (least to most) of {rounds}")
        print(f"{'the leader':28} {'another leads':>24} {'a new pod is bound':>24}")
        for case in cases:
            took = [await pair.measure(case) for _ in range(rounds)]
            shown = (_shown([it[column] for it in took]) for column in (0, 1))
            print(f"{case.name:28} {' '.join(shown)}", flush=True)


def _shown(took: list[float]) -> str:
    return f"{f'{statistics.median(took):.2f}  ({min(took):.2f} to {max(took):.2f})':>24}"


def main() -> int:
    """Measure and print; gives the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.failover", description=__doc__)
    parser.add_argument("--on", choices=("sandbox", "live"), default="sandbox")
    parser.add_argument("--release", choices=("24.11", "26.05"), default="26.05")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="cases whose name begins so")
    asked = parser.parse_args()
    check_number(parser, "--rounds", asked.rounds, within=(1, 1000))
    if not any(case.name.startswith(asked.only) for case in CASES):
        known = ", ".join(case.name for case in CASES)
        parser.error(f"--only is {asked.only!r}: expected the beginning of one of {known}")
    return status_of("failover", partial(_work, asked), TimeoutError)


def _work(asked: argparse.Namespace) -> None:
    cases = [case for case in CASES if case.name.startswith(asked.only)]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        asyncio.run(
            _measure(cluster_on(stack, asked.on, asked.release), cases, asked.rounds, folder)
        )


if __name__ == "__main__":
    sys.exit(main())
