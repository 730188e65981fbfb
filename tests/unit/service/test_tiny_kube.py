"""`TinyKube` gives the answers that `KubeApi` gets from the sandbox's API server.

Each script plays the same calls on both, and between them the same deeds of others. The sandbox is
held to the real server by the contract tests.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final, Protocol

import pytest

from scheduler.kube.api import Condition, KubeApi
from scheduler.kube.session import KubeSession
from scheduler.kube.wire import Pod
from scheduler.sandbox.kube import KubeModel, KubeServer
from scheduler.sandbox.kube.deletion import DeleteOptions
from scheduler.sandbox.kube.resources import BUDGETS, NAMESPACES, PODS
from tests.unit.kube.server import write_kubeconfig
from tests.unit.service.tiny_kube import TinyKube

GRACE: Final = 20
WAITS: Final = Condition("PodScheduled", "False", "WaitingInSlurm", "position 3")


class Kube(Protocol):
    """One of the two: calls go to `api`, and the rest is what others do to pods."""

    @property
    def api(self) -> Any: ...
    def create(self, name: str, *, runs_on: str = "") -> str:
        """Make a pod, which waits or runs already; its uid."""

    def delete(self, name: str) -> None: ...
    def end_containers(self, name: str) -> None: ...
    def hold_by_a_budget(self) -> None: ...


class Double:
    """The double, whose pods have their names for uids; a name that is used again has another."""

    def __init__(self) -> None:
        self.api = TinyKube()
        self._uids: dict[str, str] = {}

    def create(self, name: str, *, runs_on: str = "") -> str:
        uid = f"{name}-again" if name in self._uids else name
        self._uids[name] = uid
        self.api.create(uid, name=name, node=runs_on, phase="Running" if runs_on else "Pending")
        return uid

    def delete(self, name: str) -> None:
        self.api.delete(self._uids[name])

    def end_containers(self, name: str) -> None:
        self.api.end_containers(self._uids[name])

    def hold_by_a_budget(self) -> None:
        self.api.budget_holds = True


class Truth:
    """The sandbox's API server, without kubelets and controllers."""

    def __init__(self, model: KubeModel, api: KubeApi) -> None:
        self._model = model
        self.api = api
        model.create(NAMESPACES, "", {"metadata": {"name": "ns"}})

    def create(self, name: str, *, runs_on: str = "") -> str:
        containers = [{"name": "c", "image": "x"}]
        spec: dict[str, Any] = {"containers": containers, "terminationGracePeriodSeconds": GRACE}
        if runs_on:
            spec["nodeName"] = runs_on
        body = {"metadata": {"name": name, "labels": {"of": "us"}}, "spec": spec}
        pod = self._model.create(PODS, "ns", body).body
        if runs_on:
            self._model.modify(PODS, pod, lambda it: {**it, "status": {"phase": "Running"}})
        uid: str = pod["metadata"]["uid"]
        return uid

    def delete(self, name: str) -> None:
        self._model.delete(PODS, "ns", name, DeleteOptions())

    def end_containers(self, name: str) -> None:
        pod = self._model.get(PODS, "ns", name).body
        if "deletionTimestamp" in pod["metadata"]:
            self._model.delete(PODS, "ns", name, DeleteOptions(grace_seconds=0))
        else:
            self._model.modify(PODS, pod, lambda it: {**it, "status": {"phase": "Succeeded"}})

    def hold_by_a_budget(self) -> None:
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"of": "us"}}}
        budget = self._model.create(BUDGETS, "ns", {"metadata": {"name": "b"}, "spec": spec}).body
        status = {"disruptionsAllowed": 0, "observedGeneration": 1}
        self._model.modify(BUDGETS, budget, lambda it: {**it, "status": status})


class Play:
    """Makes calls of one of the two, and keeps the answers and what became of the pods."""

    def __init__(self, kube: Kube) -> None:
        self.kube = kube
        self.answers: list[tuple[str, Any]] = []

    async def call(self, verb: str, name: str, uid: str, **more: Any) -> None:
        answer = await getattr(self.kube.api, verb)("ns", name, uid, **more)
        self.answers.append((verb, answer))
        await self.look(name)

    async def look(self, name: str, *, namespace: str = "ns") -> None:
        self.answers.append(("pod", _comparable(await self.kube.api.get_pod(namespace, name))))

    async def bound(self, name: str) -> str:
        uid = self.kube.create(name)
        await self.call("bind", name, uid, node="n1")
        return uid


Script = Callable[[Play], Awaitable[None]]


async def bindings(play: Play) -> None:
    uid = play.kube.create("p")
    await play.call("bind", "p", "another", node="n1")
    await play.call("bind", "p", uid, node="n1", annotations={"a": "b"})
    await play.call("bind", "p", uid, node="n1", annotations={"a": "c"})
    await play.call("bind", "p", uid, node="n2")
    await play.call("bind", "absent", "absent", node="n1")


async def bindings_of_pods_that_leave(play: Play) -> None:
    uid = await play.bound("p")
    play.kube.delete("p")
    await play.call("bind", "p", uid, node="n1")
    await play.call("bind", "p", uid, node="n2")
    play.kube.end_containers("p")
    await play.call("bind", "p", uid, node="n1")


async def pods_of_one_name(play: Play) -> None:
    old = play.kube.create("p")
    play.kube.delete("p")
    play.kube.create("p")
    await play.call("bind", "p", old, node="n1")
    await play.call("patch_pod_status", "p", old, annotations={"a": "b"})
    await play.call("delete_pod", "p", old)
    await play.call("evict_pod", "p", old)
    await play.look("p", namespace="default")


async def deletions_of_unbound_pods(play: Play) -> None:
    uid = play.kube.create("p")
    await play.call("delete_pod", "p", uid)
    await play.call("delete_pod", "p", uid)


async def deletions_of_bound_pods(play: Play) -> None:
    uid = await play.bound("p")
    await play.call("delete_pod", "p", uid)
    await play.call("delete_pod", "p", uid, grace_seconds=60)
    await play.call("delete_pod", "p", uid, grace_seconds=5)
    await play.call("delete_pod", "p", uid)
    play.kube.end_containers("p")
    await play.look("p")
    await play.call("delete_pod", "p", uid)


async def deletions_without_grace(play: Play) -> None:
    uid = await play.bound("p")
    await play.call("delete_pod", "p", uid, grace_seconds=0)


async def deletions_of_pods_that_ended(play: Play) -> None:
    uid = await play.bound("p")
    play.kube.end_containers("p")
    await play.look("p")
    await play.call("delete_pod", "p", uid)


async def evictions(play: Play) -> None:
    uid = await play.bound("p")
    await play.call("evict_pod", "p", uid, grace_seconds=5)
    await play.call("evict_pod", "absent", "absent")


async def evictions_that_a_budget_forbids(play: Play) -> None:
    runs, starts = play.kube.create("p", runs_on="n1"), await play.bound("q")
    play.kube.hold_by_a_budget()
    await play.call("evict_pod", "p", runs)
    await play.call("evict_pod", "q", starts)
    await play.call("evict_pod", "absent", "absent")
    await play.call("delete_pod", "p", runs)


async def patches(play: Play) -> None:
    uid = play.kube.create("p")
    await play.call("patch_pod_status", "p", uid, conditions=[WAITS], annotations={"a": "b"})
    await play.call("patch_pod_status", "p", uid, annotations={"c": "d"})
    await play.call("patch_pod_status", "p", uid, annotations={"a": None})
    await play.call("patch_pod_status", "absent", "absent", conditions=[WAITS])


SCRIPTS: Final[tuple[Script, ...]] = (
    *(bindings, bindings_of_pods_that_leave, pods_of_one_name),
    *(deletions_of_unbound_pods, deletions_of_bound_pods, deletions_without_grace),
    *(deletions_of_pods_that_ended, evictions, evictions_that_a_budget_forbids, patches),
)


@pytest.fixture
async def truth(tmp_path: Path) -> AsyncIterator[Truth]:
    model = KubeModel()
    server = KubeServer(model, token="secret")
    await server.start()
    config = write_kubeconfig(tmp_path / "kubeconfig", server.url, {"token": "secret"})
    async with await KubeSession.open(config, user_agent="test/1") as session:
        yield Truth(model, KubeApi(session))
    await server.stop(kill=True)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
async def test_double_answers_as_the_api_server_does(truth: Truth, script: Script) -> None:
    expected, found = Play(truth), Play(Double())
    await script(expected)
    await script(found)
    assert found.answers == expected.answers


def _comparable(pod: Pod | None) -> dict[str, Any] | None:
    """What the scheduler reads of a pod, without its conditions: the double keeps these apart."""
    if pod is None:
        return None
    meta = pod.metadata
    return {
        "name": (meta.namespace, meta.name),
        "node": pod.spec.node_name,
        "phase": pod.status.phase,
        "annotations": dict(meta.annotations),
        "leaves": meta.deletion_timestamp is not None,
        "grace": meta.deletion_grace_period_seconds,
    }
