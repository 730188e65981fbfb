"""A small Kubernetes client with which tests act; it shares no code with the scheduler."""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote

import aiohttp
import msgspec

Object = dict[str, Any]

_GROUPS: Final = {
    "pods": "/api/v1",
    "events": "/api/v1",
    "nodes": "/api/v1",
    "namespaces": "/api/v1",
    "serviceaccounts": "/api/v1",
    "secrets": "/api/v1",
    "configmaps": "/api/v1",
    "persistentvolumeclaims": "/api/v1",
    "persistentvolumes": "/api/v1",
    "deployments": "/apis/apps/v1",
    "replicasets": "/apis/apps/v1",
    "statefulsets": "/apis/apps/v1",
    "jobs": "/apis/batch/v1",
    "leaderworkersets": "/apis/leaderworkerset.x-k8s.io/v1",
    "podgroups": "/apis/scheduling.x-k8s.io/v1alpha1",
    "podgroups.scheduling.k8s.io": "/apis/scheduling.k8s.io/v1alpha2",
    "jobsets": "/apis/jobset.x-k8s.io/v1alpha2",
    "services": "/api/v1",
    "cronjobs": "/apis/batch/v1",
    "poddisruptionbudgets": "/apis/policy/v1",
    "endpointslices": "/apis/discovery.k8s.io/v1",
    "leases": "/apis/coordination.k8s.io/v1",
    "clusterroles": "/apis/rbac.authorization.k8s.io/v1",
    "roles": "/apis/rbac.authorization.k8s.io/v1",
    "rolebindings": "/apis/rbac.authorization.k8s.io/v1",
    "clusterrolebindings": "/apis/rbac.authorization.k8s.io/v1",
}
_APPLY: Final = "application/apply-patch+yaml"
_STRATEGIC: Final = "application/strategic-merge-patch+json"
_MERGE: Final = "application/merge-patch+json"
# The API server gives up a request of its own after this time.
_SECONDS: Final = 60.0
# kube-controller-manager retries ever more slowly while a test has stopped the API server.
_ACCOUNT_SECONDS: Final = 60.0


class KubeAnswerError(Exception):
    """The API server refused; `status` is the HTTP status, `reason` the Kubernetes reason."""

    def __init__(self, status: int, body: Object) -> None:
        super().__init__(f"{status} {body.get('reason', '')}: {body.get('message', body)}")
        self.status = status
        self.reason = str(body.get("reason", ""))


class Kube:
    """The API server at `url`; an async context manager.

    `agent` is the User-Agent of the requests. `kind` is a plural as in URLs
    ("pods"), with its group if another has the same plural. Methods raise
    KubeAnswerError for a refusal, and aiohttp.ClientError or TimeoutError when there is no answer
    within a minute.
    """

    def __init__(
        self, url: str, *, token: str, ca: Path | None = None, agent: str = "tests"
    ) -> None:
        context = ssl.create_default_context(cafile=str(ca)) if ca else None
        self._session = aiohttp.ClientSession(
            url,
            headers={"Authorization": f"Bearer {token}", "User-Agent": agent},
            timeout=aiohttp.ClientTimeout(total=_SECONDS),
            connector=aiohttp.TCPConnector(ssl=context if context else True, limit=64),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def create(self, kind: str, body: Object, *, namespace: str = "") -> Object:
        """Store a new object."""
        return await self._ask("POST", _path(kind, namespace), body)

    async def create_namespace(self, name: str) -> None:
        """Create a namespace; wait until a controller has added the service account pods need."""
        await self.create("namespaces", {"metadata": {"name": name}})
        async with asyncio.timeout(_ACCOUNT_SECONDS):
            while True:
                if await self.find("serviceaccounts", "default", namespace=name) is not None:
                    return
                await asyncio.sleep(0.05)

    async def apply(self, body: Object) -> None:
        """Create or replace the object of a manifest (server-side apply)."""
        metadata = body["metadata"]
        path = _path(f"{body['kind'].lower()}s", metadata.get("namespace", ""), metadata["name"])
        await self._ask("PATCH", f"{path}?fieldManager=tests&force=true", body, content_type=_APPLY)

    async def service_account_token(self, name: str, *, namespace: str) -> str:
        """A token of a service account, good for an hour."""
        wanted = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        path = f"{_path('serviceaccounts', namespace, name)}/token"
        answer = await self._ask("POST", path, wanted)
        return str(answer["status"]["token"])

    async def get(self, kind: str, name: str, *, namespace: str = "") -> Object:
        """One object."""
        return await self._ask("GET", _path(kind, namespace, name))

    async def find(self, kind: str, name: str, *, namespace: str = "") -> Object | None:
        """One object, or None if it does not exist."""
        try:
            return await self.get(kind, name, namespace=namespace)
        except KubeAnswerError as refusal:
            if refusal.status == 404:
                return None
            raise

    async def items(self, kind: str, *, namespace: str = "") -> list[Object]:
        """All objects, or those of one namespace."""
        answer = await self._ask("GET", _path(kind, namespace))
        return list(answer["items"])

    async def cached(self, kind: str, *, fields: str) -> list[Object]:
        """The objects that this field selector selects, as the API server's cache has them. That
        may be a moment ago, and costs etcd nothing.
        """
        query = f"fieldSelector={quote(fields)}&resourceVersion=0"
        answer = await self._ask("GET", f"{_path(kind, '')}?{query}")
        return list(answer["items"])

    async def delete(
        self, kind: str, name: str, *, namespace: str = "", grace_seconds: int | None = None
    ) -> None:
        """Ask for an object's deletion; does nothing if it does not exist."""
        options: Object = {"propagationPolicy": "Background"}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        try:
            await self._ask("DELETE", _path(kind, namespace, name), options)
        except KubeAnswerError as refusal:
            if refusal.status != 404:
                raise

    async def patch(
        self, kind: str, name: str, patch: Object, *, namespace: str = "", subresource: str = ""
    ) -> Object:
        """Change an object, or its subresource ("status"), by a merge patch."""
        path = _path(kind, namespace, name) + (f"/{subresource}" if subresource else "")
        return await self._ask("PATCH", path, patch, content_type=_MERGE)

    async def bind(self, pod: str, node: str, *, namespace: str) -> None:
        """Put a pod on a Node, as a scheduler does."""
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod},
            "target": {"kind": "Node", "name": node},
        }
        await self._ask("POST", f"{_path('pods', namespace, pod)}/binding", body)

    async def evict(self, pod: str, *, namespace: str) -> None:
        """Ask the Eviction API; KubeAnswerError 429 where a budget forbids it."""
        body = {"metadata": {"name": pod, "namespace": namespace}}
        await self._ask("POST", f"{_path('pods', namespace, pod)}/eviction", body)

    async def log(self, pod: str, *, namespace: str) -> str:
        """The log of the pod's container."""
        answer = await self._ask("GET", f"{_path('pods', namespace, pod)}/log")
        return str(answer["message"])

    async def events_of(self, pod: str, *, namespace: str) -> list[Object]:
        """The Events about a pod, oldest first."""
        every = await self.items("events", namespace=namespace)
        mine = [it for it in every if it["involvedObject"].get("name") == pod]
        return sorted(mine, key=lambda it: it["metadata"]["creationTimestamp"])

    @asynccontextmanager
    async def watch(
        self, kind: str, *, namespace: str, since: str
    ) -> AsyncIterator[AsyncIterator[tuple[str, Object]]]:
        """Changes after the resourceVersion `since`, as (ADDED|MODIFIED|DELETED|ERROR, object).

        The block begins once the server has answered.
        """
        query = {"watch": "true", "resourceVersion": since, "allowWatchBookmarks": "true"}
        async with self._session.get(
            _path(kind, namespace), params=query, timeout=aiohttp.ClientTimeout(sock_connect=5)
        ) as response:
            if response.status != 200:
                raise KubeAnswerError(response.status, await _decoded(response))
            connection = response.connection
            try:
                yield _changes(response)
            finally:
                # Closed hard, because a TLS goodbye to a busy server could outlast the event loop.
                if connection is not None and connection.transport is not None:
                    connection.transport.abort()

    async def resource_version(self, kind: str, *, namespace: str) -> str:
        """The resourceVersion from which a watch may begin now."""
        answer = await self._ask("GET", _path(kind, namespace))
        return str(answer["metadata"]["resourceVersion"])

    async def answer(self, method: str, path: str, body: Object | None) -> tuple[int, Object]:
        """Status and body of the API server's answer, including a refusal."""
        kinds = {"PATCH": _STRATEGIC}
        try:
            found = await self._ask(
                method, path, body, content_type=kinds.get(method, "application/json")
            )
        except KubeAnswerError as refusal:
            return refusal.status, {"message": str(refusal)}
        return 201 if method == "POST" else 200, found

    async def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        content_type: str = "application/json",
    ) -> Object:
        data = None if body is None else msgspec.json.encode(body)
        headers = {"Content-Type": content_type}
        async with self._session.request(method, path, data=data, headers=headers) as response:
            answer = await _decoded(response)
            if response.status >= 300:
                raise KubeAnswerError(response.status, answer)
            return answer


async def _changes(response: aiohttp.ClientResponse) -> AsyncIterator[tuple[str, Object]]:
    async for line in response.content:
        change = msgspec.json.decode(line)
        yield change["type"], change["object"]


async def _decoded(response: aiohttp.ClientResponse) -> Object:
    data = await response.read()
    try:
        body = msgspec.json.decode(data)
    except msgspec.DecodeError:
        return {"message": data.decode(errors="replace")}
    return body if isinstance(body, dict) else {"message": str(body)}


@asynccontextmanager
async def namespace_for(kube: Kube, prefix: str) -> AsyncIterator[str]:
    """A new namespace, deleted at the end of the block."""
    name = f"{prefix}-{secrets.token_hex(4)}"
    try:
        await kube.create_namespace(name)
        yield name
    finally:
        await kube.delete("namespaces", name)


def _path(kind: str, namespace: str, name: str = "") -> str:
    within = f"/namespaces/{namespace}" if namespace else ""
    plural = kind.partition(".")[0]
    return f"{_GROUPS[kind]}{within}/{plural}" + (f"/{name}" if name else "")
