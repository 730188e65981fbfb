"""Several replicas of one scheduler, each behind cables of its own and with its own identity."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from tests.rigs.kube_files import kubeconfig
from tests.support import forked
from tests.support.cable import Cable
from tests.support.cluster import Cluster
from tests.support.kube import Kube
from tests.support.scheduler import Launch, SchedulerProcess
from tests.support.world import SECONDS

WRITES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
# In seconds; generous, because other work may slow the machine down.
SLACK: Final = 10.0
AuditLog = Callable[[], list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Replica:
    """One replica. `account` is its user name in the audit log of a real API server."""

    process: SchedulerProcess
    kube: Cable
    slurm: Cable
    account: str

    def wrote(self, *, since: float, audit: AuditLog | None) -> list[str]:
        """Its writes to both servers since that time of day, as seen on the servers' side."""
        lines = [f"{it.method} {it.path}" for it in self.slurm.writes(since=since)]
        if audit is None:
            return lines + [f"{it.method} {it.path}" for it in self.kube.writes(since=since)]
        return lines + [
            f"{it['verb']} {it['requestURI']}"
            for it in audit()
            # A request without a valid token has no user in the log.
            if it["user"].get("username") == self.account
            and it["verb"] in WRITES
            and _epoch(it["requestReceivedTimestamp"]) >= since
        ]


def _epoch(text: str) -> float:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC).timestamp()


@asynccontextmanager
async def access(kube: Kube, cluster: Cluster, namespace: str, name: str) -> AsyncIterator[str]:
    """A token for that replica; its own where the API server knows more than one user."""
    if cluster.kube_ca is None:
        yield cluster.kube_token
        return
    whole = f"{namespace}-{name}"
    await kube.create("serviceaccounts", {"metadata": {"name": name}}, namespace=namespace)
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    body = {"metadata": {"name": whole}, "roleRef": role, "subjects": [subject]}
    await kube.create("clusterrolebindings", body)
    try:
        yield await kube.service_account_token(name, namespace=namespace)
    finally:
        await kube.delete("clusterrolebindings", whole)


@contextmanager
def replica(
    cluster: Cluster,
    *,
    folder: Path,
    name: str,
    namespace: str,
    token: str,
    flags: tuple[str, ...],
    launch: Launch = forked.spawn,
) -> Iterator[Replica]:
    """A replica that takes part in the election, not started yet; it is stopped with the block."""
    own = folder / name
    own.mkdir()
    with ExitStack() as stack:
        server, slurm = urlsplit(cluster.kube_url), urlsplit(cluster.slurm_url)
        kube_relay = stack.enter_context(Cable(server.port or 0))
        slurm_relay = stack.enter_context(Cable(slurm.port or 0))
        url = f"{server.scheme}://127.0.0.1:{kube_relay.port}"
        (own / "kubeconfig").write_text(json.dumps(kubeconfig(cluster.kube_ca, url, token)))
        process = SchedulerProcess(
            cluster,
            folder=own,
            flags=(
                f"--kubeconfig={own / 'kubeconfig'}",
                f"--slurm-api-base=http://127.0.0.1:{slurm_relay.port}",
                "--leader-elect",
                f"--leader-elect-resource-namespace={namespace}",
                *flags,
            ),
            launch=launch,
        )
        stack.callback(process.kill)
        account = f"system:serviceaccount:{namespace}:{name}"
        yield Replica(process, kube_relay, slurm_relay, account)


@asynccontextmanager
async def pair(
    cluster: Cluster,
    kube: Kube,
    *,
    folder: Path,
    namespace: str,
    flags: tuple[str, ...],
    launch: Launch = forked.spawn,
) -> AsyncIterator[tuple[Replica, Replica]]:
    """Two replicas: the first leads and is started by `launch`, the second stands by."""
    async with AsyncExitStack() as stack:
        made = []
        for name, by in (("one", launch), ("two", forked.spawn)):
            token = await stack.enter_async_context(access(kube, cluster, namespace, name))
            opening = replica(
                cluster,
                folder=folder,
                name=name,
                namespace=namespace,
                token=token,
                flags=flags,
                launch=by,
            )
            made.append(stack.enter_context(opening))
            await asyncio.to_thread(made[-1].process.start)
            await until(lambda: made[0].process.leads, SECONDS)
        yield made[0], made[1]


async def until(holds: Callable[[], bool], seconds: float) -> None:
    """Wait until a condition holds; TimeoutError after `seconds`."""
    async with asyncio.timeout(seconds):
        while not await asyncio.to_thread(holds):  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.02)
