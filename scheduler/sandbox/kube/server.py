"""The API server: the model behind HTTP on a loopback port."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable, Mapping
from contextlib import aclosing, suppress
from secrets import compare_digest

from aiohttp import StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import RawRequestMessage

from scheduler.sandbox.kube import reviews
from scheduler.sandbox.kube.answers import JSON, Answer, refusal
from scheduler.sandbox.kube.calls import Call, call_of
from scheduler.sandbox.kube.errors import ApiError, unauthorized
from scheduler.sandbox.kube.model import KubeModel
from scheduler.sandbox.kube.routes import Api
from scheduler.sandbox.kube.watching import BOOKMARK_SECONDS, Watch

LONGEST_BODY = 3 * 1024 * 1024
DRAIN_SECONDS = 1.0
Auditor = Callable[[Call, int], None]
PUBLIC = frozenset({"/healthz", "/livez", "/readyz", "/version"})


class KubeServer:
    """Serves a model. It may be stopped and started again, because the model keeps the state.

    `token` is the bearer token of the cluster's only user. It is also accepted as the password of
    basic authentication: over plain HTTP kubectl sends no token, but sends the password in the URL.
    """

    def __init__(
        self, model: KubeModel, *, token: str, bookmark_seconds: float = BOOKMARK_SECONDS
    ) -> None:
        self.model = model
        self._token = token.encode()
        self._bookmark_seconds = bookmark_seconds
        self._api = Api(model, users={token: reviews.ADMIN})
        self._auditors: list[Auditor] = []
        self._runner: web.ServerRunner | None = None
        self._server: web.Server | None = None
        self.serving = asyncio.Event()
        """Set while the server answers; kubelets and controllers wait for it."""
        self.port = 0

    def audit(self, auditor: Auditor) -> Callable[[], None]:
        """Like an audit log, call `auditor` for each request that was done or refused, with the
        status of the answer. A watch that begins is left out. Returns a function that ends this.
        """
        self._auditors.append(auditor)
        return lambda: self._auditors.remove(auditor)

    @property
    def url(self) -> str:
        """The URL of the server. The port stays the same over restarts."""
        return f"http://127.0.0.1:{self.port}"

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Begin to answer. Port 0 means a free port, and after a restart the same port again.
        Raises OSError.
        """
        self._server = web.Server(
            self._handle, request_factory=_request, handler_cancellation=True, access_log=None
        )
        self._runner = web.ServerRunner(self._server, shutdown_timeout=DRAIN_SECONDS)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port or self.port, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]
        self.serving.set()

    async def stop(self, *, kill: bool = False) -> None:
        """Stop the server. Watches end in order and requests are finished; with `kill`, all
        connections are cut.
        """
        self.serving.clear()
        runner, self._runner = self._runner, None
        if runner is None or self._server is None:
            return
        if kill:
            for protocol in self._server.connections:
                if protocol.transport is not None:
                    protocol.transport.abort()
        self.model.store.close_watches()
        await runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            self._authenticate(request.path, request.headers)
            answer = self._answer(call_of(request, await request.read()))
        except ApiError as error:
            answer = refusal(error)
        if isinstance(answer, Watch):
            return await _stream(request, answer)
        return _response(answer)

    def _answer(self, call: Call) -> Answer | Watch:
        try:
            answer = self._api.answer(call, bookmark_seconds=self._bookmark_seconds)
        except ApiError as error:
            answer = refusal(error)
        if isinstance(answer, Answer):
            for auditor in self._auditors:
                auditor(call, answer.status)
        return answer

    def _authenticate(self, path: str, headers: Mapping[str, str]) -> None:
        if path in PUBLIC:
            return
        scheme, _, value = headers.get("Authorization", "").partition(" ")
        given = value.encode() if scheme == "Bearer" else _password(scheme, value)
        if not compare_digest(given, self._token):
            raise unauthorized()


def _request(
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: web.RequestHandler,
    writer: AbstractStreamWriter,
    task: asyncio.Task[None],
) -> web.BaseRequest:
    """Make a request as aiohttp does, but with the size limit of a real API server."""
    loop = asyncio.get_running_loop()
    return web.BaseRequest(
        message, payload, protocol, writer, task, loop, client_max_size=LONGEST_BODY
    )


def _password(scheme: str, value: str) -> bytes:
    if scheme != "Basic":
        return b""
    try:
        return base64.b64decode(value).partition(b":")[2]
    except binascii.Error:
        return b""


def _response(answer: Answer) -> web.Response:
    return web.Response(
        body=answer.body, status=answer.status, headers={"Content-Type": answer.content_type}
    )


async def _stream(request: web.BaseRequest, watch: Watch) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": JSON})
    response.enable_chunked_encoding()
    with suppress(ConnectionResetError):  # the watcher has left
        await response.prepare(request)
        async with aclosing(watch.chunks()) as chunks:
            async for chunk in chunks:
                await response.write(chunk)
        await response.write_eof()
    return response
