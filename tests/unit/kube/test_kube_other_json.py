"""JSON that is valid and none of the API server's, in answer to each call: it says nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from scheduler.core.gang_sources import GroupRef
from scheduler.core.lease import LeaseRecord
from scheduler.kube.api import KubeApi
from scheduler.kube.errors import KubeGarbled
from scheduler.kube.leases import Leases
from scheduler.kube.neighbours import NEIGHBOURS
from scheduler.kube.reflector import Reflector, Resource
from scheduler.kube.session import KubeSession
from scheduler.kube.store import Store
from scheduler.kube.wire import CLAIMS, NAMESPACES, NODES, PODS, VOLUMES, Decode
from tests.unit.kube.server import ApiStub, Failures, ok, page, pod, status, watch

NONE_OF_ITS: dict[str, Any] = {
    "object": {},
    "list": [],
    "null": None,
    "string": "x",
    "null for a list": {"items": None, "metadata": None},
    "nothing but metadata": {"metadata": {}},
    "list without metadata": {"items": []},
    "Status of a failure": {
        "kind": "Status",
        "metadata": {},
        "status": "Failure",
        "reason": "NotFound",
        "code": 404,
    },
}
each_body = pytest.mark.parametrize("body", NONE_OF_ITS.values(), ids=NONE_OF_ITS)

POD = "/api/v1/namespaces/ns/pods/p"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/ns/leases"
GROUP = GroupRef("batch/v1", "jobs", "ns", "j")
RECORD = LeaseRecord(holder="me", seconds=15.0, transitions=0)


def leases(session: KubeSession) -> Leases:
    return Leases(session, "ns", "lead", timeout_seconds=10)


CALLS: dict[tuple[str, str], Callable[[KubeSession], Awaitable[object]]] = {
    ("GET", POD): lambda it: KubeApi(it).get_pod("ns", "p"),
    ("GET", "/apis/batch/v1/namespaces/ns/jobs/j"): lambda it: KubeApi(it).get_group(GROUP),
    ("GET", "/api/v1/namespaces/ns"): lambda it: KubeApi(it).get_namespace_uid("ns"),
    ("DELETE", POD): lambda it: KubeApi(it).delete_pod("ns", "p", "u"),
    ("POST", f"{POD}/eviction"): lambda it: KubeApi(it).evict_pod("ns", "p", "u"),
    ("PATCH", f"{POD}/status"): lambda it: KubeApi(it).patch_pod_status("ns", "p", "u"),
    ("GET", f"{LEASE}/lead"): lambda it: leases(it).read(),
    ("POST", LEASE): lambda it: leases(it).write(RECORD),
}


@each_body
@pytest.mark.parametrize("call", CALLS, ids=" ".join)
async def test_call_is_garbled(
    stub: ApiStub, session: KubeSession, call: tuple[str, str], body: Any
) -> None:
    stub.answer(*call, ok(body))
    with pytest.raises(KubeGarbled):
        await CALLS[call](session)


@each_body
async def test_binding_is_looked_for(stub: ApiStub, session: KubeSession, body: Any) -> None:
    stub.answer("POST", f"{POD}/binding", ok(body))
    stub.answer("GET", POD, ok(pod("p", uid="u")))
    with pytest.raises(KubeGarbled):
        await KubeApi(session).bind("ns", "p", "u", node="n1")
    assert len(stub.requests("GET", POD)) == 1


@each_body
async def test_renewal_of_a_lease_is_garbled(
    stub: ApiStub, session: KubeSession, body: Any
) -> None:
    meta = {"name": "lead", "uid": "u", "resourceVersion": "1"}
    stub.answer("GET", f"{LEASE}/lead", ok({"kind": "Lease", "metadata": meta, "spec": {}}))
    stub.answer("PUT", f"{LEASE}/lead", ok(body))
    lease = leases(session)
    await lease.read()
    with pytest.raises(KubeGarbled):
        await lease.write(RECORD)


@pytest.mark.parametrize(
    "spec", [{"holderIdentity": "x", "leaseDurationSeconds": 15}, {"holderIdentity": "me"}, {}]
)
async def test_lease_that_is_stored_otherwise_is_not_held(
    stub: ApiStub, session: KubeSession, spec: dict[str, Any]
) -> None:
    """Else every candidate would lead."""
    meta = {"name": "lead", "uid": "u", "resourceVersion": "1"}
    stub.answer("GET", f"{LEASE}/lead", status(404))
    stub.answer("POST", LEASE, ok({"kind": "Lease", "metadata": meta, "spec": spec}))
    lease = leases(session)
    assert await lease.read() is None
    with pytest.raises(KubeGarbled):
        await lease.write(RECORD)


PATH = "/api/v1/pods"
# The pauses after failures are long.
in_virtual_time = pytest.mark.looptime
KINDS: dict[str, Decode[Any]] = {
    "pods": PODS,
    "neighbours": NEIGHBOURS,
    "nodes": NODES,
    "claims": CLAIMS,
    "volumes": VOLUMES,
    "namespaces": NAMESPACES,
}
each_kind = pytest.mark.parametrize("kind", KINDS)


def reflector(session: KubeSession, kind: str, lost: list[str]) -> Reflector[Any]:
    def changed(old: Any, new: Any) -> None:
        if new is None:
            lost.append(old.metadata.uid)

    return Reflector(
        session,
        Resource(name=kind, path=PATH, decode=KINDS[kind]),
        store=Store(),
        on_change=changed,
    )


@asynccontextmanager
async def running(it: Reflector[Any]) -> AsyncIterator[Reflector[Any]]:
    task = asyncio.create_task(it.run())
    try:
        yield it
    finally:
        task.cancel()
        await asyncio.wait([task])


@in_virtual_time
@each_kind
@each_body
async def test_list_loses_nothing(
    stub: ApiStub, session: KubeSession, kind: str, body: Any, failures: Failures
) -> None:
    lost: list[str] = []
    stub.answer("GET", PATH, page(pod("a")), ok(body), page(pod("a"), version="20"))
    stub.answer("WATCH", PATH, watch(then="cut"), watch())
    async with running(reflector(session, kind, lost)) as it:
        await stub.wait_for_requests(2, "WATCH")
        assert (len(it.store), lost) == (1, [])
        assert len(failures()) == 2, "the cut, and the list"


@in_virtual_time
@each_kind
@each_body
@pytest.mark.parametrize("framed", [True, False], ids=["an event of it", "a line of it"])
async def test_watch_loses_nothing_and_keeps_its_place(
    stub: ApiStub,
    session: KubeSession,
    kind: str,
    body: Any,
    failures: Failures,
    *,
    framed: bool,
) -> None:
    lost: list[str] = []
    line = {"type": "DELETED", "object": body} if framed else body
    stub.answer("GET", PATH, page(pod("a")), page(pod("a"), version="20"))
    stub.answer("WATCH", PATH, watch(line), watch())
    async with running(reflector(session, kind, lost)) as it:
        await stub.wait_for_requests(2, "WATCH")
        assert (len(it.store), lost) == (1, [])
        assert failures() == ["garbled"]
        assert [seen.query["resourceVersion"] for seen in stub.requests("WATCH")] == ["10", "20"]


@in_virtual_time
@each_kind
async def test_bookmark_without_a_version_is_garbled(
    stub: ApiStub, session: KubeSession, kind: str, failures: Failures
) -> None:
    stub.answer("GET", PATH, page(pod("a")), page(pod("a"), version="20"))
    stub.answer("WATCH", PATH, watch({"type": "BOOKMARK", "object": {"metadata": {}}}), watch())
    async with running(reflector(session, kind, [])):
        await stub.wait_for_requests(2, "WATCH")
    assert failures() == ["garbled"]
