"""A bare client for contract tests: tests see what they send and what comes back."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import aiohttp
import msgspec

Body = dict[str, Any]

STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"

NOWHERE = "no-such-node"
NOBODY = "no-such-scheduler"
SECONDS = 60.0
# The time limit for controllers, on a machine that has other work.
CONTROLLER_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Answer:
    """Status code and decoded body."""

    status: int
    body: Body

    @property
    def version(self) -> str:
        return str(self.body["metadata"]["resourceVersion"])

    @property
    def uid(self) -> str:
        return str(self.body["metadata"]["uid"])

    def refused(self, status: int, reason: str) -> Body:
        """Check that the answer is a refusal with that code and reason. Returns its Status."""
        assert (self.status, self.body.get("reason")) == (status, reason), self.body
        assert self.body["kind"] == "Status"
        assert self.body["status"] == "Failure"
        assert self.body["code"] == status
        return self.body


class KubeClient:
    """Requests to one API server."""

    def __init__(self, url: str, *, token: str | None, ca: Path | None) -> None:
        context = ssl.create_default_context(cafile=str(ca)) if ca else None
        self._session = aiohttp.ClientSession(
            url,
            headers={"Authorization": f"Bearer {token}"} if token else {},
            connector=aiohttp.TCPConnector(ssl=context if context else True),
            timeout=aiohttp.ClientTimeout(total=SECONDS),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Answer:
        data = None if body is None else msgspec.json.encode(body)
        headers = {"Accept": accept}
        if data is not None:
            headers["Content-Type"] = content_type
        async with self._session.request(
            method, path, data=data, headers=headers, params=query or {}
        ) as response:
            text = await response.read()
            is_json = "json" in response.headers.get("Content-Type", "")
            decoded = msgspec.json.decode(text) if is_json else {"text": text.decode()}
            return Answer(response.status, decoded)

    async def get(self, path: str, **query: str) -> Answer:
        return await self.call("GET", path, query=query)

    async def post(self, path: str, body: Body) -> Answer:
        return await self.call("POST", path, body)

    async def put(self, path: str, body: Body) -> Answer:
        return await self.call("PUT", path, body)

    async def patch(self, path: str, body: Any, content_type: str = STRATEGIC) -> Answer:
        return await self.call("PATCH", path, body, content_type=content_type)

    async def delete(self, path: str, **options: Any) -> Answer:
        return await self.call("DELETE", path, options or None)

    @asynccontextmanager
    async def watch(self, path: str, **query: str) -> AsyncIterator[Watching]:
        async with self._session.get(path, params={"watch": "true", **query}) as response:
            assert response.status == 200, await response.text()
            yield Watching(response)


class Watching:
    """The events of one watch."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def next(self) -> tuple[str, Body]:
        """Type and object of the next event."""
        async with asyncio.timeout(SECONDS):
            line = await self._response.content.readline()
        assert line, "the watch has ended"
        event = msgspec.json.decode(line)
        return event["type"], event["object"]

    async def named(self) -> tuple[str, str]:
        """Type and object name of the next event."""
        kind, found = await self.next()
        return kind, found["metadata"]["name"]

    async def rest(self) -> list[tuple[str, Body]]:
        """All events until the server ends the watch."""
        events = []
        async with asyncio.timeout(SECONDS):
            while line := await self._response.content.readline():
                event = msgspec.json.decode(line)
                events.append((event["type"], event["object"]))
        return events


class Namespace:
    """Paths in one namespace, and helpers for the objects that most tests begin with."""

    def __init__(self, kube: KubeClient, name: str) -> None:
        self._kube = kube
        self.name = name

    def path(self, plural: str, name: str = "", *, api: str = "/api/v1") -> str:
        return f"{api}/namespaces/{self.name}/{plural}" + (f"/{name}" if name else "")

    async def pod(self, name: str = "p1", *, metadata: Body | None = None, **spec: Any) -> Answer:
        """Create a pod."""
        answer = await self._kube.post(self.path("pods"), pod(name, metadata=metadata, **spec))
        assert answer.status == 201, answer.body
        return answer

    async def bind(
        self, name: str = "p1", *, node: str = NOWHERE, metadata: Body | None = None
    ) -> Answer:
        """Try to bind a pod to a Node name that only this namespace uses. Returns the answer."""
        return await self._kube.post(
            self.path("pods", f"{name}/binding"), binding(name, self.node(node), metadata)
        )

    async def bound(
        self, name: str = "p1", *, node: str = NOWHERE, metadata: Body | None = None
    ) -> None:
        """Bind a pod as `bind` does, and wait until the API server's cache knows of it. A DELETE
        that comes before gives the pod a grace period of 0: the server first reads the pod in its
        cache, where it has no Node, and keeps that period (Kubernetes 1.36).
        """
        answer = await self.bind(name, node=node, metadata=metadata)
        assert answer.status == 201, answer.body
        path = self.path("pods", name)

        async def cached() -> bool:
            found = await self._kube.get(path, resourceVersion="0")
            return found.status == 200 and "nodeName" in found.body["spec"]

        await eventually(cached, "the cache knows of the binding")

    def node(self, name: str) -> str:
        """A Node name that no other test uses. The collector of pods whose Node is missing
        remembers the names of Nodes (Kubernetes 1.36), and deletes a pod of any age.
        """
        return f"{name}-{self.name}"

    async def pods(self, count: int) -> list[Body]:
        """The pods that are not being deleted, once there are so many."""

        async def look() -> list[Body] | None:
            items = (await self._kube.get(self.path("pods"))).body["items"]
            stay = [it for it in items if "deletionTimestamp" not in it["metadata"]]
            return stay if len(stay) == count else None

        found: list[Body] = await eventually(look, f"there are {count} pods")
        return found

    async def set_status(self, name: str, **status: Any) -> Answer:
        """Patch a pod's status."""
        return await self._kube.patch(self.path("pods", f"{name}/status"), {"status": status})

    async def remove(self) -> None:
        """Delete the pods, which would wait for a kubelet, and then the namespace."""
        pods = await self._kube.get(self.path("pods"))
        for found in pods.body["items"]:
            path = self.path("pods", found["metadata"]["name"])
            if found["metadata"].get("finalizers"):
                await self._kube.patch(path, {"metadata": {"finalizers": None}}, MERGE)
            await self._kube.delete(path, gracePeriodSeconds=0)
        await self._kube.delete(f"/api/v1/namespaces/{self.name}")


def pod(name: str, *, metadata: Body | None = None, **spec: Any) -> Body:
    """A pod that no scheduler serves."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {
            "schedulerName": NOBODY,
            "containers": [{"name": "main", "image": "example.invalid/none:1"}],
            **spec,
        },
    }


def binding(name: str, node: str = NOWHERE, metadata: Body | None = None) -> Body:
    """A Binding of that pod to that Node."""
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, **(metadata or {})},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def condition(body: Body, kind: str) -> Body:
    """The status condition of that type, empty when there is none."""
    conditions = body.get("status", {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == kind), {})


async def eventually(look: Callable[[], Awaitable[Any]], what: str) -> Any:
    """The result of `look`, once it is neither None nor False. Fails after 60 s."""
    try:
        async with asyncio.timeout(CONTROLLER_SECONDS):
            while True:
                found = await look()
                if found is not None and found is not False:
                    return found
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"not within {CONTROLLER_SECONDS} s: {what}") from None
