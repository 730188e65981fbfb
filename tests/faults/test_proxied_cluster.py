"""Files that lead through the proxies: with TLS where the API server has it, tokens as they are."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import trustme

from scheduler.kube.api import KubeApi
from scheduler.kube.session import KubeSession
from tests.faults.calls import Server
from tests.faults.cluster import ProxiedCluster, open_front
from tests.faults.messages import written
from tests.faults.play import Play
from tests.rigs.kube_files import kubeconfig
from tests.support.sandbox import SandboxCluster
from tests.support.scheduler import SchedulerProcess


@dataclass(frozen=True)
class Somewhere:
    """A cluster of which only its files are of interest."""

    kubeconfig: Path
    slurm_token_file: Path = Path("unread")
    slurm_url: str = "http://127.0.0.1:1"
    placeholder_mode: str = "external"


async def test_an_api_server_with_tls_gets_the_token_of_the_kubeconfig(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(written(200, b'{"metadata": {"uid": "1234"}}'))
        await writer.drain()
        writer.close()

    async with AsyncExitStack() as stack:
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
        await stack.enter_async_context(server)
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        path = tmp_path / "kubeconfig"
        path.write_text(json.dumps(kubeconfig(tmp_path / "ca.pem", url, "a-token")))
        front = await open_front(stack, Somewhere(path), play=Play(), folder=tmp_path)
        session = await KubeSession.open(front.kubeconfig, user_agent="test")
        async with session:
            assert session.server == front.kube.url
            assert session.server.startswith("https://")
            assert await KubeApi(session).get_namespace_uid("default") == "1234"
    assert b"Authorization: Bearer a-token" in asked[0]


def test_a_scheduler_works_through_the_proxies(tmp_path: Path) -> None:
    wanted = {(Server.SLURM, "ping"), (Server.KUBE, "watch_pods")}
    with (
        SandboxCluster("26.05", nodes=1) as cluster,
        ProxiedCluster(cluster, folder=tmp_path) as proxied,
        SchedulerProcess(proxied, folder=tmp_path),
    ):
        until = time.monotonic() + 60
        while not wanted <= {(it.server, it.name) for it in list(proxied.play.journal)}:
            assert time.monotonic() < until, proxied.play.journal
            time.sleep(0.02)
    assert not proxied.play.strangers
    assert not proxied.play.failures
