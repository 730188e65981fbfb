"""Plays the whole scheduler against the embedded cluster: users, operators and kubelets do what
they like, servers go away and come back, and the process dies at any of its writes.

At the end the auditor judges all of it. Then every pod runs, is over, or says
why it waits; and once all pods have gone nothing may be left.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from scheduler.sandbox.cluster import KUBE_APISERVER, SLURMCTLD, SLURMRESTD
from scheduler.sandbox.kube.kubelet import RUN_SECONDS, STOP_SECONDS
from scheduler.sandbox.kube.resources import NODES, PODS
from scheduler.sandbox.slurm.records import Job
from tests.crash.process import AROUND_WRITES, Death, Moment
from tests.crash.virtual_loop import VirtualLoop
from tests.crash.virtual_world import MERGE, VirtualWorld, virtual_world
from tests.support import pods

pytestmark = pytest.mark.timeout(300)
T = TypeVar("T")
_PODS = 4
_PICK = st.integers(0, _PODS)
_MOMENTS = st.sampled_from([0.0, 0.05, 1.0, 7.0])
_QUIET_SECONDS = 400.0
_TAINT = [{"key": "broken", "effect": "NoSchedule"}]


class WholeLife(RuleBasedStateMachine):
    """Two nodes, up to four pods at a time, one scheduler process after the other."""

    release = "26.05"

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.stack = AsyncExitStack()
        self.away: set[str] = set()
        self.made = 0

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def act(self, call: Callable[[], T], seconds: float = 0.0) -> T:
        """Within the loop; then let that much time pass."""

        async def acted() -> T:
            result = call()
            await asyncio.sleep(seconds)
            return result

        result = self.do(acted())
        if self.life.done():
            self.life.result()
        return result

    @initialize()
    def begin(self) -> None:
        random.seed(0)
        folder = Path(self.stack.enter_context(TemporaryDirectory()))
        self.world: VirtualWorld = self.do(
            self.stack.enter_async_context(virtual_world(folder, release=self.release))
        )
        self.do(self.world.begin())
        self.life = self.loop.create_task(self.world.live(), name="life")
        self.act(lambda: None, 1.0)

    def present(self) -> list[str]:
        """Pods that nobody has deleted yet."""
        return [
            pod["metadata"]["name"]
            for pod in self.world.kube.bodies(PODS)
            if "deletionTimestamp" not in pod["metadata"]
        ]

    def live_jobs(self) -> list[Job]:
        return [job for job in self.world.live_jobs() if job.alive]

    # --- users

    @precondition(lambda self: len(self.present()) < _PODS)
    @rule(
        runs=st.sampled_from([None, "1", "20"]),
        stops=st.sampled_from(["0.1", "3"]),
        cpus=st.sampled_from(["2", "40"]),
        seconds=_MOMENTS,
    )
    def create_pod(self, runs: str | None, stops: str, cpus: str, seconds: float) -> None:
        self.made += 1
        wishes = {STOP_SECONDS: stops} | ({} if runs is None else {RUN_SECONDS: runs})
        more: dict[str, Any] = {"annotations": wishes, "restartPolicy": "Never"}
        self.act(lambda: self.world.create(f"pod-{self.made}", cpus=cpus, **more), seconds)

    @precondition(lambda self: self.present())
    @rule(pick=_PICK, seconds=_MOMENTS)
    def delete_pod(self, pick: int, seconds: float) -> None:
        names = self.present()
        self.act(lambda: self.world.delete(names[pick % len(names)]), seconds)

    @precondition(lambda self: self.present())
    @rule(
        pick=_PICK,
        hold=st.sampled_from(["true", None]),
        timeout=st.sampled_from(["600", "1200", "soon", None]),
        comment=st.sampled_from(["one", "two", None]),
        seconds=_MOMENTS,
    )
    def edit_pod(
        self, pick: int, hold: str | None, timeout: str | None, comment: str | None, seconds: float
    ) -> None:
        names = self.present()
        edits = {"hold": hold, "timeout": timeout, "comment": comment}
        self.act(lambda: self.world.annotate(names[pick % len(names)], **edits), seconds)

    # --- operators, and what happens to servers

    @precondition(lambda self: SLURMCTLD not in self.away and self.live_jobs())
    @rule(pick=_PICK, seconds=_MOMENTS)
    def cancel_job(self, pick: int, seconds: float) -> None:
        jobs = self.live_jobs()
        job = jobs[pick % len(jobs)]
        self.act(lambda: self.world.cancel(job), seconds)

    @precondition(lambda self: KUBE_APISERVER not in self.away)
    @rule(which=st.integers(0, 1), tainted=st.booleans(), seconds=_MOMENTS)
    def taint_node(self, which: int, tainted: bool, seconds: float) -> None:
        node = self.world.sandbox.nodes[which]
        patch = {"spec": {"taints": _TAINT if tainted else None}}
        self.act(lambda: self.world.kube.patch(NODES, "", node, patch, content_type=MERGE), seconds)

    @precondition(lambda self: not self.away)
    @rule(which=st.sampled_from([KUBE_APISERVER, SLURMCTLD, SLURMRESTD]), seconds=_MOMENTS)
    def take_server_away(self, which: str, seconds: float) -> None:
        self.away.add(which)
        self.do(self.world.sandbox.stop(which))
        self.act(lambda: None, seconds)

    @precondition(lambda self: self.away)
    @rule(seconds=_MOMENTS)
    def bring_server_back(self, seconds: float) -> None:
        self.do(self.world.sandbox.start(self.away.pop()))
        self.act(lambda: None, seconds)

    # --- the process

    @rule(moment=st.sampled_from(AROUND_WRITES), later=st.integers(0, 6), seconds=_MOMENTS)
    def let_it_die(self, moment: Moment, later: int, seconds: float) -> None:
        process = self.world.processes[-1]
        self.act(lambda: process.doom(Death(moment, len(process.writes) + later)), seconds)

    @rule(seconds=_MOMENTS)
    def kill_it(self, seconds: float) -> None:
        self.act(self.world.processes[-1].die, seconds)

    @rule(seconds=st.sampled_from([2.0, 20.0, 90.0]))
    def pass_time(self, seconds: float) -> None:
        self.act(lambda: None, seconds)

    # --- the end

    def teardown(self) -> None:
        try:
            if hasattr(self, "world"):
                self.do(self.ended())
        finally:
            if hasattr(self, "life"):
                self.life.cancel()
                self.do(asyncio.wait({self.life}))
            self.do(self.stack.aclose())
            self.loop.close()

    async def ended(self) -> None:
        for which in self.away:
            await self.world.sandbox.start(which)
        for node in self.world.sandbox.nodes:
            patch = {"spec": {"taints": None}}
            self.world.kube.patch(NODES, "", node, patch, content_type=MERGE)
        await self.world.until("all is well, or told", self.all_told, seconds=_QUIET_SECONDS)
        await self.world.finish()

    def all_told(self) -> bool:
        found = list(self.world.kube.bodies(PODS))
        return all(map(_says_why, found))


def _says_why(pod: dict[str, Any]) -> bool:
    return pods.node_of(pod) is not None or bool(pods.why(pod))


class WholeLifeOfScripts(WholeLife):
    """With placeholders that are batch scripts."""

    release = "24.11"


_BRIEF = settings(max_examples=12, stateful_step_count=15, deadline=None)
TestWholeLife = WholeLife.TestCase
TestWholeLife.settings = _BRIEF
TestWholeLifeOfScripts = WholeLifeOfScripts.TestCase
TestWholeLifeOfScripts.settings = _BRIEF
