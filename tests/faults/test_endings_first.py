"""The whole scheduler over HTTP, in virtual time: slow submits hold up no ending (I15)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

import pytest

from tests.crash.virtual_loop import VirtualLoop
from tests.faults.calls import Server
from tests.faults.exchange import Exchange
from tests.faults.playground import Playground, playground
from tests.support import pods

pytestmark = pytest.mark.timeout(300)

SUBMIT_SECONDS: Final = 5.0
NEW_PODS: Final = 400
WHOLE: Final = "64"  # CPUs of a node, so that what is new waits
# The playground's pulse, and what the requests of an eviction take on the way.
PULSE_SECONDS: Final = 1.5
THOUSANDS: Final = 2000
# Of the connections to Slurm. So many submits may be on their way when something urgent happens,
# and with a submit of 5 s no more can follow before that is seen and done.
CONNECTIONS: Final = 16


async def slow(exchange: Exchange) -> None:
    """A Slurm that is busy with submits."""
    await asyncio.sleep(SUBMIT_SECONDS)
    await exchange.relay()


def play(story: Callable[[Playground], Coroutine[Any, Any, None]], folder: Path) -> None:
    async def whole() -> None:
        async with playground(folder) as ground:
            ground.start()
            await story(ground)

    loop = VirtualLoop()
    try:
        loop.run_until_complete(whole())
    finally:
        loop.close()


def test_eviction_waits_for_no_submit(tmp_path: Path) -> None:
    async def story(ground: Playground) -> None:
        loop = asyncio.get_running_loop()
        first = ground.create()
        await ground.until("the first pod runs", lambda: ground.running(first), seconds=60)
        ground.play.add(slow, server=Server.SLURM, call="submit", times=None)
        for _ in range(NEW_PODS):
            ground.create()
        await asyncio.sleep(3 * SUBMIT_SECONDS)
        before = ground.play.seen()["submit"]
        assert before < NEW_PODS / 2, "the submits are not slow"
        ended = loop.time()
        ground.scancel(first)

        def going() -> bool:
            pod = ground.pod(first)
            return pod is None or pods.leaving(pod)

        await ground.until("the pod goes", going, seconds=60)
        assert loop.time() - ended < 1.0 + PULSE_SECONDS

    play(story, tmp_path)


def test_endings_and_bindings_come_before_submits_and_second_words_after(tmp_path: Path) -> None:
    """By the order in which both servers are asked, with thousands of pods that are new."""

    async def story(ground: Playground) -> None:
        first = ground.create(cpus=WHOLE)
        await ground.until("the first pod runs", lambda: ground.running(first), seconds=60)
        second = ground.create(cpus=WHOLE)
        await ground.until("the second waits", lambda: _job_waits(ground, second), seconds=60)
        ground.play.add(slow, server=Server.SLURM, call="submit", times=None)
        new = {ground.create(cpus=WHOLE) for _ in range(THOUSANDS)}
        await asyncio.sleep(3 * SUBMIT_SECONDS)
        asked = ground.play.journal
        quiet = len(asked)
        ground.scancel(first)
        await ground.until("the second pod is bound", lambda: _is_bound(ground, second), seconds=60)
        hurry = [it.name for it in asked[quiet:]]
        for urgent in ("delete_pod", "bind"):
            submits_before = hurry[: hurry.index(urgent)].count("submit")
            assert submits_before <= CONNECTIONS, f"{submits_before} submits came before {urgent}"
        await asyncio.sleep(6 * SUBMIT_SECONDS)

        def told() -> Counter[str]:
            names = (it.target.split("/")[-2] for it in asked if it.name == "patch_pod_status")
            return Counter(name for name in names if name in new)

        # The first words about a job come before the other submits, and no others do.
        await ground.until("pods are told of their jobs", lambda: bool(told()), seconds=10)
        assert max(told().values()) == 1, "told of again while others are not asked for"
        submits = ground.play.seen()["submit"]
        assert told().total() <= submits < THOUSANDS

    play(story, tmp_path)


def _job_waits(ground: Playground, name: str) -> bool:
    pod = ground.pod(name)
    return pod is not None and any(it.alive for it in ground.jobs(pod))


def _is_bound(ground: Playground, name: str) -> bool:
    pod = ground.pod(name)
    return pod is not None and pods.node_of(pod) is not None
