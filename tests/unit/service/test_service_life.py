"""Plays the service against a truthful Slurm and Kubernetes: pods come and go, jobs start, end, are
requeued and forgotten, answers are lost, Slurm is away, and our process is killed at any moment.

Virtual time, so that hours pass in a second. After each step the invariants hold; in the end all
pods go, and nothing may be left in Slurm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import looptime
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from annotations import PREFIX
from scheduler.core.owner_tag import read_tag
from slurmapi import BaseState, Job, SlurmUnreachable
from tests.support.virtual_time import POLLS
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import OWNER, Service
from tests.unit.service.tiny_slurm import TinySlurm

T = TypeVar("T")
ENDINGS = [
    BaseState.COMPLETED,
    BaseState.CANCELLED,
    BaseState.FAILED,
    BaseState.TIMEOUT,
    BaseState.NODE_FAIL,
    BaseState.PREEMPTED,
]
# How long a decision may rest on a look at Slurm, and a little for carrying it out.
RECENT_SECONDS = 2.5
PODS = 3
PICK = st.integers(0, 5)


def owner_uid(job: Job) -> str | None:
    tag = read_tag(job.admin_comment)
    return tag.uids[0] if tag is not None and tag.owner == OWNER else None


class Life(RuleBasedStateMachine):
    """Two nodes, up to three pods at a time, one scheduler."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = looptime.new_event_loop(noop_cycles=POLLS)
        self.pods_made = 0
        self.away_until = 0.0
        self.disturbed_at = -1e9
        self.evidence: set[str] = set()  # uids whose job has ended, or was requeued

    def inside(self, call: Callable[..., T], *args: Any, **named: Any) -> T:
        async def run() -> T:
            return call(*args, **named)

        return self.loop.run_until_complete(run())

    def pass_time(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))
        self.service.unharmed()

    @initialize()
    def begin(self) -> None:
        self.slurm = TinySlurm()
        self.kube = self.inside(TinyKube)
        self.slurm.on_cancel = self.cancelled
        self.kube.on_bind = self.bound
        self.kube.on_delete = self.evicted
        self.service = self.inside(Service, self.slurm, self.kube)
        self.inside(self.service.start)

    # --- what may never happen

    def cancelled(self, job: Job) -> None:
        uid = owner_uid(job)
        assert uid is not None, f"cancelled a job that is not ours: {job}"
        self.evidence.add(uid)
        if job.state.base is BaseState.RUNNING and self.kube.runs(uid):
            node = self.kube.pods[uid].spec.node_name
            assert node not in job.nodes, f"pod {uid} runs on {node}, but {job} was cancelled"

    def bound(self, uid: str, node: str) -> None:
        assert uid not in {seen for seen, _ in self.kube.bindings}, f"pod {uid} bound twice"
        assert self.holds(uid, node) or self.disturbed(), f"{uid} bound to {node}, not held"

    def evicted(self, uid: str) -> None:
        assert uid in self.evidence, f"pod {uid} evicted without evidence"
        node = self.kube.pods[uid].spec.node_name
        assert not (node and self.holds(uid, node)) or self.disturbed(), f"{uid} still holds {node}"

    def holds(self, uid: str, node: str) -> bool:
        return any(
            owner_uid(job) == uid
            and job.state.base is BaseState.RUNNING
            and not job.state.configuring
            and node in job.nodes
            for job in self.slurm.jobs.values()
        )

    def disturbed(self) -> bool:
        return self.loop.time() - self.disturbed_at < RECENT_SECONDS

    @invariant()
    def no_unit_has_two_running_jobs(self) -> None:
        running = [
            owner_uid(job)
            for job in self.live_jobs()
            if job.state.base is BaseState.RUNNING and owner_uid(job)
        ]
        assert len(set(running)) == len(running)

    def live_jobs(self) -> list[Job]:
        if not hasattr(self, "slurm"):
            return []
        return [job for job in self.slurm.jobs.values() if not job.state.ended]

    def ours(self, *bases: BaseState) -> list[Job]:
        return [it for it in self.live_jobs() if it.state.base in bases and owner_uid(it)]

    # --- Kubernetes

    @precondition(lambda self: len(self.kube.pods) < PODS)
    @rule(seconds=st.sampled_from([0.0, 0.02, 0.5]))
    def create_pod(self, seconds: float) -> None:
        self.pods_made += 1
        uid = f"{self.pods_made:08}-uid"
        self.inside(self.kube.create, uid, name=f"train-{self.pods_made}")
        self.pass_time(seconds)

    @precondition(lambda self: self.kube.pods)
    @rule(
        pick=st.integers(0, PODS),
        comment=st.sampled_from(["one", "two", None]),
        timeout=st.sampled_from(["600", "soon", None]),
        seconds=st.sampled_from([0.0, 0.5, 3.0]),
    )
    def edit_pod(self, pick: int, comment: str | None, timeout: str | None, seconds: float) -> None:
        """A timeout that is taken away needs a new job, one that is no number has none."""
        uid = list(self.kube.pods)[pick % len(self.kube.pods)]
        edits = {PREFIX + "comment": comment, PREFIX + "timeout": timeout}
        self.inside(self.kube.edit, uid, edits)
        self.pass_time(seconds)

    @precondition(lambda self: self.kube.pods)
    @rule(pick=PICK)
    def delete_pod(self, pick: int) -> None:
        self.kube.delete(self.some(self.kube.pods, pick))

    @precondition(lambda self: any(map(self.kube.runs, self.kube.pods)))
    @rule(pick=PICK)
    def end_containers(self, pick: int) -> None:
        self.kube.end_containers(self.some(filter(self.kube.runs, self.kube.pods), pick))

    @rule(name=st.sampled_from(["n1", "n2"]), ready=st.booleans())
    def turn_node(self, name: str, ready: bool) -> None:
        self.kube.set_node(name, ready=ready)

    # --- Slurm

    @precondition(lambda self: any(map(self.slurm.may_start, self.slurm.jobs)))
    @rule(
        flags=st.sampled_from([(), (), ("CONFIGURING",)]), seconds=st.sampled_from([0.0, 1.0, 3.0])
    )
    def start_jobs(self, flags: tuple[str, ...], seconds: float) -> None:
        for job_id in list(self.slurm.jobs):
            if self.slurm.may_start(job_id):
                self.slurm.start(job_id, *flags)
        self.disturb()
        self.pass_time(seconds)

    @precondition(lambda self: any(job.state.configuring for job in self.live_jobs()))
    @rule()
    def end_configuring(self) -> None:
        for job in self.live_jobs():
            if job.state.configuring:
                self.slurm.change(job.job_id, BaseState.RUNNING)

    @precondition(lambda self: self.live_jobs())
    @rule(pick=PICK, base=st.sampled_from(ENDINGS))
    def end_job(self, pick: int, base: BaseState) -> None:
        job = self.some(self.live_jobs(), pick)
        self.evidence.add(owner_uid(job) or "")
        self.disturb()
        self.slurm.end(job.job_id, base)

    @precondition(lambda self: self.ours(BaseState.RUNNING))
    @rule(pick=PICK)
    def requeue_job(self, pick: int) -> None:
        job = self.some(self.ours(BaseState.RUNNING), pick)
        self.evidence.add(owner_uid(job) or "")
        self.disturb()
        self.slurm.requeue(job.job_id)

    @precondition(lambda self: any(job.state.ended for job in self.slurm.jobs.values()))
    @rule()
    def forget_ended_jobs(self) -> None:
        for job in list(self.slurm.jobs.values()):
            if job.state.ended:
                self.slurm.forget(job.job_id)

    @precondition(lambda self: self.ours(BaseState.RUNNING, BaseState.PENDING))
    @rule(pick=PICK, seconds=st.sampled_from([3.0, 20.0]))
    def crash_and_lose_a_job(self, pick: int, seconds: float) -> None:
        """slurmctld comes back with an older state: the job was never there."""
        job = self.some(self.ours(BaseState.RUNNING, BaseState.PENDING), pick)
        self.disturb()
        self.slurm.forget(job.job_id)
        self.take_slurm_away(seconds)

    @precondition(lambda self: self.ours(BaseState.RUNNING))
    @rule(pick=PICK, seconds=st.sampled_from([3.0, 20.0]))
    def crash_and_forget_a_start(self, pick: int, seconds: float) -> None:
        job = self.some(self.ours(BaseState.RUNNING), pick)
        self.disturb()
        self.slurm.change(job.job_id, BaseState.PENDING, nodes=())
        self.take_slurm_away(seconds)

    @precondition(lambda self: self.ours(BaseState.RUNNING, BaseState.PENDING))
    @rule(seconds=st.sampled_from([3.0, 20.0]))
    def crash_and_give_the_id_to_another(self, seconds: float) -> None:
        """The newest job is forgotten, and its id given to a job of somebody else (measured)."""
        job = max(self.ours(BaseState.RUNNING, BaseState.PENDING), key=lambda it: it.job_id)
        self.disturb()
        self.slurm.forget(job.job_id)
        last = self.slurm.next_id
        self.slurm.next_id = job.job_id
        self.slurm.add(state=job.state, nodes=job.nodes)
        self.slurm.next_id = last
        self.take_slurm_away(seconds)

    @rule(seconds=st.sampled_from([0.1, 3.0]))
    def take_slurm_away(self, seconds: float) -> None:
        """Nothing answers for a while; then no call is left to fail."""
        for operation in ("ping", "submit", "job", "states", "all_states", "cancel"):
            self.slurm.fail[operation].extend([SlurmUnreachable("connection refused")] * 1000)
        self.pass_time(seconds)
        self.slurm.fail.clear()

    @rule()
    def lose_the_answer_to_the_next_submit(self) -> None:
        self.slurm.lose_next_submit = True

    # --- we

    @rule(seconds=st.sampled_from([0.003, 0.3, 1.0, 5.0, 70.0]))
    def wait(self, seconds: float) -> None:
        self.pass_time(seconds)

    @rule()
    def kill_us(self) -> None:
        self.loop.run_until_complete(self.service.kill())
        self.kube.relist()
        self.service = self.inside(Service, self.slurm, self.kube)
        self.inside(self.service.start)

    # --- the end

    def teardown(self) -> None:
        try:
            if hasattr(self, "service"):
                self.all_get_served()
                self.all_goes()
        finally:
            if hasattr(self, "service"):
                self.loop.run_until_complete(self.service.kill())
            self.loop.close()

    def all_get_served(self) -> None:
        """With both nodes free for it, each pod gets one."""
        self.slurm.lose_next_submit = False
        for name in ("n1", "n2"):
            self.kube.set_node(name)
        for uid in self.kube.pods:
            self.inside(self.kube.edit, uid, {PREFIX + "timeout": None})
        for _ in range(40):
            if all(pod.spec.node_name for pod in self.kube.pods.values()):
                return
            for job in self.live_jobs():
                if not owner_uid(job):
                    self.slurm.end(job.job_id, BaseState.COMPLETED)
            for uid in [uid for uid, pod in self.kube.pods.items() if pod.spec.node_name]:
                self.finish(uid)
            self.pass_time(3)
            self.end_configuring()
            self.start_jobs((), 15.0)
        waiting = [uid for uid, pod in self.kube.pods.items() if not pod.spec.node_name]
        assert not waiting, f"never bound: {waiting}; {self.live_jobs()}"

    def all_goes(self) -> None:
        """No pod is left, and soon after no job of ours."""
        for uid in list(self.kube.pods):
            self.finish(uid)
        for _ in range(40):
            if not self.ours(*BaseState) and not len(self.service.units):
                return
            self.pass_time(15)
        raise AssertionError(f"left in Slurm: {self.ours(*BaseState)}, {list(self.service.units)}")

    def finish(self, uid: str) -> None:
        self.kube.delete(uid)
        if uid in self.kube.pods:
            self.kube.end_containers(uid)

    def disturb(self) -> None:
        self.disturbed_at = self.loop.time()

    @staticmethod
    def some(things: Any, pick: int) -> Any:
        listed = list(things)
        return listed[pick % len(listed)]


TestLife = Life.TestCase
# With 60 it took 230 s on a crowded machine, near its limit.
TestLife.settings = settings(max_examples=40, stateful_step_count=30)
# 1200 steps of the whole service: by far the most work of all tests without a server.
pytestmark = pytest.mark.timeout(300)
