"""The one connection to the API server, and the only module that imports kubernetes_asyncio.

The library finds the cluster (kubeconfig, in-cluster files), and builds the TLS context and the
connection pool. We use that pool directly, because the library's own requests do not check the
status of raw answers and take several times longer. Every failure leaves this module as a
KubeError.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode
from urllib.request import getproxies, proxy_bypass

import aiohttp
import msgspec
import yaml
from aiohttp.http_exceptions import HttpProcessingError
from kubernetes_asyncio.client.api_client import ApiClient
from kubernetes_asyncio.client.configuration import Configuration
from kubernetes_asyncio.config import ConfigException, incluster_config
from kubernetes_asyncio.config.kube_config import KubeConfigLoader, KubeConfigMerger
from yarl import URL

from groundwork.permit import Permit
from scheduler.kube.children import killed_with_us
from scheduler.kube.credentials import Credentials, CredentialsError, Reload
from scheduler.kube.errors import (
    KubeError,
    KubeGarbled,
    KubeInterrupted,
    KubeRefused,
    KubeTooLarge,
    KubeUnreachable,
    Unauthorized,
    refused,
)
from scheduler.kube.fencing import permitted, request_class
from scheduler.kube.wire import Status, decode_status
from scheduler.observe.redacted import redacted

Query = Mapping[str, str | int]
Observe = Callable[[str, str, float], None]
"""Called after each request with its operation, its outcome and its duration in seconds. The
outcome is "ok", "cancelled", or the `outcome` of a KubeError.
"""

OnAnswer = Callable[[KubeError | None], None]

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 30.0  # a watch is answered at once, or after 3 s if its version is not there yet
WATCH_IDLE_SECONDS = 70.0  # bookmarks come about once a minute
# etcd accepts objects of up to 1.5 MiB. In JSON they may have six times as many bytes: the API
# server writes `<` as `\u003c`, and stores field names and braces as a byte or two.
LONGEST_LINE = 16 * 1024 * 1024
READ_BYTES = 2 * 1024 * 1024  # an answer that nobody reads is stopped at twice as much
LONGEST_ERROR_BODY = 64 * 1024
ERROR_BODY_SECONDS = 3.0
PLUGIN_SECONDS = 15.0  # for the first call of an exec plugin, which delays the first probe
KUBECONFIG = "KUBECONFIG"
DEFAULT_KUBECONFIG = "~/.kube/config"

_NEVER_SENT = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ClientHttpProxyError,
    aiohttp.InvalidURL,
)
_NOT_HTTP = (aiohttp.ClientResponseError, HttpProcessingError)  # the second is not a ClientError
# The library meets a value that is not what it takes it for; its text says nothing to a person.
_OF_OTHER_SHAPE = (TypeError, KeyError, AttributeError, AssertionError)
_CONFIG_ERRORS = (  # what the library raises for malformed files
    ConfigException,
    OSError,
    ValueError,
    yaml.YAMLError,
    *_OF_OTHER_SHAPE,
)


class KubeConfigError(Exception):
    """There is no usable cluster configuration; the message says where it was searched."""


class KubeSession:
    """Sends requests to one API server. Made by `open`; closed by `async with` or `close`.

    `namespace` is the one that the context of the kubeconfig names; "" if it names none.
    """

    def __init__(
        self,
        client: ApiClient,
        credentials: Credentials,
        *,
        user_agent: str,
        namespace: str = "",
        observe: Observe | None = None,
        permit: Permit | None = None,
        on_answer: OnAnswer | None = None,
    ) -> None:
        self.namespace = namespace
        self._on_answer = on_answer
        self._client = client
        self._credentials = credentials
        self._observe = observe
        self._permit = permit
        self._headers = {
            "User-Agent": user_agent,
            "Accept": "application/json",
            "Accept-Encoding": "identity",  # decompressing would cost more than it saves
        }
        self._base = str(client.configuration.host)
        self.server = str(URL(self._base).with_user(None))  # for logs: without a password
        rest = client.rest_client
        self._route: dict[str, Any] = {
            "proxy": rest.proxy or _proxy_from_environment(URL(self.server)),
            "proxy_headers": rest.proxy_headers,
            "server_hostname": rest.server_hostname,
        }
        # the library's own session looks up proxies and netrc files for each request, which takes
        # four times as long as the request itself (measured: 378 instead of 81 microseconds)
        self._pool = aiohttp.ClientSession(
            connector=rest.pool_manager.connector,
            connector_owner=False,
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=READ_BYTES,
            request_class=request_class(permit),
        )

    @classmethod
    async def open(
        cls,
        kubeconfig: Path | None,
        *,
        user_agent: str,
        context: str | None = None,
        observe: Observe | None = None,
        permit: Permit | None = None,
        on_answer: OnAnswer | None = None,
        max_connections: int = 0,
    ) -> Self:
        """Find the cluster as other controllers do: by the given file, $KUBECONFIG, the in-cluster
        files or ~/.kube/config, in this order.

        Sends nothing yet. `max_connections` limits the requests at a time; each watch holds one
        connection. The default is no limit, so that no caller waits for another's request, which a
        webhook may delay for half a minute. `permit` is asked before each write. `on_answer` is
        called after each request with its error, or with None if it succeeded. Raises
        KubeConfigError. CA files and client certificates are read only once.
        """
        configuration = type.__call__(
            Configuration
        )  # Configuration() would share its tokens with all others
        configuration.connection_pool_maxsize = max_connections
        inside = kubeconfig is None and not os.environ.get(KUBECONFIG) and in_cluster()
        files = str(kubeconfig or os.environ.get(KUBECONFIG) or DEFAULT_KUBECONFIG)
        with _config_errors("in-cluster configuration" if inside else f"kubeconfig {files}"):
            if inside:
                credentials, namespace = await _load_in_cluster(configuration), ""
            else:
                credentials, namespace = await _load_kubeconfig(configuration, files, context)
            server = URL(str(configuration.host))
            if server.scheme not in ("http", "https") or not server.host:
                raise ConfigException(f"server: '{server}': expected https://HOST:PORT")
            if server.user and await credentials.header() is not None:
                raise ConfigException("both a user in the server's URL and a token: give one")
            client = ApiClient(configuration)
            return cls(
                client,
                credentials,
                user_agent=user_agent,
                namespace=namespace,
                observe=observe,
                permit=permit,
                on_answer=on_answer,
            )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections; requests that are under way fail."""
        await self._pool.close()
        await self._client.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: object | None = None,
        content_type: str = "application/json",
        timeout: float = 10.0,  # noqa: ASYNC109 - of each try; the credentials take their own time
        operation: str | None = None,
        most_bytes: int | None = None,
    ) -> bytes:
        """Send a request and return the body of its 2xx answer. Raises KubeError otherwise.

        `body` is anything that msgspec can encode. `timeout` is in seconds and covers a whole try.
        `operation` names the request to the observer; the default is the method. A body of more
        than `most_bytes` raises KubeTooLarge before it is read to its end. A write without a permit
        raises KubeFenced, and a write is aborted when its permit ends.
        """
        data = None if body is None else msgspec.json.encode(body)
        headers = {} if data is None else {"Content-Type": content_type}
        with self._observed(operation or method.lower()), _translated():
            async with asyncio.timeout(None) as deadline:
                response = await self._answer(
                    method,
                    self._url(path, query),
                    seconds=timeout,
                    deadline=deadline,
                    headers=headers,
                    data=data,
                )
                async with response:
                    return await _body(response, most_bytes)

    async def bearer_token(self) -> str:
        """The token of these credentials; "" if they have none, such as those with a certificate
        alone.
        """
        kind, _, token = (await self._credentials.header() or "").partition(" ")
        return token.strip() if kind.lower() == "bearer" else ""

    async def server_time(self, *, timeout: float) -> datetime | None:  # noqa: ASYNC109 - as above
        """The API server's time of day, in whole seconds; None if its answer does not say. Any user
        may read the path that is requested. Raises KubeError.
        """
        with self._observed(operation="version"), _translated():
            async with asyncio.timeout(None) as deadline:
                response = await self._answer(
                    "GET",
                    self._url("/version", None),
                    seconds=timeout,
                    deadline=deadline,
                    headers={},
                    data=None,
                )
                async with response:
                    return _date(response.headers.get("Date", ""))

    async def stream(self, path: str, *, query: Query) -> AsyncGenerator[bytes]:
        """The lines of the answer as they arrive; see `batches`."""
        async with aclosing(self.batches(path, query=query)) as batches:
            async for lines in batches:
                for line in lines:
                    yield line

    async def batches(
        self,
        path: str,
        *,
        query: Query,
        idle_seconds: float = WATCH_IDLE_SECONDS,
        operation: str = "watch",
    ) -> AsyncGenerator[tuple[bytes, ...]]:
        """The lines of the answer, all that have arrived together at a time, until the server
        closes the connection.

        Raises KubeInterrupted if the connection is cut or silent for `idle_seconds`, and
        KubeGarbled for a line above 16 MiB. Close the iterator (`contextlib.aclosing`) to release
        the connection. The observer sees the time until the answer began.
        """
        with self._observed(operation), _translated():
            async with asyncio.timeout(ANSWER_SECONDS):
                response = await self._answer(
                    "GET", self._url(path, query), seconds=ANSWER_SECONDS, headers={}, data=None
                )
        async with response, aclosing(_whole_lines(response, idle_seconds)) as batches:
            async for lines in batches:
                yield lines

    async def _answer(
        self, method: str, url: URL, *, deadline: asyncio.Timeout | None = None, **request: Any
    ) -> aiohttp.ClientResponse:
        """Send a request and return its 2xx answer. After a 401 try once with renewed credentials.
        `deadline` is set for each try, and holds until the caller has read the answer.

        The caller must release the answer with `async with`, without an await before it.
        """
        authorization = await self._credentials.header()
        try:
            return await self._exchange(method, url, authorization, deadline, **request)
        except Unauthorized:
            if deadline is not None:
                deadline.reschedule(None)
            if not await self._credentials.renew(authorization):
                raise
        renewed = await self._credentials.header()
        return await self._exchange(method, url, renewed, deadline, **request)

    async def _exchange(
        self,
        method: str,
        url: URL,
        authorization: str | None,
        deadline: asyncio.Timeout | None,
        *,
        seconds: float,
        headers: dict[str, str],
        data: bytes | None,
    ) -> aiohttp.ClientResponse:
        """Send a request once. Every write of this process goes through this method. Raises
        KubeFenced for a write that must not be sent.

        The deadline is asyncio's own. If aiohttp's total timeout and a cancellation come in the
        same turn of the loop, as after a pause of the process, aiohttp 3.14.5 swallows the
        cancellation (measured).
        """
        seconds = min(seconds, permitted(self._permit, method))
        if deadline is not None:
            deadline.reschedule(asyncio.get_running_loop().time() + seconds)
        headers = {**self._headers, **headers}
        if authorization is not None:
            headers["Authorization"] = authorization
        response = await self._pool.request(
            method,
            url,
            headers=headers,
            data=data,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=min(CONNECT_SECONDS, seconds)),
            allow_redirects=False,
            **self._route,
        )
        if 200 <= response.status < 300:
            return response
        async with response:
            raise _refusal(response, await _beginning(response))

    def _url(self, path: str, query: Query | None) -> URL:
        ending = "?" + urlencode(query) if query else ""
        return URL(self._base + path + ending, encoded=True)

    @contextmanager
    def _observed(self, operation: str) -> Iterator[None]:
        started = perf_counter()
        outcome = "ok"
        try:
            yield
            self._answered(None)
        except KubeError as error:
            outcome = error.outcome
            self._answered(error)
            raise
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        finally:
            if self._observe is not None:
                self._observe(operation, outcome, perf_counter() - started)

    def _answered(self, error: KubeError | None) -> None:
        if self._on_answer is not None:
            self._on_answer(error)


async def _body(response: aiohttp.ClientResponse, most_bytes: int | None) -> bytes:
    """The body. If it is too long, the connection is closed as soon as this is known."""
    if most_bytes is None:
        return await response.read()
    pieces, size = list[bytes](), response.content_length or 0
    if size <= most_bytes:
        size = 0
        while piece := await response.content.readany():
            pieces.append(piece)
            size += len(piece)
            if size > most_bytes:
                break
    if size > most_bytes:
        raise KubeTooLarge(f"an answer of more than {most_bytes} bytes")
    return b"".join(pieces)


async def _beginning(response: aiohttp.ClientResponse) -> bytes:
    """The body, which may arrive in several pieces; at most LONGEST_ERROR_BODY bytes of it. If it
    does not end, what has arrived: the status alone already says that the server has refused.
    """
    pieces, left = list[bytes](), LONGEST_ERROR_BODY
    with suppress(aiohttp.ClientError, TimeoutError):
        async with asyncio.timeout(ERROR_BODY_SECONDS):
            while left and (piece := await response.content.read(left)):
                pieces.append(piece)
                left -= len(piece)
    return b"".join(pieces)


async def _whole_lines(
    response: aiohttp.ClientResponse, idle_seconds: float
) -> AsyncGenerator[tuple[bytes, ...]]:
    """The lines of the answer, without their ends, all that have arrived together at a time."""
    clock = asyncio.get_running_loop().time
    begun, size, silent_at = [b""], 0, clock() + idle_seconds  # of a line that has not ended
    while piece := await _next_piece(response, silent_at):
        *ended, rest = piece.split(b"\n")
        if ended:
            yield (b"".join((*begun, ended[0])), *ended[1:])
            begun, size, silent_at = [], 0, clock() + idle_seconds
        begun.append(rest)
        size += len(rest)
        if size > LONGEST_LINE:
            raise KubeGarbled(f"a line of more than {LONGEST_LINE} bytes")
    if size:
        yield (b"".join(begun),)


async def _next_piece(response: aiohttp.ClientResponse, silent_at: float) -> bytes:
    """All that has arrived; b"" at the end of the answer."""
    with _translated():
        async with asyncio.timeout_at(silent_at):
            return await response.content.readany()


@contextmanager
def _translated() -> Iterator[None]:
    """Translate errors of aiohttp and the system into KubeErrors; `__cause__` has the original."""
    try:
        yield
    except _NEVER_SENT as error:
        raise KubeUnreachable(_safe_error_text(error)) from error
    except _NOT_HTTP as error:
        raise KubeGarbled(_safe_error_text(error)) from error
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        # The last for what no request can have: a token of two lines, a host with empty labels.
        raise KubeInterrupted(_safe_error_text(error)) from error


def _safe_error_text(error: BaseException) -> str:
    """The error's text without secrets, fit for a log. YAML's messages quote the file, and URLs may
    have a password.
    """
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark
        return "not YAML" if mark is None else f"not YAML, line {mark.line + 1}"
    if isinstance(error, UnicodeDecodeError):
        return "expected text in UTF-8"
    if isinstance(error, _OF_OTHER_SHAPE):
        return "expected clusters, users, contexts and current-context, as kubectl writes them"
    return redacted(str(error)) or type(error).__name__


def _refusal(response: aiohttp.ClientResponse, body: bytes) -> KubeRefused:
    """The error for an answer that is not 2xx. A body that is no Status is left out of its text."""
    try:
        status = decode_status(body)
    except KubeGarbled:
        status = Status()
    if status.kind != "Status":
        status = Status(reason=response.reason or "")
        if response.status == HTTPStatus.NOT_FOUND:
            return _not_about_an_object(response)
    return refused(
        response.status,
        reason=status.reason,
        message=status.message,
        retry_after=_retry_after(response, status),
        causes=status.causes,
    )


def _not_about_an_object(response: aiohttp.ClientResponse) -> KubeRefused:
    """The error for a 404 that is not from the API server, but from a gateway without this path,
    for example. Only the API server's own answer says that an object does not exist.
    """
    message = f"{response.reason}, and the answer is not one of the Kubernetes API"
    return KubeRefused(response.status, message=message)


def _retry_after(response: aiohttp.ClientResponse, status: Status) -> float | None:
    said = response.headers.get("Retry-After", "")
    return float(said) if said.isdecimal() else status.retry_after_seconds


def _date(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _proxy_from_environment(server: URL) -> str | None:
    """The proxy that Go's clients such as kubectl would choose; None for a loopback address."""
    if _is_loopback(server.host or "") or proxy_bypass(f"{server.host}:{server.port}"):
        return None
    return getproxies().get(server.scheme)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def in_cluster() -> bool:
    """Whether this process runs in a pod with a service account."""
    return bool(
        os.environ.get(incluster_config.SERVICE_HOST_ENV_NAME)
        and os.environ.get(incluster_config.SERVICE_PORT_ENV_NAME)
    )


async def _load_in_cluster(configuration: Configuration) -> Credentials:
    token = Path(incluster_config.SERVICE_TOKEN_FILENAME)
    incluster_config.InClusterConfigLoader(
        token_filename=str(token),
        cert_filename=incluster_config.SERVICE_CERT_FILENAME,
        try_refresh_token=False,  # the library would read the file on the event loop
    ).load_and_set(configuration)

    async def reload(_force: bool) -> str | None:
        return f"Bearer {(await asyncio.to_thread(token.read_text)).strip()}"

    return Credentials(await reload(False), reload, periodic=True)


async def _load_kubeconfig(
    configuration: Configuration, files: str, context: str | None
) -> tuple[Credentials, str]:
    """The credentials, and the namespace of the context."""
    _check_files(files)
    loader = KubeConfigLoader(
        config_dict=KubeConfigMerger(files).config, config_base_path=None, active_context=context
    )
    try:
        async with asyncio.timeout(PLUGIN_SECONDS):
            with killed_with_us():
                await loader.load_and_set(configuration)
    except TimeoutError:
        raise ConfigException(
            f"its credentials took over {PLUGIN_SECONDS:g} s{_plugin(loader)}"
        ) from None
    reload = _reloader(loader, configuration)
    credentials = Credentials(_authorization(configuration), reload, periodic=_changes(loader))
    chosen = vars(loader)["_current_context"]["context"]
    return credentials, str(chosen.safe_get("namespace") or "")


def _check_files(files: str) -> None:
    """Raises ConfigException if none of the paths is a file."""
    paths = [Path(it).expanduser() for it in files.split(os.pathsep) if it]
    if not any(it.is_file() for it in paths):
        if any(it.exists() for it in paths):
            raise ConfigException("expected a file; it is a folder, a pipe or a device")
        raise ConfigException("no such file, and not running in a cluster")


def _plugin(loader: KubeConfigLoader) -> str:
    """Words about the exec plugin for an error message; "" if there is none. They name its command
    without the arguments, which may be secret.
    """
    user = loader._user
    if user is None or "exec" not in user:
        return ""
    return f": the exec plugin {str(user['exec']['command'])!r} does not end; run it by hand"


def _reloader(loader: KubeConfigLoader, configuration: Configuration) -> Reload:
    async def reload(force: bool) -> str | None:
        if force:  # until this time the library would keep the plugin's old token
            vars(loader).pop("exec_plugin_expiry", None)
        try:
            with killed_with_us():
                await loader.load_and_set(configuration)
        except _CONFIG_ERRORS as error:
            raise CredentialsError(_safe_error_text(error)) from error
        return _authorization(configuration)

    return reload


def _changes(loader: KubeConfigLoader) -> bool:
    """Whether the source of the token, such as a token file or a plugin, may replace it before the
    server refuses it.
    """
    if hasattr(loader, "exec_plugin_expiry") or loader.provider is not None:
        return True
    user = loader._user
    return user is not None and "tokenFile" in user and "token" not in user


def _authorization(configuration: Configuration) -> str | None:
    value = configuration.api_key.get("BearerToken")
    return None if value is None else str(value).strip()


@contextmanager
def _config_errors(source: str) -> Iterator[None]:
    try:
        yield
    except _CONFIG_ERRORS as error:
        raise KubeConfigError(f"{source}: {_safe_error_text(error)}") from error
