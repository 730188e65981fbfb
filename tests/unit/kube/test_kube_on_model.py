"""The adapter as a whole against the sandbox's API server: two implementations of one protocol."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from scheduler.kube.api import (
    AlreadyBound,
    Bound,
    Condition,
    DeletionAccepted,
    Gone,
    KubeApi,
    Patched,
)
from scheduler.kube.recorder import ObjectRef, Recorder
from scheduler.kube.reflector import Reflector, Resource
from scheduler.kube.session import KubeSession
from scheduler.kube.store import Store
from scheduler.kube.wire import PODS, Pod
from scheduler.observe.metrics import Metrics
from scheduler.sandbox.kube import KubeModel, KubeServer, resources
from scheduler.sandbox.kube.deletion import DeleteOptions
from tests.unit.kube.server import Failures, Writing, until, write_kubeconfig

pytestmark = pytest.mark.looptime

PODS_PATH = "/api/v1/namespaces/default/pods"


@pytest.fixture
async def cluster() -> AsyncIterator[KubeServer]:
    server = KubeServer(KubeModel(), token="secret")
    await server.start()
    yield server
    await server.stop(kill=True)


@pytest.fixture
async def session(cluster: KubeServer, tmp_path: Path) -> AsyncIterator[KubeSession]:
    config = write_kubeconfig(tmp_path / "kubeconfig", cluster.url, {"token": "secret"})
    async with await KubeSession.open(config, user_agent="test/1") as session:
        yield session


@pytest.fixture
def api(session: KubeSession) -> KubeApi:
    return KubeApi(session)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
async def mirror(session: KubeSession, metrics: Metrics) -> AsyncIterator[Reflector[Pod]]:
    reflector = Reflector(
        session,
        Resource(
            name="pods",
            path="/api/v1/pods",
            decode=PODS,
            query={"fieldSelector": "spec.schedulerName=ours"},
        ),
        store=Store[Pod](),
        on_change=lambda _old, _new: None,
        metrics=metrics,
    )
    task = asyncio.ensure_future(reflector.run())
    yield reflector
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def lists(metrics: Metrics) -> float:
    """How many lists of pods were begun."""
    name = "slurm_pod_scheduler_reflector_lists_total"
    return metrics.registry.get_sample_value(name, {"resource": "pods"}) or 0.0


def names(reflector: Reflector[Pod]) -> set[str]:
    return {pod.metadata.name for pod in reflector.store}


async def create(session: KubeSession, api: KubeApi, name: str, *, scheduler: str = "ours") -> Pod:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"schedulerName": scheduler, "containers": [container]},
    }
    await session.request("POST", PODS_PATH, body=body)
    pod = await api.get_pod("default", name)
    assert pod is not None
    return pod


async def test_binding_and_its_repetitions(session: KubeSession, api: KubeApi) -> None:
    uid = (await create(session, api, "p")).metadata.uid
    assert await api.bind("default", "p", "wrong", node="n1") == Gone()
    assert await api.bind("default", "p", uid, node="n1", annotations={"a": "b"}) == Bound()
    assert await api.bind("default", "p", uid, node="n1") == Bound()
    assert await api.bind("default", "p", uid, node="n2") == AlreadyBound("n1")
    assert await api.bind("default", "absent", uid, node="n1") == Gone()
    pod = await api.get_pod("default", "p")
    assert pod is not None
    assert pod.spec.node_name == "n1"
    assert pod.metadata.annotations == {"a": "b"}


async def test_status_patch_merges_conditions_by_type(session: KubeSession, api: KubeApi) -> None:
    uid = (await create(session, api, "p")).metadata.uid
    for condition in (
        Condition("PodScheduled", "False", "Waiting", "one"),
        Condition("DisruptionTarget", "True", "Why"),
        Condition("PodScheduled", "False", "Waiting", "two"),
    ):
        outcome = await api.patch_pod_status(
            "default", "p", uid, conditions=[condition], annotations={"x": condition.message}
        )
        assert outcome == Patched()
    pod = await api.get_pod("default", "p")
    assert pod is not None
    assert pod.metadata.annotations == {"x": "two"}
    scheduled = pod.condition("PodScheduled")
    assert scheduled is not None
    assert scheduled.message == "two"
    assert pod.condition("DisruptionTarget") is not None


async def test_patch_and_deletion_of_a_recreated_pod_touch_nothing(
    session: KubeSession, api: KubeApi
) -> None:
    old = (await create(session, api, "p")).metadata.uid
    assert await api.delete_pod("default", "p", old, grace_seconds=0) == DeletionAccepted()
    new = await create(session, api, "p")
    assert await api.delete_pod("default", "p", old) == Gone()
    assert await api.patch_pod_status("default", "p", old, annotations={"a": "b"}) == Gone()
    assert await api.get_pod("default", "p") == new


async def test_namespace_uid_is_the_same_each_time(api: KubeApi) -> None:
    uid = await api.get_namespace_uid("kube-system")
    assert uid
    assert uid == await api.get_namespace_uid("kube-system")
    assert await api.get_namespace_uid("absent") is None


async def test_repeated_event_is_one_event_with_a_count(session: KubeSession) -> None:
    api = Writing(session)
    pod = await create(session, api, "p")
    recorder = Recorder(api, component="c", instance="i")
    async with asyncio.TaskGroup() as group:
        group.create_task(recorder.run())
        recorder.record(ObjectRef.of_pod(pod), type="Normal", reason="Why", message="because")
        await until(lambda: api.written == 1)
        recorder.record(ObjectRef.of_pod(pod), type="Normal", reason="Why", message="because")
        await until(lambda: api.written == 2)
        recorder.stop()
    events = await session.request("GET", "/api/v1/namespaces/default/events")
    assert events.count(b'"Why"') == 1
    assert b'"count":2' in events.replace(b" ", b"")


async def test_reflector_follows_own_pods_event_by_event(
    session: KubeSession, api: KubeApi, mirror: Reflector[Pod], metrics: Metrics
) -> None:
    await mirror.synced.wait()
    for name in ("a", "b", "c"):
        await create(session, api, name)
    await create(session, api, "other", scheduler="default-scheduler")
    await until(lambda: names(mirror) == {"a", "b", "c"})
    (pod,) = (it for it in mirror.store.values() if it.metadata.name == "b")
    await api.delete_pod("default", "b", pod.metadata.uid, grace_seconds=0)
    await until(lambda: names(mirror) == {"a", "c"})
    assert lists(metrics) == 1


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "stopped"])
async def test_reflector_outlives_a_restart_of_the_server(
    cluster: KubeServer,
    session: KubeSession,
    api: KubeApi,
    mirror: Reflector[Pod],
    failures: Failures,
    kill: bool,
) -> None:
    await create(session, api, "before")
    await until(lambda: names(mirror) == {"before"})
    await cluster.stop(kill=kill)
    await until(lambda: failures().count("unreachable") > 1)
    await cluster.start()
    await create(session, api, "after")
    await until(lambda: names(mirror) == {"before", "after"})


async def test_reflector_learns_of_deletions_it_missed(
    cluster: KubeServer,
    session: KubeSession,
    api: KubeApi,
    mirror: Reflector[Pod],
    failures: Failures,
    metrics: Metrics,
) -> None:
    uids = {name: (await create(session, api, name)).metadata.uid for name in "abcde"}
    await until(lambda: names(mirror) == set("abcde"))
    await cluster.stop(kill=True)
    await until(lambda: "unreachable" in failures())
    for name in "abd":
        cluster.model.delete(resources.PODS, "default", name, DeleteOptions())
    cluster.model.compact()
    await cluster.start()
    await until(lambda: names(mirror) == {"c", "e"})
    assert lists(metrics) >= 2
    assert uids["c"] in mirror.store
