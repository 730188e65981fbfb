"""A newer scheduler replaces an older one while pods run, wait and end: no pod and no job notices.

The newer scheduler reads correctly what the older one has written: owner tags, digests of requests,
annotations, conditions and the Lease.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from tests.audit.history import By, History, JobLife, Touch, When
from tests.rigs.node_real import RealNode
from tests.stories.clusters import LIVE, told_on
from tests.support import forked, former, pods
from tests.support.cluster import Cluster
from tests.support.former import Former
from tests.support.kube import Kube, Object
from tests.support.replicas import SLACK, Replica, pair, until
from tests.support.scheduler import Launched, SchedulerProcess
from tests.support.world import World

# The first test may have to install the older scheduler.

# Within this time 260 pods start and stop on real servers.
_SECONDS: Final = 120.0
# If a pod is gone when the new scheduler starts, its job holds the node for this grace and 30 s.
_GRACE: Final = 12
_STOP_SECONDS: Final = "9"
_FEATURE: Final = "standard"
# Together these have all kinds of digests. The older scheduler did not normalise the directory.
_ASKED: Final[tuple[dict[str, str], ...]] = (
    {},
    {"comment": "nightly, \u00fc", "timeout": "7200", "nice": "10"},
    {"current-working-dir": "/tmp/"},
    {"constraints": _FEATURE, "prefer": _FEATURE, "exclusive": "ok"},
    {"features": _FEATURE, "wckey": "project-x", "requeue": "true"},
    {"gres": "gpu:h100:1", "priority": "1000"},
    {"switches": "1@1", "timeout": "3601", "deadline": "2036-01-31T20:00:00Z"},
)
_EDITED: Final = "waits-1"
_REFUSED: Final = "refused"
_STAY: Final = {
    "held": {"hold": "true"},
    "later": {"begin": "2036-01-31T08:00:00Z"},
    _REFUSED: {"timeout": "soon"},
}
# The Events that the new scheduler may write on a pod that goes on: none is about a new job or a
# fault.
_HARMLESS: Final = frozenset({"Scheduled", "SlurmPending", "PlaceholderUpdated"})


# Only real servers: the older scheduler needs other packages, which `make test` should not need.
cluster = told_on(*LIVE)


@pytest.fixture(autouse=True)
def node_without_gpus(live_real_node: RealNode) -> str:
    """A Node without GPUs always exists. Only the newer scheduler excludes it for GPU pods."""
    return live_real_node.name


@pytest.fixture(scope="session")
def older() -> Former:
    """The older scheduler, installed."""
    if not former.is_known():
        pytest.skip(former.MISSING)
    return former.ensure()


class Versions:
    """Launches the older scheduler until it `is_new`, then ours."""

    def __init__(self, older: Former) -> None:
        self.is_new = False
        self._older = older

    def __call__(self, arguments: Sequence[str], *, log: Path) -> Launched:
        """Launch one of the two, as the protocol Launch says."""
        launch = forked.spawn if self.is_new else self._older
        return launch(arguments, log=log)


@pytest.fixture
def versions(older: Former, tmp_path: Path) -> Versions:
    """Decides which one is launched. Ours ran once already, so that imports cause no delay."""
    forked.spawn(("--version",), log=tmp_path / "warm.log").join(_SECONDS)
    return Versions(older)


@pytest.fixture
def scheduler(cluster: Cluster, tmp_path: Path, versions: Versions) -> Iterator[SchedulerProcess]:
    """The older scheduler, until `versions.is_new` is set."""
    with SchedulerProcess(cluster, folder=tmp_path, launch=versions) as process:
        yield process


@dataclass(frozen=True, slots=True)
class Crowd:
    """The number of pods of each kind, and the job `filler`, for which the waiting pods wait."""

    runs: int
    waits: int
    ends: int
    filler: int

    def running(self) -> list[str]:
        return [f"runs-{index}" for index in range(self.runs)]

    def waiting(self) -> list[str]:
        return [f"waits-{index}" for index in range(self.waits)]

    def ending(self, way: int | None = None) -> list[str]:
        """The names of all pods that end, or of those that end in one of the four ways."""
        return [f"ends-{index}" for index in range(self.ends) if way in {None, index % 4}]

    def waiting_for_gpus(self) -> list[str]:
        return [it for i, it in enumerate(self.waiting()) if "gres" in _ASKED[i % len(_ASKED)]]

    def staying(self) -> list[str]:
        return [*self.running(), *self.waiting(), *_STAY]


@pytest.mark.slow
async def test_upgrade_asks_for_no_job_again_and_says_nothing_false(
    world: World, versions: Versions
) -> None:
    crowd = await _crowd(world)
    await _some_end(world, crowd)
    await asyncio.to_thread(world.scheduler.stop)
    stopped, clock = time.time(), time.monotonic()
    pods_before, jobs_before = await _pods(world), await _jobs(world)
    events_before = await _events(world)
    for name in crowd.ending(2):
        await world.slurm.cancel(jobs_before[name])
    await world.edit(_EDITED, timeout="7260")

    versions.is_new = True
    await asyncio.to_thread(world.scheduler.start)
    await world.until("those that end are over", lambda: _over(world, crowd), seconds=_SECONDS)
    await world.until("the edit is taken", lambda: _edit_taken(world))
    # Only in the newer Slurm the Node without GPUs has a Slurm node.
    left_out = crowd.waiting_for_gpus() if world.cluster.name == "live-26.05" else []
    for name in left_out:
        await world.until(f"{name} leaves it out", partial(_leaves_a_node_out, world, name))
    released = time.time()
    await world.end_native(crowd.filler)
    await world.until("all others run", lambda: _run(world, crowd), seconds=_SECONDS)

    assert await _jobs(world) == jobs_before, "the same jobs, and no other ones"
    world.unharmed(*(pods_before[name] for name in crowd.staying()))
    _told_what_is_true(world, crowd, jobs_before, since=clock)
    events = await _events(world) - events_before
    assert {reason for name, reason in events if name in crowd.staying()} <= _HARMLESS
    history = await world.audit.close()
    if history is not None:
        another_end = {
            name
            for name, pod in (await _pods(world)).items()
            if pods.annotation(pod, pods.ENDS_AT)
            != pods.annotation(pods_before[name], pods.ENDS_AT)
        }
        _written_only_what_had_to_be(
            history,
            crowd,
            jobs_before,
            since=stopped,
            # Before a bind, the tag of a script job gets its restart count.
            before=1 if world.cluster.placeholder_mode == "script" else 0,
            another_end=another_end,
        )
        early = _early_updates(history, crowd, jobs_before, When(stopped, released))
        assert early <= Counter(left_out), "one update for the Node without GPUs, and no other"


class TestRollingUpdate:
    """A Deployment's update: the new one stands by until the older one hands over its Lease."""

    @pytest.fixture(params=[pytest.param("live_26", id="live-26.05", marks=pytest.mark.live)])
    def cluster(self, request: pytest.FixtureRequest) -> Cluster:
        found: Cluster = request.getfixturevalue(request.param)
        return found

    @pytest.fixture
    async def replicas(
        self, cluster: Cluster, kube: Kube, namespace: str, tmp_path: Path, older: Former
    ) -> AsyncIterator[tuple[Replica, Replica]]:
        making = pair(cluster, kube, folder=tmp_path, namespace=namespace, flags=(), launch=older)
        async with making as found:
            yield found

    @pytest.fixture
    def scheduler(self, replicas: tuple[Replica, Replica]) -> SchedulerProcess:
        return replicas[1].process

    async def test_new_one_takes_the_lease_over_and_goes_on(
        self, world: World, replicas: tuple[Replica, Replica]
    ) -> None:
        one, two = replicas
        filler = await world.fill(leave_cpus=8)
        await world.create("runs")
        await world.create("waits", cpus="32")
        running = await world.running("runs")
        waiting = await world.waiting("waits")
        jobs = await _jobs(world)
        assert await asyncio.to_thread(one.process.stop) == 0
        await until(lambda: two.process.leads, SLACK)
        await world.end_native(filler)
        await world.running("waits")
        assert await _jobs(world) == jobs
        world.unharmed(running, waiting)
        lease = await world.kube.get("leases", "slurm-pod-scheduler", namespace=world.namespace)
        assert lease["spec"]["leaseTransitions"] == 1


# --- the crowd ---


async def _crowd(world: World) -> Crowd:
    """Create the crowd, with a half of the nodes free and the other full, and wait for it."""
    nodes = world.cluster.nodes
    free, full = nodes[: len(nodes) // 2], nodes[len(nodes) // 2 :]
    # The nodes with the feature must have room for all pods that ask for it.
    for node in (*free[:4], full[0]):
        if _FEATURE not in (has := await world.slurm.features(node)):
            await world.set_features(node, *has, _FEATURE)
    filler = await world.fill(but=len(free), required_nodes=list(full))
    # Fewer with 24.11: its two nodes have 128 CPUs, and each placeholder is a process.
    many = world.cluster.name == "live-26.05"
    crowd = Crowd(200, 50, 10, filler) if many else Crowd(40, 12, 8, filler)
    await _create(world, crowd, off={"excluded-nodes": ",".join(full)}, on=",".join(full))
    await world.until("all are as they should be", lambda: _ready(world, crowd), seconds=_SECONDS)
    return crowd


async def _create(world: World, crowd: Crowd, *, off: dict[str, str], on: str) -> None:
    places = asyncio.Semaphore(16)

    async def create(name: str, slurm: dict[str, str], **more: Any) -> None:
        gpus = 1 if "gres" in slurm else 0
        async with places:
            await world.create(
                name, cpus="1", memory="100Mi", gpus=gpus, grace=_GRACE, slurm=slurm, **more
            )

    stops = {"annotations": {"sandbox/stop-seconds": _STOP_SECONDS}}
    finishes = {"annotations": {"sandbox/run-seconds": "12"}, "restartPolicy": "Never"}
    async with asyncio.TaskGroup() as group:
        for index, name in enumerate(crowd.running()):
            group.create_task(create(name, off | _ASKED[index % len(_ASKED)]))
        for index, name in enumerate(crowd.waiting()):
            group.create_task(create(name, {"required-nodes": on} | _ASKED[index % len(_ASKED)]))
        for name in crowd.ending():
            ends = finishes if name in crowd.ending(3) else stops
            group.create_task(create(name, off, **ends))
        for name, slurm in _STAY.items():
            group.create_task(create(name, slurm))


async def _ready(world: World, crowd: Crowd) -> bool:
    found = await _pods(world)
    return all(
        pods.phase(found[name]) in {"Running", "Succeeded"}
        for name in (*crowd.running(), *crowd.ending())
    ) and all(pods.why(found[name]) for name in (*crowd.waiting(), *_STAY))


async def _some_end(world: World, crowd: Crowd) -> None:
    """End some pods by deletion and others by a cancel, so that both are under way."""
    for name in crowd.ending(0):
        await world.delete(name)
    for name in crowd.ending(1):
        await world.slurm.cancel((await world.submitted(name)).job_id)


async def _edit_taken(world: World) -> bool:
    return (await world.submitted(_EDITED)).number("time_limit") == 121


async def _leaves_a_node_out(world: World, name: str) -> bool:
    return bool((await world.submitted(name)).raw["excluded_nodes"])


async def _over(world: World, crowd: Crowd) -> bool:
    found = await _pods(world)
    return all(name not in found or pods.has_ended(found[name]) for name in crowd.ending()) and {
        it.tag["unit"] for it in await world.slurm.live_placeholders(world.namespace)
    }.isdisjoint(crowd.ending())


async def _run(world: World, crowd: Crowd) -> bool:
    found = await _pods(world)
    names = (*crowd.running(), *crowd.waiting())
    return all(pods.phase(found[name]) == "Running" for name in names)


# --- observations ---


async def _pods(world: World) -> dict[str, Object]:
    found = await world.kube.items("pods", namespace=world.namespace)
    return {it["metadata"]["name"]: it for it in found}


async def _jobs(world: World) -> dict[str, int]:
    """All job ids so far, by pod name. Raises AssertionError if a pod has two."""
    found = await world.slurm.placeholders(world.namespace)
    named = {it.tag["unit"]: it.job_id for it in found}
    assert len(named) == len(found), f"a pod has two jobs: {[(it.name, it.states) for it in found]}"
    return named


async def _events(world: World) -> set[tuple[str, str]]:
    """The object's name and the reason of each Event."""
    found = await world.kube.items("events", namespace=world.namespace)
    return {(it["involvedObject"].get("name", ""), it["reason"]) for it in found}


def _told_what_is_true(world: World, crowd: Crowd, jobs: dict[str, int], *, since: float) -> None:
    """Check that each waiting pod names its job as long as it waits, and keeps that job."""
    for name in crowd.staying():
        for seen in (it.pod for it in world.history.of(name) if it.at > since):
            if name == _REFUSED:
                assert "timeout is 'soon'" in pods.why(seen), pods.summary(seen)
                continue
            assert pods.annotation(seen, pods.JOB_ID) == str(jobs[name]), pods.summary(seen)
            true = (f"Slurm job {jobs[name]} is pending", f"Slurm job {jobs[name]} has ")
            waits = pods.node_of(seen) is None
            assert not waits or pods.why(seen).startswith(true), pods.summary(seen)


def _written_only_what_had_to_be(
    history: History,
    crowd: Crowd,
    jobs: dict[str, int],
    *,
    since: float,
    before: int,
    another_end: set[str],
) -> None:
    """Check by the servers' own records that only necessary writes were made since `since`.

    The older scheduler updated the job of each running pod `before` times. These updates are
    counted as well, because slurmctld logs an update after its answer, on a busy machine more than
    a second later. A running pod is written to only if Slurm reports `another_end` of its job:
    24.11 adds the time of a prolog to the time limit after the bind.
    """
    ours = _named(history, jobs)
    cancelled = {name for name, it in ours if any(_by_us(kill, since) for kill in it.kills)}
    assert cancelled <= set(crowd.ending())
    updates = Counter(name for name, it in ours for touch in it.updates if touch.by is By.US)
    assert updates[_EDITED], "the judge sees updates"
    assert max(updates[name] for name in crowd.running()) <= before
    assert not any(updates[name] for name in _STAY)
    touched = {
        it.name: [touch.when for touch in it.touches if _by_us(touch, since)]
        for it in history.pods
        if it.name in crowd.running() and it.name not in another_end
    }
    assert not {name: when for name, when in touched.items() if when}, f"written since {since}"


def _early_updates(
    history: History, crowd: Crowd, jobs: dict[str, int], held_back: When
) -> Counter[str]:
    """How often each pod's job was certainly updated while waiting jobs were held back. slurmctld
    logs an update after its answer, so one may seem to come later. Pods that end, the edited pod
    and running pods are left out: an update by the older scheduler just before it stopped may seem
    to come after that, and `_written_only_what_had_to_be` counts all updates of running pods.
    """
    expected = {_EDITED, *crowd.ending(), *crowd.running()}
    return Counter(
        name
        for name, job in _named(history, jobs)
        for touch in job.updates
        if _by_us(touch, held_back.earliest) and touch.when.latest < held_back.latest
        if name not in expected
    )


def _named(history: History, jobs: dict[str, int]) -> list[tuple[str, JobLife]]:
    """The pod name and the history of each of our jobs."""
    names = {job_id: name for name, job_id in jobs.items()}
    return [(names[it.job_id], it) for it in history.ours()]


def _by_us(touch: Touch, since: float) -> bool:
    return touch.by is By.US and touch.when.earliest > since
