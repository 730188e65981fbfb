"""Story: one of two schedulers leads. Whatever happens to it, the other one takes over, and the two
never write at the same time. Times are printed (`pytest -s`); benchmarks.failover measures them.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import aiohttp
import pytest

from tests.rigs.log_file import LogFile
from tests.stories.clusters import told_on
from tests.support.cluster import Cluster
from tests.support.handover import next_job_is_held, running_pod
from tests.support.hooks import SECRET, hooks_on, secret_file
from tests.support.kube import Kube, Object
from tests.support.pods import pod
from tests.support.replicas import SLACK, AuditLog, Replica, pair, until
from tests.support.scheduler import SchedulerProcess
from tests.support.world import World

# Short, but on a crowded machine a leader that nothing happens to may stand still for five seconds.
LEASE, RENEW = 12.0, 10.0
_SHORT = (
    f"--leader-elect-lease-duration={LEASE}s",
    f"--leader-elect-renew-deadline={RENEW}s",
    "--leader-elect-retry-period=1s",
)
_NOT_THE_LEADER = (503, "another process leads, ask again")


# The election does not depend on the release of Slurm.
cluster = told_on("sandbox-26.05", "live-26.05")


@pytest.fixture
def timing() -> tuple[str, ...]:
    """Flags for a short lease, so that the stories are short."""
    return _SHORT


@pytest.fixture
async def replicas(
    cluster: Cluster, kube: Kube, namespace: str, tmp_path: Path, timing: tuple[str, ...]
) -> AsyncIterator[tuple[Replica, Replica]]:
    """The first one leads, the second one stands by."""
    async with pair(cluster, kube, folder=tmp_path, namespace=namespace, flags=timing) as found:
        yield found


@pytest.fixture
def scheduler(replicas: tuple[Replica, Replica]) -> SchedulerProcess:
    """The scheduler whose log is shown when a story fails."""
    return replicas[1].process


@pytest.fixture
def api_log(cluster: Cluster, request: pytest.FixtureRequest) -> AuditLog | None:
    """The audit log of the real API server; None for the model, whose requests pass a relay."""
    if not cluster.name.startswith("live"):
        return None
    log: LogFile = request.getfixturevalue("live_kube").audit_log
    # Earlier tests of this process may have left millions of lines.
    since = log.size()
    return lambda: [json.loads(line) for line in log.lines(since)]


class TestInOrder:
    @pytest.fixture
    def timing(self) -> tuple[str, ...]:
        """No flags: with the defaults no lease expires here, however slow the machine is."""
        return ()

    async def test_standby_is_ready_and_writes_nothing(
        self, world: World, replicas: tuple[Replica, Replica], api_log: AuditLog | None
    ) -> None:
        one, two = replicas
        began = time.time()
        assert two.process.role.startswith("ok\nstands by, ")
        await _work(world, "a", 3)
        await world.delete("a-0")
        await world.gone("a-0")
        assert two.wrote(since=began, audit=api_log) == []
        assert one.wrote(since=began, audit=api_log) != [], "the judge sees writes"
        assert two.process.metrics()["slurm_pod_scheduler_leader"] == 0
        assert two.process.metrics()["slurm_pod_scheduler_pods"] == 0

    async def test_leader_that_is_stopped_hands_over(
        self, world: World, replicas: tuple[Replica, Replica], kube: Kube, namespace: str
    ) -> None:
        one, two = replicas
        before = await _work(world, "a", 3)
        began = time.monotonic()
        stopping = asyncio.create_task(asyncio.to_thread(one.process.stop))
        # The lease of 15 s was renewed less than 3 s ago: it ends later than this.
        await until(lambda: two.process.leads, SLACK)
        print(f"{world.cluster.name}: handed over {time.monotonic() - began:.2f} s after SIGTERM")
        assert await stopping == 0
        await _all_is_well(world, before)
        lease = await kube.get("leases", "slurm-pod-scheduler", namespace=namespace)
        assert lease["spec"]["leaseTransitions"] == 1

        async def told() -> list[str] | None:
            events = await kube.items("events", namespace=namespace)
            found = [it["message"] for it in events if it["reason"] == "LeaderElection"]
            return found if len(found) >= 2 else None

        messages = await world.until("both have told that they lead", told)
        assert len(messages) == 2
        assert all(message.endswith(" became leader") for message in messages)


class TestHooks:
    """Slurm's hooks may reach either scheduler."""

    @pytest.fixture
    def timing(self, tmp_path: Path) -> tuple[str, ...]:
        """The default lease, and a hooks API."""
        return (f"--hooks-api-token-file={secret_file(tmp_path)}",)

    async def test_standby_holds_the_next_job_until_the_pod_has_stopped(
        self, world: World, replicas: tuple[Replica, Replica]
    ) -> None:
        one, two = replicas
        with hooks_on(world.cluster, two.process.hooks_url):
            await next_job_is_held(world)
        assert one.process.leads, "the one that was asked stands by"

    async def test_standby_sends_on_what_is_for_the_leader(
        self, world: World, replicas: tuple[Replica, Replica]
    ) -> None:
        pod = await running_pod(world, stop_seconds=1)
        gone = f"units/{pod['metadata']['uid']}/gone"
        one, two = (it.process.hooks_url for it in replicas)
        assert await _hook(one, "hints", job="7", event="ended") == (202, "heard")
        assert await _hook(two, "hints", job="7", event="ended") == _NOT_THE_LEADER
        assert await _hook(one, gone) == (409, f"busy: {world.namespace}/train")
        assert await _hook(two, gone) == _NOT_THE_LEADER
        await world.delete()
        await world.gone()
        for each in (one, two):
            await world.until("it says so", partial(_says_gone, each, gone))


async def test_leader_that_is_killed_is_followed_after_its_lease(
    world: World, replicas: tuple[Replica, Replica]
) -> None:
    one, two = replicas
    before = await _work(world, "a", 3)
    await _create(world, "b", 6)
    one.process.kill()
    took = await _taken_over(world, two, "SIGKILL")
    assert LEASE - RENEW < took < LEASE + SLACK
    await _all_is_well(world, before, *(f"b-{number}" for number in range(6)))
    await asyncio.to_thread(one.process.start)
    assert "stands by" in one.process.role


async def test_pod_that_came_while_nobody_led_is_told_what_its_controller_has(
    world: World, replicas: tuple[Replica, Replica]
) -> None:
    """A standby writes nothing on new pods, so it must make up for this once it leads."""
    one, two = replicas
    one.process.kill()
    made = pod("train", slurm={"partition": "main"}, restartPolicy="Never")
    made["metadata"].pop("name")
    on_job = made["metadata"].pop("annotations")
    body = {"metadata": {"name": "train", "annotations": on_job}, "spec": {"template": made}}
    await world.kube.create("jobs", body, namespace=world.namespace)
    await _taken_over(world, two, "SIGKILL")

    async def told() -> str | None:
        events = await world.kube.items("events", namespace=world.namespace)
        found = (it["message"] for it in events if it["reason"] == "AnnotationsOnOwner")
        return next(found, None)

    assert (await world.until("the pod is told", told)).startswith("Job train has the annotations")


async def test_leader_that_stood_still_writes_nothing_when_it_goes_on(
    world: World, replicas: tuple[Replica, Replica], api_log: AuditLog | None
) -> None:
    one, two = replicas
    before = await _work(world, "a", 3)
    await _create(world, "b", 6)
    one.process.suspend()
    await _taken_over(world, two, "SIGSTOP")
    await world.delete("a-0")
    await _create(world, "c", 3)
    went_on = time.time()
    one.process.resume()
    status = await asyncio.to_thread(one.process.ended, seconds=SLACK)
    assert status == 1
    assert "the lease is lost" in one.process.log.read_text(encoding="utf-8")
    created = [
        f"{name}-{number}" for name, count in (("b", 6), ("c", 3)) for number in range(count)
    ]
    await _all_is_well(world, before[1:], *created)
    late = one.wrote(since=went_on, audit=api_log)
    assert len(late) <= 1, "one was perhaps between its permit and the system call, none came after"
    if any("/binding" in it for it in late):
        world.audit.accepted["I3"] = "the API server has refused the one that came late"
    assert two.wrote(since=went_on, audit=api_log) != [], "the judge sees writes"


async def test_leader_without_the_api_server_ends_before_another_leads(
    world: World, replicas: tuple[Replica, Replica], api_log: AuditLog | None
) -> None:
    one, two = replicas
    before = await _work(world, "a", 3)
    await _create(world, "b", 6)
    one.kube.cut()
    status = asyncio.create_task(asyncio.to_thread(one.process.ended, seconds=RENEW + SLACK))
    await _taken_over(world, two, "partition")
    leads_since = time.time()
    assert await status == 1
    await _all_is_well(world, before, *(f"b-{number}" for number in range(6)))
    one.kube.heal()
    assert one.wrote(since=leads_since, audit=api_log) == []


async def test_nobody_leads_while_no_lease_can_be_renewed(
    world: World, replicas: tuple[Replica, Replica], api_log: AuditLog | None
) -> None:
    one, two = replicas
    before = await _work(world, "a", 3)
    for each in replicas:
        each.kube.cut()
    assert await asyncio.to_thread(one.process.ended, seconds=RENEW + SLACK) == 1
    ended = time.time()
    await until(lambda: "lease " in two.process.role, RENEW + SLACK)
    assert not two.process.leads
    for each in replicas:
        each.kube.heal()
    await _taken_over(world, two, "API server that hung")
    await asyncio.to_thread(one.process.start)
    await _create(world, "b", 3)
    await _all_is_well(world, before, *(f"b-{number}" for number in range(3)))
    assert "stands by" in one.process.role
    assert one.wrote(since=ended, audit=api_log) == []


async def _hook(url: str, what: str, **fields: str) -> tuple[int, str]:
    """Status and text of the answer to a hook."""
    head = {"Authorization": f"Bearer {SECRET}"}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/{what}", data=fields, headers=head) as answer,
    ):
        return answer.status, (await answer.text()).strip()


async def _says_gone(url: str, question: str) -> bool:
    return (await _hook(url, question))[0] == 200


async def _create(world: World, name: str, count: int) -> None:
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(world.create(f"{name}-{number}"))


async def _work(world: World, name: str, count: int) -> list[Object]:
    """Create `count` pods, and return them once they run."""
    await _create(world, name, count)
    return [await world.running(f"{name}-{number}") for number in range(count)]


async def _taken_over(world: World, by: Replica, why: str) -> float:
    began = time.monotonic()
    await until(lambda: by.process.leads, LEASE + SLACK)
    took = time.monotonic() - began
    print(f"{world.cluster.name}: taken over {took:.2f} s after {why}, lease of {LEASE:g} s")
    return took


async def _all_is_well(world: World, before: list[Object], *created: str) -> None:
    """Check that the pods of `before` run on, that the created ones run, and each has one job."""
    for name in created:
        await world.running(name)
    world.unharmed(*before)
    await world.one_placeholder_each()
