"""A cluster behind fault proxies, to which a scheduler connects instead of the cluster."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self, TypeVar
from urllib.parse import urlsplit

import trustme

from tests.faults.calls import Server
from tests.faults.play import Play
from tests.faults.proxy import FaultProxy
from tests.support.cluster import Servers

T = TypeVar("T")

_CALL_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Front:
    """Proxies of both servers, and the files by which a scheduler finds them."""

    slurm: FaultProxy
    kube: FaultProxy
    kubeconfig: Path
    slurm_token_file: Path

    @property
    def slurm_url(self) -> str:
        """slurmrestd as the scheduler sees it."""
        return self.slurm.url


async def open_front(stack: AsyncExitStack, cluster: Servers, *, play: Play, folder: Path) -> Front:
    """Start both in this loop; they end with `stack`. New files go into `folder`."""
    config = json.loads(cluster.kubeconfig.read_text())
    kube = config["clusters"][0]["cluster"]
    authority = kube.get("certificate-authority")
    ca, certificate = (None, None) if authority is None else _certified(folder)
    slurm = FaultProxy(Server.SLURM, cluster.slurm_url, play=play)
    api = FaultProxy(
        Server.KUBE,
        kube["server"],
        play=play,
        trust=None if authority is None else ssl.create_default_context(cafile=authority),
        certificate=certificate,
    )
    await stack.enter_async_context(slurm)
    await stack.enter_async_context(api)
    path = folder / "proxied.kubeconfig"
    path.write_text(json.dumps(_led_to(config, api.url, ca)))
    return Front(slurm, api, path, cluster.slurm_token_file)


class ProxiedCluster:
    """The proxies in a thread of their own, for a scheduler that is a process; a context manager.

    Rules may be added to `play` from any thread. Hooks run in the proxies' loop: they may send
    signals to the scheduler's process.
    """

    def __init__(self, cluster: Servers, *, folder: Path) -> None:
        self.play = Play()
        self._cluster, self._folder = cluster, folder
        self._stack = AsyncExitStack()
        self._front: Front | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxies", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._front = self._call(self._open())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._call(self._stack.aclose())
        finally:
            self._end()

    @property
    def front(self) -> Front:
        """The proxies, while they run."""
        assert self._front is not None
        return self._front

    def cut(self) -> None:
        """Cut all connections of the scheduler, watches above all."""
        for proxy in (self.front.slurm, self.front.kube):
            self._loop.call_soon_threadsafe(proxy.cut)

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig file for the proxy of the API server."""
        return self.front.kubeconfig

    @property
    def slurm_token_file(self) -> Path:
        """The cluster's own."""
        return self.front.slurm_token_file

    @property
    def placeholder_mode(self) -> str:
        """The cluster's own."""
        return self._cluster.placeholder_mode

    @property
    def slurm_url(self) -> str:
        """The proxy of slurmrestd."""
        return self.front.slurm_url

    async def _open(self) -> Front:
        return await open_front(self._stack, self._cluster, play=self.play, folder=self._folder)

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CALL_SECONDS)
        self._loop.close()

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_CALL_SECONDS)


def _certified(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """Write a CA certificate to a file; returns that file, and a server context with its trust."""
    authority = trustme.CA()
    path = folder / "proxy-ca.pem"
    authority.cert_pem.write_to_path(str(path))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return path, context


def _led_to(config: dict[str, Any], url: str, ca: Path | None) -> dict[str, Any]:
    """That kubeconfig with another server; the credentials stay, even those in the URL."""
    cluster = dict(config["clusters"][0]["cluster"])
    user, at, _ = urlsplit(cluster["server"]).netloc.rpartition("@")
    cluster["server"] = url.replace("://", f"://{user}{at}")
    if ca is not None:
        cluster["certificate-authority"] = str(ca)
    return {**config, "clusters": [{**config["clusters"][0], "cluster": cluster}]}
