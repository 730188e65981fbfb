"""Controllers make a new pod at once for each that ends: what that costs Slurm is bounded."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

import pytest

from scheduler.sandbox.kube.kubelet import EXIT_CODE, RUN_SECONDS
from scheduler.sandbox.kube.patches import MERGE_PATCH
from scheduler.sandbox.kube.resources import DEPLOYMENTS, EVENTS, JOBS, PODS
from scheduler.sandbox.slurm.records import Job, State
from tests.crash.virtual_loop import VirtualLoop
from tests.faults.playground import NAMESPACE, Playground, playground
from tests.support import pods
from tests.support.model_jobs import placeholders_of, uids

pytestmark = pytest.mark.timeout(300)

Body = dict[str, Any]
REASON: Final = "ControllerBackOff"
STEP_SECONDS: Final = 0.5
# The pauses 0, 10, 20, ... s, of which up to a quarter is taken away, and what a round takes.
MOST_IN_A_MINUTE: Final = 5
MOST_IN_FIVE_MINUTES: Final = 7


class Ground:
    """Controllers and what becomes of their pods, under a scheduler in virtual time."""

    def __init__(self, ground: Playground) -> None:
        self.ground, self.kube, self.slurm = ground, ground.kube, ground.slurm
        self.asked: dict[int, float] = {}
        self.messages: dict[str, str] = {}
        self.end_when = State.RUNNING
        self.is_bad: Callable[[Body], bool] = lambda _pod: False

    def deploy(self, replicas: int, **annotations: str) -> None:
        template = pods.pod("web", cpus="1", annotations=annotations)
        del template["metadata"]["name"]
        selector = {"matchLabels": {"app": "web"}}
        spec = {"replicas": replicas, "selector": selector, "template": template}
        self.kube.create(DEPLOYMENTS, NAMESPACE, {"metadata": {"name": "web"}, "spec": spec})

    def change(self, **spec: Any) -> None:
        """Another template, or another number of replicas."""
        self.kube.patch(DEPLOYMENTS, NAMESPACE, "web", {"spec": spec}, content_type=MERGE_PATCH)

    def batch(self, completions: int, **annotations: str) -> None:
        template = pods.pod("batch", cpus="1", annotations=annotations, restartPolicy="Never")
        del template["metadata"]["name"]
        spec = {
            "completions": completions,
            "parallelism": 4,
            "backoffLimit": completions,
            "template": template,
        }
        self.kube.create(JOBS, NAMESPACE, {"metadata": {"name": "batch"}, "spec": spec})

    async def play(self, seconds: float) -> None:
        """Let that time pass; Slurm ends the jobs of bad pods as soon as their containers run."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while loop.time() < end:
            self.end_bad()
            await asyncio.sleep(STEP_SECONDS)
            self.look(loop.time())

    def end_bad(self) -> None:
        for pod in self.pods():
            if not pods.leaving(pod) and self.is_bad(pod):
                for job in placeholders_of(self.slurm, pod["metadata"]["uid"]):
                    if job.state is self.end_when and pods.phase(pod) == self.phase:
                        self.slurm.cancel(job.id, user="slurm")

    @property
    def phase(self) -> str:
        return "Running" if self.end_when is State.RUNNING else "Pending"

    def look(self, now: float) -> None:
        for job in self.jobs():
            self.asked.setdefault(job.id, now)
        for pod in self.pods():
            found = pods.condition(pod, "PodScheduled")
            if found is not None and found.get("reason") == REASON:
                self.messages[pod["metadata"]["uid"]] = found["message"]

    def pods(self) -> list[Body]:
        return list(self.kube.bodies(PODS))

    def jobs(self) -> list[Job]:
        return [job for job in self.slurm.jobs() if uids(job)]

    def run(self, count: int) -> bool:
        going = [pod for pod in self.pods() if pods.leaving(pod)]
        running = [pod for pod in self.pods() if pods.phase(pod) == "Running"]
        return len(running) == count and not going

    @property
    def events(self) -> list[Body]:
        return [it for it in self.kube.bodies(EVENTS) if it.get("reason") == REASON]

    @property
    def gaps(self) -> list[float]:
        """From one job that was asked for to the next."""
        return [after - before for before, after in itertools.pairwise(self.asked.values())]


def play(story: Callable[[Ground], Coroutine[Any, Any, None]], folder: Path) -> None:
    async def whole() -> None:
        async with playground(folder) as ground:
            ground.start()
            await story(Ground(ground))
            await ground.audit.close_and_judge()

    loop = VirtualLoop()
    try:
        loop.run_until_complete(whole())
    finally:
        loop.close()


@pytest.mark.parametrize("state", [State.RUNNING, State.PENDING])
def test_deployment_whose_jobs_are_always_ended_gets_fewer_and_fewer(
    state: State, tmp_path: Path
) -> None:
    async def story(ground: Ground) -> None:
        ground.is_bad, ground.end_when = lambda _pod: True, state
        held = {f"{pods.PREFIX}hold": "true"} if state is State.PENDING else {}
        ground.deploy(1, **held)
        began = asyncio.get_running_loop().time()
        await ground.play(300)
        assert sum(at < began + 60 for at in ground.asked.values()) <= MOST_IN_A_MINUTE
        assert 6 <= len(ground.asked) <= MOST_IN_FIVE_MINUTES
        first, *later = ground.gaps
        assert first < 7.5
        assert all(
            after > before * 1.2 and after > least
            for before, after, least in zip(ground.gaps, later, (7.5, 15, 30, 60), strict=False)
        )
        waits = [text for text in ground.messages.values() if "which this pod replaces" in text]
        assert len(waits) >= 4
        assert "The last 2 pods of ReplicaSet web-" in waits[0]
        assert "PlaceholderCancelled: Slurm job" in waits[0]
        assert len(ground.events) == len(waits)

    play(story, tmp_path)


def test_without_a_controller_of_their_own_pods_come_as_fast_as_somebody_makes_them(
    tmp_path: Path,
) -> None:
    """What it would be like: a hand makes each pod anew at once. There are more in one minute than
    a controller gets in five.
    """

    async def story(ground: Ground) -> None:
        ground.is_bad = lambda _pod: True
        for _ in range(120):
            if not ground.pods():
                ground.ground.create()
            await ground.play(STEP_SECONDS)
        assert len(ground.asked) > MOST_IN_FIVE_MINUTES
        assert not ground.messages

    play(story, tmp_path)


def test_one_bad_pod_keeps_no_other_of_its_deployment_waiting(tmp_path: Path) -> None:
    async def story(ground: Ground) -> None:
        ground.deploy(10)
        await ground.play(20)
        assert ground.run(10)
        good = {pod["metadata"]["uid"] for pod in ground.pods()}
        good.remove(min(good))
        ground.is_bad = lambda pod: pod["metadata"]["uid"] not in good
        await ground.play(120)
        assert good < {pod["metadata"]["uid"] for pod in ground.pods()}
        assert len(ground.asked) <= 10 + 6
        ground.is_bad = lambda _pod: False
        ground.change(replicas=15)
        await ground.play(10)
        assert sum(pods.phase(pod) == "Running" for pod in ground.pods()) >= 14

    play(story, tmp_path)


def test_pods_that_live_for_a_while_are_replaced_at_once_however_often(tmp_path: Path) -> None:
    """A storm of preemptions in a healthy service."""

    async def story(ground: Ground) -> None:
        ground.deploy(5)
        for _ in range(3):
            await ground.play(65)
            assert ground.run(5)
            ground.is_bad = lambda _pod: True
            ground.end_bad()
            ground.is_bad = lambda _pod: False
        await ground.play(10)
        assert ground.run(5)
        assert len(ground.asked) == 5 * 4
        assert not ground.messages

    play(story, tmp_path)


def test_pods_that_succeed_quickly_never_wait(tmp_path: Path) -> None:
    async def story(ground: Ground) -> None:
        ground.batch(40, **{RUN_SECONDS: "1"})
        await ground.play(30)
        succeeded = [pod for pod in ground.pods() if pods.phase(pod) == "Succeeded"]
        assert len(succeeded) == 40
        assert not ground.messages

    play(story, tmp_path)


def test_pods_that_fail_quickly_wait(tmp_path: Path) -> None:
    """Ended by themselves, and not by Slurm."""

    async def story(ground: Ground) -> None:
        ground.batch(1000, **{RUN_SECONDS: "1", EXIT_CODE: "3"})
        await ground.play(60)
        assert len(ground.asked) <= 4 * MOST_IN_A_MINUTE
        assert any("pod Failed: container main exit 3" in text for text in ground.messages.values())

    play(story, tmp_path)


def test_scaling_down_and_up_again_is_not_slowed(tmp_path: Path) -> None:
    async def story(ground: Ground) -> None:
        ground.deploy(5)
        for _ in range(5):
            await ground.play(10)
            assert ground.run(5)
            ground.change(replicas=0)
            await ground.play(10)
            assert ground.run(0)
            ground.change(replicas=5)
        assert not ground.messages

    play(story, tmp_path)


@pytest.mark.parametrize("mended", ["another template", "the pod that waits is deleted"])
def test_what_was_mended_is_tried_at_once(mended: str, tmp_path: Path) -> None:
    async def story(ground: Ground) -> None:
        ground.is_bad = lambda _pod: True
        ground.deploy(1)
        await ground.play(100)
        ground.is_bad = lambda _pod: False
        (waits,) = ground.pods()
        assert pods.phase(waits) == "Pending"
        assert waits["metadata"]["uid"] in ground.messages
        if mended == "another template":
            template = {"spec": {"terminationGracePeriodSeconds": 4}}
            ground.change(template=template)
        else:
            ground.ground.delete(waits["metadata"]["name"])
        await ground.play(10)
        assert any(pods.phase(pod) == "Running" for pod in ground.pods())

    play(story, tmp_path)
