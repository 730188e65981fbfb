"""The slurmrestd model: listens on TCP and unix sockets and serves a ``SlurmModel``.

Its start and stop leave the controller's state alone, as with a real slurmrestd.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from . import answers
from .answers import Frame, Operation
from .config import Release
from .endpoints import Endpoints, decode, job_ids, job_number
from .errors import TEXTS, SlurmError
from .http import MOST_HEAD_BYTES, Answer, Asked, serve
from .model import SlurmModel
from .tokens import user_of_token
from .wire import Wire

_NOT_FOUND: Final = {
    Release.V26_05: (
        "Unable to find requested URL endpoint. Please query the '/openapi/v3' endpoint or visit "
        "'https://slurm.schedmd.com/rest_api.html' for the OpenAPI specification which includes a "
        "list of all possible slurmrestd endpoints."
    ),
    Release.V24_11: "Unable find requested URL. Please view /openapi/v3 for API reference.",
}
_UNPARSED: Final = {
    Release.V26_05: "Failure during parsing",
    Release.V24_11: "Unable to parse query.",
}
_COMMA: Final = {
    Release.V26_05: Answer.plain(500, "Unspecified error"),
    Release.V24_11: Answer.plain(400, "Unable to parse query."),
}

Call = tuple[Operation, str, Callable[[Endpoints], Answer]]


class SlurmServer:
    """slurmrestd in front of a model."""

    def __init__(self, model: SlurmModel) -> None:
        self._model = model
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.StreamWriter] = set()
        self._waits: set[asyncio.Timeout] = set()
        self._idle = asyncio.Event()
        self.requests = 0

    async def start(
        self, host: str = "127.0.0.1", port: int | None = None, *, unix: Path | None = None
    ) -> int:
        """Listen on ``host:port`` (0: any free port), on a unix socket, or on both.

        Returns the TCP port, 0 without one. Raises OSError when an address is in use.
        """
        self._model.attach()
        bound = 0
        if port is not None or unix is None:
            server = await asyncio.start_server(
                self._connected, host, port or 0, limit=MOST_HEAD_BYTES
            )
            self._servers.append(server)
            bound = server.sockets[0].getsockname()[1]
        if unix is not None:
            server = await asyncio.start_unix_server(
                self._connected, str(unix), limit=MOST_HEAD_BYTES
            )
            self._servers.append(server)
        return bound

    async def stop(self) -> None:
        """Stop listening and cut all connections; the model keeps its state and keeps running."""
        for server in self._servers:
            server.close()
        for wait in self._waits:
            wait.reschedule(asyncio.get_running_loop().time())
        for writer in self._connections:
            writer.transport.abort()
        if self._connections:
            await self._idle.wait()
        for server in self._servers:
            await server.wait_closed()
        self._servers.clear()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        self._idle.clear()
        try:
            await serve(reader, writer, self._answer, twice=self._model.config.answers_twice)
        finally:
            self._connections.discard(writer)
            if not self._connections:
                self._idle.set()

    async def _answer(self, asked: Asked) -> Answer:
        self.requests += 1
        token = _token(asked)
        if not token:
            return Answer.plain(401, "Authentication failure")
        release = self._model.config.release
        parts = asked.path.strip("/").split("/")
        if parts == ["openapi", "v3"] and asked.method == "GET":
            return Answer(200, msgspec.json.encode(self._openapi()))
        if len(parts) < 3 or parts[0] != "slurm" or parts[1] not in release.data_parsers:
            return Answer.plain(404, _NOT_FOUND[release])
        return await self._routed(asked, parts[1], tuple(parts[2:]), token)

    async def _routed(
        self, asked: Asked, version: str, path: tuple[str, ...], token: str
    ) -> Answer:
        config = self._model.config
        problem = _unreadable(asked, config.release)
        if problem is not None:
            return problem
        user = user_of_token(self._model.key, token, now=self._model.clock())
        frame = Frame(config, version, user or "")
        if path == ("ping",) and asked.method == "GET":
            return frame.good({"pings": [await self._ping(version, user)]})
        if path == ("jobs", "state") and "," in asked.query:
            return _COMMA[config.release]
        try:
            call = _call(asked, path, version)
        except SlurmError as fault:
            return frame.bad(answers.MALFORMED, [fault], data={})
        if call is None:
            return Answer.plain(404, _NOT_FOUND[config.release])
        return await self._called(call, frame, version, user=_acting(config.operators, user, asked))

    async def _called(self, call: Call, frame: Frame, version: str, *, user: str | None) -> Answer:
        operation, about, run = call
        refusal = None if await self._reached() else SlurmError(operation.outage)
        if refusal is None and user is None:
            refusal = SlurmError(1007)
        if refusal is not None and operation is not answers.SUBMIT:
            return frame.bad(operation, [refusal], about=about)
        endpoints = Endpoints(self._model, version, user=user or "", refusal=refusal)
        try:
            return run(endpoints)
        except SlurmError as fault:
            return frame.bad(operation, [fault], about=about)

    async def _reached(self) -> bool:
        """Whether slurmctld answers; like slurmrestd, retry until MessageTimeout is over."""
        if self._model.running.is_set():
            return True
        wait = asyncio.timeout(self._model.config.timing.outage_seconds)
        self._waits.add(wait)
        try:
            async with wait:
                await self._model.running.wait()
        except TimeoutError:
            return False
        finally:
            self._waits.discard(wait)
        return True

    async def _ping(self, version: str, user: str | None) -> Wire:
        """Return slurmctld's ping; v0.0.45 names the error, v0.0.41 and older only say DOWN."""
        up = await self._reached() if version > "v0.0.42" else self._model.running.is_set()
        responding = up and user is not None
        host = self._model.config.controller_host
        if version == "v0.0.45":
            status = TEXTS[0] if responding else TEXTS[1007] if up else TEXTS[1800]
            return _pinged(host, responding=responding, primary=True, status=status)
        pinged = "UP" if responding else "DOWN"
        if version < "v0.0.42":
            return _pinged(host, pinged=pinged, mode="primary")
        return _pinged(host, pinged=pinged, responding=responding, mode="primary", primary=True)

    def _openapi(self) -> Wire:
        """Return the head of the OpenAPI document: what a client needs to choose a version."""
        release = self._model.config.release
        info: Wire = {"title": "Slurm REST API", "version": f"Slurm-{release.full}"}
        if release is Release.V26_05:
            info["x-slurm"] = {
                "data_parsers": [{"plugin": v, "flags": ["NONE"]} for v in release.data_parsers],
                "release": release.full,
            }
        else:
            info["version"] += "&openapi/slurmctld"
        paths: Wire = {f"/slurm/{v}/ping/": {} for v in release.data_parsers}
        return {"openapi": "3.0.3", "info": info, "paths": paths}


def _pinged(host: str, **said: object) -> Wire:
    return {"hostname": host, "latency": 500, **said}


def _token(asked: Asked) -> str:
    bearer = asked.headers.get("authorization", "")
    return asked.headers.get("x-slurm-user-token", "") or bearer.removeprefix("Bearer ")


def _acting(operators: frozenset[str], user: str | None, asked: Asked) -> str | None:
    """Return the user whose rights the request has, None if it may not have them.

    Only an operator may act as another user, named by X-SLURM-USER-NAME.
    """
    named = asked.headers.get("x-slurm-user-name", "")
    if user is None or not named or named == user:
        return user
    return named if user in operators else None


def _unreadable(asked: Asked, release: Release) -> Answer | None:
    """Return the error answer to a body that is not JSON or is not declared as JSON, else None."""
    if not asked.body:
        return None
    is_json = "json" in asked.headers.get("content-type", "")
    if not is_json and release is Release.V26_05:
        return Answer.plain(415, "MIME type is unknown to any loaded plugins")
    try:
        readable = is_json and decode(asked.body) is not None
    except msgspec.DecodeError:
        readable = False
    return None if readable else Answer.plain(400, _UNPARSED[release])


def _call(asked: Asked, path: tuple[str, ...], version: str) -> Call | None:
    """Return the call for a method and a path, None if there is no such endpoint.

    Raises SlurmError 9000 for a malformed job id.
    """
    if asked.method == "GET":
        return _job_reading(path, asked.query) or _cluster_reading(path, asked.query, version)
    return _writing(asked, path)


def _writing(asked: Asked, path: tuple[str, ...]) -> Call | None:
    body, query = asked.body, asked.query
    match asked.method, *path:
        case "POST", "job", "submit":
            return answers.SUBMIT, "", lambda e: e.submit(decode(body))
        case "POST", "job", text:
            job_id = job_number(text)
            return answers.UPDATE, text, lambda e: e.update_job(job_id, decode(body))
        case "DELETE", "job", text:
            job_id = job_number(text)
            return answers.KILL, text, lambda e: e.kill_job(job_id, query)
        case "DELETE", "jobs":
            return answers.KILL, "", lambda e: e.kill_jobs(decode(body))
        case "POST", "node", name:
            return answers.UPDATE_NODE, name, lambda e: e.update_node(name, decode(body))
        case _:
            return None


def _job_reading(path: tuple[str, ...], query: str) -> Call | None:
    match path:
        case "job", text:
            job_id = job_number(text)
            return answers.JOB, text, lambda e: e.job(job_id, query)
        case "jobs", "state":
            ids, warnings = job_ids(query)
            return answers.STATES, "", lambda e: e.states(ids, warnings)
        case ("jobs",):
            return answers.JOBS, "", lambda e: e.jobs(query)
        case _:
            return None


def _cluster_reading(path: tuple[str, ...], query: str, version: str) -> Call | None:
    match path:
        case ("nodes",):
            return answers.NODES, "", lambda e: e.nodes(query)
        case "node", name:
            return answers.NODE, name, lambda e: e.node(name)
        case ("partitions",):
            return answers.PARTITIONS, "", lambda e: e.partitions()
        case "partition", name:
            return answers.PARTITION, name, lambda e: e.partitions(name)
        case ("reservations",):
            return answers.RESERVATIONS, "", lambda e: e.reservations()
        case "reservation", name:
            return answers.RESERVATIONS, name, lambda e: e.reservations(name)
        case ("licenses",):
            return answers.LICENSES, "", lambda e: e.licenses()
        case ("diag",):
            return answers.DIAG, "", lambda e: e.diag()
        case ("conf",) if version == "v0.0.45":
            return answers.CONF, "", lambda e: e.conf()
        case _:
            return None
