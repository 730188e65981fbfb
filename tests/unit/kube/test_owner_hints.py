"""Annotations of a controller are told on its pods, for one read of each controller at most."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

from scheduler.execute.owner_hints import OwnerHints
from scheduler.kube.api import KubeApi
from scheduler.kube.recorder import Recorder
from scheduler.kube.session import KubeSession
from scheduler.kube.wire import Pod, decode_pod
from tests.unit.kube import server
from tests.unit.kube.server import ApiStub, write_kubeconfig
from tests.unit.service.tiny_service import TinyRecorder

_PREFIX = "sunk.coreweave.com/"
_JOB = "/apis/batch/v1/namespaces/ns/jobs/train"


def _pod(
    name: str,
    *,
    controller: str = "Job",
    owner_name: str = "train",
    namespace: str = "ns",
    node: str = "",
    controls: bool = True,
    **annotations: str,
) -> Pod:
    group = "batch/v1" if controller == "Job" else "apps/v1"
    owner = {
        "kind": controller,
        "apiVersion": group,
        "name": owner_name,
        "uid": f"uid-of-{controller}",
        "controller": controls,
    }
    meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "ownerReferences": [owner]}
    given = {_PREFIX + key: value for key, value in annotations.items()}
    body = {"metadata": meta | {"annotations": given}, "spec": {"nodeName": node}}
    return decode_pod(json.dumps(body).encode())


def _object(**annotations: str) -> server.Handler:
    given = {_PREFIX + key: value for key, value in annotations.items()}
    return server.ok({"metadata": {"name": "train", "annotations": given | {"foreign/x": "1"}}})


@asynccontextmanager
async def _hints(stub: ApiStub, folder: Path) -> AsyncIterator[tuple[OwnerHints, TinyRecorder]]:
    recorder = TinyRecorder()
    config = write_kubeconfig(folder / "kubeconfig", stub.url, {"token": "x"})
    async with await KubeSession.open(config, user_agent="t") as session:
        hints = OwnerHints(
            KubeApi(session),
            cast("Recorder", recorder),
            prefixes=(_PREFIX,),
            clock=asyncio.get_running_loop().time,
        )
        task = asyncio.create_task(hints.run())
        try:
            yield hints, recorder
        finally:
            task.cancel()


async def _until_told(recorder: TinyRecorder, count: int) -> None:
    async with asyncio.timeout(45):
        while len(recorder.events) < count:  # noqa: ASYNC110 - a list has no event
            await asyncio.sleep(0.01)


async def test_pod_is_told_what_its_controller_has_and_it_has_not(
    stub: ApiStub, tmp_path: Path
) -> None:
    stub.answer("GET", _JOB, _object(partition="gpu", account="a"))
    async with _hints(stub, tmp_path) as (hints, recorder):
        for number in range(3):
            hints.see(_pod(f"p-{number}", account="a"))
        await _until_told(recorder, 1)
        hints.see(_pod("later"))
        await _until_told(recorder, 2)
        hints.see(_pod("runs", node="n1"))
        hints.see(_pod("has-them", account="a", partition="other"))
    assert [event.uid for event in recorder.events] == ["uid-p-0", "uid-later"]
    assert "Job train has the annotations sunk.coreweave.com/partition, and" in (
        recorder.events[0].message
    )
    assert len(stub.seen) == 1, "each controller is read once"


async def test_right_that_is_missing_is_asked_for_once(stub: ApiStub, tmp_path: Path) -> None:
    stub.answer("GET", _JOB, server.status(403, reason="Forbidden"))
    stub.answer("GET", "/apis/apps/v1/namespaces/ns/replicasets/train", _object(qos="high"))
    async with _hints(stub, tmp_path) as (hints, recorder):
        hints.see(_pod("first"))
        hints.see(_pod("other", controller="ReplicaSet"))
        await _until_told(recorder, 1)
        for number in range(50):
            hints.see(_pod(f"p-{number}"))
        hints.see(_pod("another", controller="ReplicaSet"))
        await _until_told(recorder, 2)
    assert len(stub.seen) == 2


async def test_pods_in_excess_are_not_told(stub: ApiStub, tmp_path: Path) -> None:
    stub.answer("GET", _JOB, _object(partition="gpu"))
    async with _hints(stub, tmp_path) as (hints, recorder):
        hints.see(_pod("first"))
        await _until_told(recorder, 1)
        for number in range(1000):
            hints.see(_pod(f"p-{number}"))
    assert 20 <= len(recorder.events) <= 25


@pytest.mark.parametrize("controller", ["Workflow", "Node"])
async def test_other_controllers_are_not_read(
    stub: ApiStub, tmp_path: Path, controller: str
) -> None:
    stub.answer("GET", _JOB, _object(partition="gpu"))
    async with _hints(stub, tmp_path) as (hints, recorder):
        hints.see(_pod("other", controller=controller))
        hints.see(_pod("ours"))
        await _until_told(recorder, 1)
    assert [event.uid for event in recorder.events] == ["uid-ours"]


@pytest.mark.parametrize(
    "name",
    ["../../../../api/v1/namespaces/ns/secrets/x", "..", "train?watch=true", "a/status", "%2e%2e"],
)
async def test_name_that_leads_elsewhere_is_not_asked_for(
    stub: ApiStub, tmp_path: Path, name: str
) -> None:
    """Whoever creates a pod may write any name into its ownerReferences."""
    stub.answer("GET", _JOB, _object(partition="gpu"))
    async with _hints(stub, tmp_path) as (hints, recorder):
        hints.see(_pod("forged", owner_name=name, controller="ReplicaSet"))
        hints.see(_pod("first"))
        await _until_told(recorder, 1)
    assert len(stub.seen) == 1
    assert [event.uid for event in recorder.events] == ["uid-first"]


async def test_uid_of_anothers_controller_tells_nothing_about_it(
    stub: ApiStub, tmp_path: Path
) -> None:
    stub.answer("GET", "/apis/batch/v1/namespaces/other/jobs/lie", _object(qos="false"))
    stub.answer("GET", _JOB, _object(partition="gpu"))
    async with _hints(stub, tmp_path) as (hints, recorder):
        hints.see(_pod("forged", namespace="other", owner_name="lie"))
        await _until_told(recorder, 1)
        hints.see(_pod("honest"))
        await _until_told(recorder, 2)
    assert "partition" in recorder.events[1].message
    assert "qos" not in recorder.events[1].message


async def test_owner_that_is_no_controller_is_not_read(stub: ApiStub, tmp_path: Path) -> None:
    stub.answer("GET", _JOB, _object(partition="gpu"))
    async with _hints(stub, tmp_path) as (hints, recorder):
        hints.see(_pod("owned", controls=False))
        hints.see(_pod("controlled"))
        await _until_told(recorder, 1)
    assert [event.uid for event in recorder.events] == ["uid-controlled"]
