"""Leases: what an election relies on, and our adapter for them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from scheduler.core.lease import LeaseRecord
from scheduler.kube.errors import Conflict, KubeRefused
from scheduler.kube.leases import Leases
from scheduler.kube.session import KubeSession
from tests.contract.kube.client import KubeClient, Namespace
from tests.contract.kube.conftest import KubePeer
from tests.rigs.kube_files import kubeconfig

_API = "/apis/coordination.k8s.io/v1"
ME = LeaseRecord(holder="me", seconds=15, transitions=0)


@pytest.fixture
async def session(kube_peer: KubePeer, tmp_path: Path) -> AsyncIterator[KubeSession]:
    config = tmp_path / "kubeconfig"
    config.write_text(json.dumps(kubeconfig(kube_peer.ca, kube_peer.url, kube_peer.token)))
    async with await KubeSession.open(config, user_agent="contract") as session:
        yield session


@pytest.fixture
def path(namespace: Namespace) -> str:
    return namespace.path("leases", "lead", api=_API)


def view(session: KubeSession, namespace: Namespace) -> Leases:
    """The Lease as one process sees it."""
    return Leases(session, namespace.name, "lead", timeout_seconds=10)


async def test_lease_is_made_kept_and_handed_over(
    session: KubeSession, namespace: Namespace, kube: KubeClient, path: str
) -> None:
    one, two = view(session, namespace), view(session, namespace)
    assert await one.read() is None
    made = await one.write(ME)
    assert made.record == ME
    assert await two.read() == made
    first = (await kube.get(path)).body
    assert first["spec"]["acquireTime"] == first["spec"]["renewTime"]
    kept = await one.write(ME)
    assert kept.version != made.version
    second = (await kube.get(path)).body
    assert second["spec"]["acquireTime"] == first["spec"]["acquireTime"]
    assert second["spec"]["renewTime"] > first["spec"]["renewTime"]
    await one.write(LeaseRecord(holder="", seconds=1, transitions=0))
    found = await two.read()
    assert found is not None
    assert found.record.holder == ""
    taken = await two.write(LeaseRecord(holder="two", seconds=15, transitions=1))
    assert (await one.read()) == taken
    assert one.ref.uid == first["metadata"]["uid"]


async def test_of_two_that_write_one_conflicts(session: KubeSession, namespace: Namespace) -> None:
    one, two = view(session, namespace), view(session, namespace)
    await one.read()
    await two.read()
    await one.write(ME)
    with pytest.raises(Conflict):
        await two.write(LeaseRecord(holder="two", seconds=15, transitions=0))
    await two.read()
    await one.write(ME)
    with pytest.raises(Conflict):
        await two.write(LeaseRecord(holder="two", seconds=15, transitions=1))


async def test_what_others_put_into_it_stays(
    session: KubeSession, namespace: Namespace, kube: KubeClient, path: str
) -> None:
    lease = view(session, namespace)
    await lease.read()
    await lease.write(ME)
    await kube.patch(path, {"metadata": {"labels": {"a": "b"}}}, "application/merge-patch+json")
    await lease.read()
    await lease.write(ME)
    assert (await kube.get(path)).body["metadata"]["labels"] == {"a": "b"}


async def test_write_over_a_lease_that_was_deleted_is_refused(
    session: KubeSession, namespace: Namespace, kube: KubeClient, path: str
) -> None:
    lease = view(session, namespace)
    await lease.read()
    await lease.write(ME)
    await kube.delete(path)
    with pytest.raises(KubeRefused) as refused:
        await lease.write(ME)
    assert refused.value.status in {404, 409}
    assert await lease.read() is None
    await lease.write(ME)
