"""A scripted API server on a real socket: each request takes the next answer of its route."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from scheduler.kube.api import KubeApi

# It ends only what hangs, also where time is virtual and ten minutes must pass.
_SECONDS: Final = 1000.0
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Failures = Callable[[], list[str]]


@dataclass
class Seen:
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any
    at: float


# Where nothing else is said, the server has not gone back.
_LATER = str(2**62)


@dataclass
class ApiStub:
    """Answers by (method, path), a watch by "WATCH". The last answer of a route stays."""

    url: str = ""
    seen: list[Seen] = field(default_factory=list)
    answers: dict[tuple[str, str], deque[Handler]] = field(
        default_factory=lambda: defaultdict(deque)
    )
    arrived: asyncio.Condition = field(default_factory=asyncio.Condition)

    def answer(self, method: str, path: str, *handlers: Handler) -> None:
        self.answers[method, path].extend(handlers)

    def requests(self, method: str, path: str | None = None) -> list[Seen]:
        return [s for s in self.seen if s.method == method and path in (None, s.path)]

    async def wait_for_requests(self, count: int, method: str) -> None:
        async with asyncio.timeout(_SECONDS), self.arrived:
            await self.arrived.wait_for(lambda: len(self.requests(method)) >= count)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        method = _kind(request)
        body = await request.read()
        seen = Seen(
            method,
            request.path,
            dict(request.query),
            dict(request.headers),
            json.loads(body) if body else None,
            asyncio.get_running_loop().time(),
        )
        async with self.arrived:
            self.seen.append(seen)
            self.arrived.notify_all()
        if method == "COMPARE" and not self.answers[method, request.path]:
            return await page(version=_LATER)(request)
        handlers = self.answers[method, request.path]
        await until(lambda: bool(handlers))  # a test may say it a little later
        return await (handlers.popleft() if len(handlers) > 1 else handlers[0])(request)


class Writing(KubeApi):
    """Counts the Events that it has written."""

    written = 0

    async def create_event(self, namespace: str, event: Mapping[str, Any]) -> None:
        await super().create_event(namespace, event)
        self.written += 1

    async def patch_event(self, namespace: str, name: str, patch: Mapping[str, Any]) -> None:
        await super().patch_event(namespace, name, patch)
        self.written += 1


def _kind(request: web.Request) -> str:
    """WATCH, COMPARE for a look at no more than the version, else the method."""
    if request.query.get("watch") == "true":
        return "WATCH"
    return "COMPARE" if request.query.get("limit") == "1" else request.method


async def until(condition: Callable[[], bool]) -> None:
    """Wait for state that nobody signals."""
    async with asyncio.timeout(_SECONDS):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def ok(body: Any, code: int = 200) -> Handler:
    async def handle(_request: web.Request) -> web.StreamResponse:
        return web.json_response(body, status=code)

    return handle


def late(answer: Handler, seconds: float) -> Handler:
    """That answer, after so many seconds."""

    async def handle(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return await answer(request)

    return handle


def raw(body: bytes, code: int = 200) -> Handler:
    async def handle(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=body, status=code)

    return handle


def status(
    code: int,
    *,
    reason: str = "",
    message: str = "",
    retry_after: str | None = None,
    details: Mapping[str, object] | None = None,
) -> Handler:
    async def handle(_request: web.Request) -> web.StreamResponse:
        body: dict[str, object] = {"kind": "Status", "code": code}
        body |= {"reason": reason, "message": message, "details": details}
        headers = {} if retry_after is None else {"Retry-After": retry_after}
        return web.json_response(body, status=code, headers=headers)

    return handle


def cut() -> Handler:
    """Take the request, and drop the connection without an answer."""

    async def handle(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    return handle


def hang() -> Handler:
    """Take the request, and never answer."""

    async def handle(_request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    return handle


def pieces(
    *lines: bytes, then: str = "hold", code: int = 200, seconds_apart: float = 0.0
) -> Handler:
    """A watch answer, or a body in pieces: lines as they are, then "close", "cut" or "hold"."""

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=code)
        await response.prepare(request)
        for line in lines:
            await response.write(line)
            if seconds_apart:
                await asyncio.sleep(seconds_apart)  # else they may arrive as one
        if then == "cut":
            assert request.transport is not None
            request.transport.abort()
        elif then == "hold":
            await asyncio.Event().wait()
        return response

    return handle


def watch(*events: Mapping[str, Any], then: str = "hold") -> Handler:
    return pieces(*(json.dumps(event).encode() + b"\n" for event in events), then=then)


def pod(name: str, *, uid: str = "", version: str = "1", **rest: Any) -> dict[str, Any]:
    meta = {
        "name": name,
        "namespace": "ns",
        "uid": uid or f"uid-{name}",
        "resourceVersion": version,
    }
    return {"kind": "Pod", "metadata": meta | rest.pop("metadata", {}), **rest}


def page(*items: Mapping[str, Any], version: str = "10", token: str | None = None) -> Handler:
    meta = {"resourceVersion": version} | ({} if token is None else {"continue": token})
    return ok({"kind": "PodList", "metadata": meta, "items": list(items)})


def event(kind: str, obj: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": obj}


def bookmark(version: str) -> dict[str, Any]:
    meta = {"resourceVersion": version, "creationTimestamp": None}
    return event("BOOKMARK", {"kind": "Pod", "metadata": meta, "spec": {"containers": None}})


def write_kubeconfig(path: Path, server: str, user: Mapping[str, Any]) -> Path:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "contexts": [{"name": "test", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(json.dumps(config))
    return path


def set_namespace(kubeconfig: Path, namespace: str) -> None:
    """Set the namespace of its context."""
    content = json.loads(kubeconfig.read_text())
    content["contexts"][0]["context"]["namespace"] = namespace
    kubeconfig.write_text(json.dumps(content))
