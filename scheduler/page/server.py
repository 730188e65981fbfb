"""The routes of the live page, how many streams and stories there may be at once, and the headers
that keep the page apart from everything else.

The page itself is the same for all and holds no data; the routes below /api give data, to those
whom `access.py` lets see it.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from aiohttp import hdrs, web

from scheduler.kube.errors import KubeError, NotFound
from scheduler.kube.session import KubeSession
from scheduler.listen.sending import disconnect, end, send, waits_for_all
from scheduler.page.access import TOO_MANY, Access, CrowdError, NobodyError, User, Viewer
from scheduler.page.board import NODES_SECONDS, Board
from scheduler.page.partitions import NotKnownError, PartitionBoard
from scheduler.page.queue_places import QueuePlaces
from scheduler.page.story import ReadsAsUser, StoryTeller, read_story
from scheduler.page.stream import Streams
from scheduler.view.connection import ViewError
from scheduler.view.row import Names

MOST_STREAMS: Final = 100
MOST_STREAMS_OF_A_USER: Final = 20
STREAM_PLACE_SECONDS: Final = 1.0
"""A stream that ends sooner keeps its place until then, because its beginning costs most."""
MOST_STORIES: Final = 4
MOST_STORIES_WAITING: Final = 32
MOST_STORIES_OF_A_USER: Final = 4
STORY_SECONDS: Final = 20.0
MOST_ASKING: Final = 32
MOST_ASKING_OF_A_USER: Final = 4
"""How many may wait at a time for an answer about partitions or places, or have not taken theirs
yet; the answers are made one by one.
"""
ANSWER_SECONDS: Final = 20.0
_AGAIN_SECONDS: Final = "5"
_FOLDER: Final = Path(__file__).parent / "static"
_TYPES: Final = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
_LOOPBACK: Final = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?", re.ASCII | re.I)
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_POD: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class _Answer(Protocol):
    """The answer about a namespace, behind an item."""

    async def __call__(self, namespace: str, *, after: str) -> bytes: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What the routes need. `is_open` says that no token is asked for. `stays` gets the connection
    of a caller whose token is accepted and who has a place, before rights are asked about: until
    then the listener may cut it for others.
    """

    access: Access
    board: Board
    partitions: PartitionBoard
    places: QueuePlaces
    streams: Streams
    kube: KubeSession
    names: Names
    scheduler_name: str
    is_open: bool
    stays: Callable[[object], None]


class AskingPlaces:
    """A number of places, of which one user may have a part. A place is kept for some seconds at
    least, so that their number also bounds how many are taken in a second. `full` is the message
    for those who get none.
    """

    def __init__(
        self,
        most: int,
        most_of_a_user: int,
        *,
        kept_seconds: float = 0.0,
        full: str = TOO_MANY,
    ) -> None:
        self._most = most
        self._most_of_a_user = most_of_a_user
        self._kept_seconds = kept_seconds
        self._full = full
        self._taken: Counter[str] = Counter()

    @property
    def taken(self) -> int:
        """How many places are taken."""
        return self._taken.total()

    @contextmanager
    def place(self, user: User) -> Iterator[None]:
        """Have a place within the block. Raises CrowdError if there is none."""
        key = user.counted_as
        if self.taken >= self._most or self._taken[key] >= self._most_of_a_user:
            raise CrowdError(self._full)
        self._taken[key] += 1
        loop = asyncio.get_running_loop()
        kept_until = loop.time() + self._kept_seconds
        try:
            yield
        finally:
            if loop.time() < kept_until:
                loop.call_at(kept_until, self._leave, key)
            else:
                self._leave(key)

    def _leave(self, key: str) -> None:
        self._taken[key] -= 1
        self._taken += Counter()  # forgets those who have none


class PageServer:
    """The routes. Reads the files of the page when it is made."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._open = AskingPlaces(
            MOST_STREAMS,
            MOST_STREAMS_OF_A_USER,
            kept_seconds=STREAM_PLACE_SECONDS,
            full="too many pages are open",
        )
        self._stories = asyncio.Semaphore(MOST_STORIES)
        self._teller = StoryTeller()
        self._telling = AskingPlaces(MOST_STORIES_WAITING, MOST_STORIES_OF_A_USER)
        self._asking = AskingPlaces(MOST_ASKING, MOST_ASKING_OF_A_USER)
        self._files = {it.name: it.read_bytes() for it in _FOLDER.iterdir() if it.suffix in _TYPES}

    @property
    def streams(self) -> int:
        """How many streams are open."""
        return self._open.taken

    def app(self) -> web.Application:
        """The application to serve."""
        app = web.Application(client_max_size=1, middlewares=[self._guarded])
        app.on_response_prepare.append(_add_headers)
        app.router.add_get("/", self._index)
        app.router.add_get("/static/{name}", self._file)
        app.router.add_get("/api/stream", self._stream)
        app.router.add_get("/api/story", self._story)
        app.router.add_get("/api/partitions", self._partitions)
        app.router.add_get("/api/places", self._places)
        return app

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            self._check_origin(request)
            response = await handler(request)
        except NobodyError:
            response = _said(401, "Kubernetes does not accept this token")
        except CrowdError as error:
            response = _said(503, str(error))
        except NotKnownError as error:
            response = _said(503, f"Slurm's partitions and nodes are not known yet: {error}")
        except NotFound as error:
            response = _said(404, error.message)
        except KubeError as error:
            response = _said(503, f"the API server cannot be asked: {error}")
        except ViewError as error:
            response = _said(404, str(error))
        except TimeoutError:
            response = _said(504, "there was no answer in time")
        except web.HTTPException as error:
            response = _said(error.status, error.text or error.reason)
        response.force_close()
        return response

    def _check_origin(self, request: web.Request) -> None:
        """Pages of other sites get nothing. Without a token, a foreign name in Host would let one
        of them read it all (DNS rebinding).
        """
        site = request.headers.get("Sec-Fetch-Site", "none")
        if site not in {"same-origin", "none"} and request.path != "/":
            raise web.HTTPForbidden(text="pages of other sites get nothing")
        host = request.headers.get(hdrs.HOST, "")
        if self._page.is_open and not _LOOPBACK.fullmatch(host):
            raise web.HTTPForbidden(
                text="Host: expected 127.0.0.1 or localhost, because no token is asked for"
            )

    async def _index(self, _request: web.Request) -> web.Response:
        return self._answer("index.html")

    async def _file(self, request: web.Request) -> web.Response:
        return self._answer(request.match_info["name"])

    def _answer(self, name: str) -> web.Response:
        body = self._files.get(name)
        if body is None:
            raise web.HTTPNotFound(text="there is no such file")
        kind = _TYPES[Path(name).suffix]
        return web.Response(body=body, content_type=kind, charset="utf-8")

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        user = await self._user(request)
        with self._open.place(user):
            self._page.stays(request.protocol)
            return await self._streamed(request, user)

    async def _streamed(self, request: web.Request, user: User) -> web.StreamResponse:
        page, only = self._page, _namespace(request)
        await page.board.refresh()
        viewer = await page.access.viewer(user, tuple(page.board.namespaces), only=only)
        if only and not viewer.sees(only):
            raise _forbidden(only)
        response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: "text/event-stream"})
        response.force_close()
        waits_for_all(request)
        await response.prepare(request)

        async def review() -> Viewer:
            again = await self._user(request)
            return await page.access.viewer(again, tuple(page.board.namespaces), only=only)

        since = request.query.get("since", "")
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(_follow_nodes(page.board), name="nodes of the page")
            with suppress(NobodyError, CrowdError, KubeError, ConnectionError):
                try:
                    await page.streams.write(response, viewer, since=since, review=review)
                except TimeoutError:
                    disconnect(request)
            asking.cancel()
        await end(request, response)
        return response

    async def _story(self, request: web.Request) -> web.StreamResponse:
        user = await self._user(request)
        namespace, name = request.query.get("namespace", ""), request.query.get("name", "")
        if _NAMESPACE.fullmatch(namespace) is None or _POD.fullmatch(name) is None:
            raise web.HTTPBadRequest(text="namespace and name: expected those of a pod")
        with self._telling.place(user):
            self._page.stays(request.protocol)
            async with asyncio.timeout(STORY_SECONDS), self._stories:
                told = await self._told(user, namespace, name)
            return await _sent(request, told)

    async def _told(self, user: User, namespace: str, name: str) -> bytes:
        page = self._page
        reader = ReadsAsUser(page.kube, page.access, user)
        found = await read_story(
            reader,
            page.board,
            namespace=namespace,
            name=name,
            names=page.names,
            scheduler=page.scheduler_name,
        )
        return await self._teller.tell(found)

    async def _partitions(self, request: web.Request) -> web.StreamResponse:
        """What a namespace may ask for, to those who may list its pods. No node is named."""
        if not request.query.get("namespace"):
            raise web.HTTPBadRequest(text="namespace: expected the name of a namespace")
        return await self._of_namespace(request, self._page.partitions.answer)

    async def _places(self, request: web.Request) -> web.StreamResponse:
        """Where the waiting pods of a namespace stand, to those who may list its pods; without a
        namespace those of all. No other pod is named.
        """
        return await self._of_namespace(request, self._page.places.answer)

    async def _of_namespace(self, request: web.Request, answer: _Answer) -> web.StreamResponse:
        page = self._page
        user = await self._user(request)
        namespace, after = _namespace(request), request.query.get("after", "")
        with self._asking.place(user):
            page.stays(request.protocol)
            if not await page.access.may(user, "list", "pods", namespace=namespace):
                raise _forbidden(namespace)
            async with asyncio.timeout(ANSWER_SECONDS):
                body = await answer(namespace, after=after)
            return await _sent(request, body)

    async def _user(self, request: web.Request) -> User:
        scheme, _, token = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
        return await self._page.access.user(token.strip() if scheme.lower() == "bearer" else "")


def _namespace(request: web.Request) -> str:
    """The namespace that is asked about; "" if none is named."""
    found = request.query.get("namespace", "")
    if found and _NAMESPACE.fullmatch(found) is None:
        raise web.HTTPBadRequest(text="namespace: expected the name of a namespace")
    return found


def _forbidden(namespace: str) -> web.HTTPForbidden:
    where = f"in namespace {namespace}" if namespace else "in all namespaces"
    return web.HTTPForbidden(
        text=f"you may not list pods {where}, so you are not shown this of them; name another "
        "namespace, or ask the administrators for that right"
    )


async def _sent(request: web.Request, body: bytes) -> web.StreamResponse:
    response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: "application/json; charset=utf-8"})
    return await send(request, response, body)


def _said(status: int, text: str) -> web.Response:
    headers = {hdrs.RETRY_AFTER: _AGAIN_SECONDS} if status == 503 else {}
    if status == 401:
        headers = {hdrs.WWW_AUTHENTICATE: "Bearer"}
    return web.json_response({"error": text}, status=status, headers=headers)


async def _follow_nodes(board: Board) -> None:
    while True:
        await board.renew_nodes()
        await asyncio.sleep(NODES_SECONDS)


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)
