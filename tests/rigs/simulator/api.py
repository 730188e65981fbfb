"""The API server as kubelets use it: repeated writes, and one list and watch of bound pods."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

import aiohttp
import msgspec

STRATEGIC_MERGE: Final = "application/strategic-merge-patch+json"
MERGE: Final = "application/merge-patch+json"

_CONNECTIONS: Final = 32
_ASK_SECONDS: Final = 30.0
_AGAIN_SECONDS: Final = 0.5
# The server ends a watch after some minutes and sends a bookmark each minute; see k8s.io/apiserver.
_SILENT_SECONDS: Final = 150.0
# Answers after which a retry is useless: the object is gone, or has another uid (409 for a delete,
# 422 for a patch), or exists already.
_VAIN: Final = {"POST": {409}, "DELETE": {404, 409}, "PATCH": {404, 422}}


class Metadata(msgspec.Struct, frozen=True):
    """The metadata of an object that a kubelet reads."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""  # noqa: N815 - Kubernetes' own name
    annotations: dict[str, str] = {}
    deletionTimestamp: str | None = None  # noqa: N815
    deletionGracePeriodSeconds: int | None = None  # noqa: N815


class Container(msgspec.Struct, frozen=True):
    """One container of a pod."""

    name: str
    image: str = ""


class Spec(msgspec.Struct, frozen=True):
    """The fields of a pod's spec that a kubelet reads."""

    containers: tuple[Container, ...] = ()
    nodeName: str = ""  # noqa: N815
    restartPolicy: str = "Always"  # noqa: N815


class Status(msgspec.Struct, frozen=True):
    """The fields of a pod's status that a kubelet reads."""

    phase: str = "Pending"


class Pod(msgspec.Struct, frozen=True):
    """A pod that is bound to a Node."""

    metadata: Metadata
    spec: Spec = Spec()
    status: Status = Status()


class _Pods(msgspec.Struct, frozen=True):
    metadata: Metadata
    items: tuple[Pod, ...] = ()


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str


class _NodeStatus(msgspec.Struct, frozen=True):
    conditions: tuple[_Condition, ...] = ()


class _Node(msgspec.Struct, frozen=True):
    metadata: Metadata
    status: _NodeStatus = _NodeStatus()

    def lost(self) -> bool:
        return _Condition("Ready", "Unknown") in self.status.conditions


class _Nodes(msgspec.Struct, frozen=True):
    items: tuple[_Node, ...] = ()


class _Change(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class Listed(msgspec.Struct, frozen=True):
    """All bound pods; pods that were known before and are not among them are gone."""

    pods: tuple[Pod, ...]


class Seen(msgspec.Struct, frozen=True):
    """A pod that is new, has changed, or is `gone`."""

    pod: Pod
    gone: bool


class Api:
    """The API server at `url`, for a user who may do everything; an async context manager."""

    def __init__(self, url: str, *, token: str, ca: Path) -> None:
        context = ssl.create_default_context(cafile=str(ca))
        self._session = aiohttp.ClientSession(
            url,
            headers={"Authorization": f"Bearer {token}", "User-Agent": "kubelet-simulator"},
            timeout=aiohttp.ClientTimeout(total=_ASK_SECONDS),
            connector=aiohttp.TCPConnector(ssl=context, limit=_CONNECTIONS),
            read_bufsize=2**20,
        )
        self._pods = msgspec.json.Decoder(_Pods)
        self._pod = msgspec.json.Decoder(Pod)
        self._nodes = msgspec.json.Decoder(_Nodes)
        self._change = msgspec.json.Decoder(_Change)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def write(
        self, method: str, path: str, body: Mapping[str, Any], *, kind: str = "application/json"
    ) -> bool:
        """Repeat a request until it succeeds; False if it cannot, because the object is gone."""
        data = msgspec.json.encode(body)
        while True:
            with suppress(aiohttp.ClientError, TimeoutError):
                headers = {"Content-Type": kind}
                async with self._session.request(
                    method, path, data=data, headers=headers
                ) as answer:
                    await answer.read()
                    if answer.status < 300:
                        return True
                    if answer.status in _VAIN[method]:
                        return False
            await asyncio.sleep(_AGAIN_SECONDS)

    async def lost_nodes(self) -> set[str]:
        """Names of the Nodes that the node controller has marked as lost."""
        with suppress(aiohttp.ClientError, TimeoutError):
            listing = self._session.get("/api/v1/nodes", params={"resourceVersion": "0"})
            async with listing as answer:
                answer.raise_for_status()
                found = self._nodes.decode(await answer.read())
                return {node.metadata.name for node in found.items if node.lost()}
        return set()

    async def bound_pods(self) -> AsyncIterator[Listed | Seen]:
        """All bound pods, and their changes for ever; listed again after each gap."""
        while True:
            with suppress(aiohttp.ClientError, TimeoutError):
                pods = await self._list()
                yield Listed(pods.items)
                async for seen in self._watch(pods.metadata.resourceVersion):
                    yield seen
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _list(self) -> _Pods:
        query = {"fieldSelector": "spec.nodeName!=", "resourceVersion": "0"}
        async with self._session.get("/api/v1/pods", params=query) as answer:
            answer.raise_for_status()
            return self._pods.decode(await answer.read())

    async def _watch(self, since: str) -> AsyncIterator[Seen]:
        query = {
            "fieldSelector": "spec.nodeName!=",
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": since,
        }
        timeout = aiohttp.ClientTimeout(sock_connect=_ASK_SECONDS, sock_read=_SILENT_SECONDS)
        async with self._session.get("/api/v1/pods", params=query, timeout=timeout) as answer:
            answer.raise_for_status()
            async for line in answer.content:
                change = self._change.decode(line)
                if change.type == "ERROR":
                    return
                if change.type != "BOOKMARK":
                    pod = self._pod.decode(change.object)
                    yield Seen(pod, gone=change.type == "DELETED")
