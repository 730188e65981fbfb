"""Carries out requests: API version, token, repetition and observation. It does not know what they
are about.

Which calls are repeated: `Session.run`. After which errors: `retryable` in `errors.py`. How
often and with which pauses: `groundwork/retry.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Final, Generic, TypeVar

from groundwork.retry import RetryPolicy
from slurmapi import wire
from slurmapi.cluster_check import ClusterCheck
from slurmapi.errors import (
    SlurmDenied,
    SlurmError,
    SlurmGarbled,
    SlurmInterrupted,
    SlurmNoApi,
    SlurmUnreachable,
    leaves_open,
)
from slurmapi.http1 import DEFAULT_MAX_BODY, Request, Response
from slurmapi.model import Call
from slurmapi.tokens import TokenSource
from slurmapi.transport import HttpTransport
from slurmapi.versions import KNOWN_VERSIONS, ApiVersion

T = TypeVar("T")

_HEADERS: Final = {
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "User-Agent": "slurmapi",
}
# A write is sent only if the last answer is no older than this.
_MET_SECONDS: Final = 1.0
# How long an old version is used before the client asks for a newer one.
_NEGOTIATED_SECONDS: Final = 300.0
# If a server says that it serves no known version, it is asked again after this pause, which
# doubles each time. One negotiation takes up to six requests, and otherwise each call would start
# one.
_FIRST_PAUSE_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 8.0
# Only small bodies are searched for the token, because error texts are small. To search a list of a
# thousand nodes would be a waste.
_SCRUBBED_BYTES: Final = 64 * 1024
# A larger body is checked and read in two turns of the event loop. With 10 000 nodes it has 17 MB,
# and each of the two takes 13 ms (measured).
_LARGE_BYTES: Final = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Generic[T]):
    """One call: its path below `/slurm/VERSION/`, and how to read its answer.

    `read` raises SlurmError for a refusal. `repeatable` says that it does no harm if the call is
    carried out twice. `slow` says that the answer costs the server much: the call gets more time
    and is not repeated at once, because the server may still be at work on it. `bulk` says that
    there may be many such calls at once, and that other calls take precedence. No byte of a write
    is sent after `send_by`, in the event loop's time.
    """

    name: str
    method: str
    path: str
    read: Callable[[Response], T]
    body: Callable[[ApiVersion], bytes] | None = field(default=None, repr=False)
    repeatable: bool = False
    anywhere: bool = False
    """Whether the request may go to any Slurm, not only to the right one."""
    slow: bool = False
    bulk: bool = False
    max_body: int = DEFAULT_MAX_BODY
    send_by: float | None = None


class _VersionGone(SlurmNoApi):
    """404 in plain text: slurmrestd does not know the path, so nothing has seen the request."""


class Session:
    """Carries out operations in the newest version that server and client share."""

    def __init__(
        self,
        transport: HttpTransport,
        *,
        token: TokenSource,
        retry: RetryPolicy,
        cluster_check: ClusterCheck,
        observe: Callable[[Call], None] | None = None,
    ) -> None:
        self._cluster_check = cluster_check
        self._transport = transport
        self._token = token
        self._retry = retry
        self._observe = observe
        self._negotiating = asyncio.Lock()
        self._negotiations = 0
        self._negotiated_at = 0.0
        self._version: ApiVersion | None = None
        self._failure: SlurmError | None = None
        self._pause = _FIRST_PAUSE_SECONDS
        self._ask_at = 0.0

    async def run(self, operation: Operation[T]) -> T:
        """Run the operation and return its answer. It is repeated by the retry policy if that does
        no harm.
        """

        async def attempt() -> T:
            return await self._in_some_version(operation)

        again = operation.repeatable and not operation.slow
        return await (self._retry(attempt) if again else attempt())

    async def version(self, *, again: bool = False) -> ApiVersion:
        """The version in use. Asks the server when there is none, if `again` is set, and now and
        then if it is not the newest that we know.

        Callers that come during a request share its result. Never raises SlurmInterrupted, because
        the request that needs the version has not been sent.
        """
        if self._version is not None and not again and not self._is_outdated(self._version):
            return self._version
        seen = self._negotiations
        async with self._negotiating:
            if self._negotiations == seen and monotonic() >= self._ask_at:
                await self._negotiate()
            if self._version is None:
                raise self._failure or SlurmUnreachable("no version is agreed on")
            return self._version

    def _is_outdated(self, version: ApiVersion) -> bool:
        """Whether it is time to ask again. An upgraded slurmrestd still serves the old version, so
        nothing else shows that it has a newer one.
        """
        age = monotonic() - self._negotiated_at
        return version != KNOWN_VERSIONS[0] and age > _NEGOTIATED_SECONDS

    async def _negotiate(self) -> None:
        self._negotiated_at = monotonic()
        try:
            self._version, self._failure = await self._probe(), None
            self._pause, self._ask_at = _FIRST_PAUSE_SECONDS, 0.0
        except SlurmError as error:
            self._version, self._failure = None, error
            if isinstance(error, SlurmNoApi):
                self._ask_at = monotonic() + self._pause
                self._pause = min(2.0 * self._pause, _LONGEST_PAUSE_SECONDS)
        self._negotiations += 1

    async def _probe(self) -> ApiVersion:
        """Ping in each version, newest first. An unknown version is refused at once, and the
        alternative, the whole OpenAPI document, has 900 kB.
        """
        found = await self._newest(KNOWN_VERSIONS)
        if found is None:
            span = f"{KNOWN_VERSIONS[0]} to {KNOWN_VERSIONS[-1]}"
            raise SlurmNoApi(f"the server has none of the versions {span} (HTTP 404)")
        # Such a refusal does not show who sent it: perhaps a gateway, or another Slurm at the same
        # address just before the right one came back (seen).
        newer = KNOWN_VERSIONS[: KNOWN_VERSIONS.index(found)]
        return await self._newest(newer) or found

    async def _newest(self, versions: Sequence[ApiVersion]) -> ApiVersion | None:
        """The first version that is served; None if none is."""
        for version in versions:
            try:
                await self._with_token(_PROBE, version)
            except _VersionGone:
                continue
            except (SlurmInterrupted, SlurmGarbled) as error:
                raise SlurmUnreachable(f"no version is agreed on: {error}") from error
            return version
        return None

    async def _in_some_version(self, operation: Operation[T]) -> T:
        version = await self.version()
        if operation.method != "GET" and not operation.anywhere:
            await self._meet(version)
        try:
            return await self._with_token(operation, version)
        except _VersionGone:
            newer = await self.version(again=True)
            if newer == version:
                raise
            return await self._with_token(operation, newer)

    async def _meet(self, version: ApiVersion) -> None:
        """Before a write, check with a fresh answer that the right Slurm is there: on another one,
        the job id belongs to another job.
        """
        if self._cluster_check.seen_within(_MET_SECONDS):
            return
        try:
            await self._with_token(_PROBE, version)
        except (SlurmInterrupted, SlurmGarbled) as error:
            raise SlurmUnreachable(f"nothing is written: {error}") from error

    async def _with_token(self, operation: Operation[T], version: ApiVersion) -> T:
        """Try once, and a second time if the token was refused and a new one is available by now. A
        refused request has changed nothing.
        """
        token = await self._token.token()
        try:
            return await self._observed(operation, version, token)
        except SlurmDenied as denied:
            if not denied.authentication:
                raise
            self._token.invalidate()
            renewed = await self._token.token()
            if renewed == token:
                raise
        return await self._observed(operation, version, renewed)

    async def _observed(self, operation: Operation[T], version: ApiVersion, token: str) -> T:
        request = _request(operation, version, token)
        started_at = monotonic()
        outcome = "cancelled"
        try:
            answer = await self._answered(operation, request, token)
            outcome = "ok"
        except SlurmError as error:
            outcome = error.outcome
            raise
        finally:
            if self._observe is not None:
                self._observe(Call(operation.name, outcome, monotonic() - started_at))
        return answer

    async def _answered(self, operation: Operation[T], request: Request, token: str) -> T:
        try:
            response = _scrubbed(await self._transport.exchange(request), token)
            if response.status == 404 and not wire.is_json(response):
                raise _VersionGone(f"no such path: {request.target[:100]} (HTTP 404)")
            if not operation.anywhere:
                self._cluster_check.check(response)
            if len(response.body) > _LARGE_BYTES:
                await asyncio.sleep(0)
            return operation.read(response)
        except SlurmError as error:
            if operation.repeatable or not leaves_open(error):
                raise
            raise SlurmInterrupted(
                f"{operation.name}: {error}", retry_after=error.retry_after
            ) from error


def _request(operation: Operation[T], version: ApiVersion, token: str) -> Request:
    body = operation.body(version) if operation.body is not None else None
    headers = _HEADERS | {"X-SLURM-USER-TOKEN": token}
    if body is not None:
        headers["Content-Type"] = "application/json"
    return Request(
        method=operation.method,
        target=f"/slurm/{version}/{operation.path}",
        headers=headers,
        body=body,
        repeatable=operation.repeatable,
        slow=operation.slow,
        bulk=operation.bulk,
        max_body=operation.max_body,
        send_by=operation.send_by,
    )


def _scrubbed(response: Response, token: str) -> Response:
    """The response without the token in its text: the peer may repeat our headers, and its text
    becomes part of error messages.
    """
    secret = token.encode("ascii")
    if len(response.body) > _SCRUBBED_BYTES or secret not in response.body:
        return response
    return replace(response, body=response.body.replace(secret, b"***"))


def _any_json(response: Response) -> None:
    wire.decode(response, wire.Answer)


_PROBE: Final = Operation(
    name="negotiate", method="GET", path="ping/", read=_any_json, repeatable=True
)
