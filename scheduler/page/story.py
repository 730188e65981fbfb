"""A pod's story, as the command `explain` tells it, of what the viewer may read and no more."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Final

import msgspec

from scheduler.kube.errors import Forbidden, NotFound
from scheduler.kube.session import KubeSession, Query
from scheduler.page.access import Access, User
from scheduler.page.board import Board
from scheduler.view.gang import gang_of
from scheduler.view.peers import MAY_NOT_LIST, Company, company_among
from scheduler.view.row import Names, Row
from scheduler.view.seen import Sighting, see
from scheduler.view.story import Story, story
from scheduler.view.telling import object_of

LONGEST_READ: Final = 1024 * 1024
"""How many bytes of one answer are read. What tenants write is decoded in one turn of the loop."""
_SECONDS: Final = 10.0
_FORBIDDEN: Final = 403
_RESTS: Final = 2.0
_encode = msgspec.json.Encoder().encode
_PATH: Final = re.compile(
    r"/(?:api/v1|apis/(?P<group>[a-z0-9.]+)/v[a-z0-9]+)/namespaces/(?P<namespace>[a-z0-9-]+)"
    r"/(?P<resource>[a-z]+)(?P<one>/[a-z0-9][-a-z0-9.]*)?",
    re.ASCII,
)


class ReadsAsUser:
    """Reads with the scheduler's own rights what the user may read too; anything else is refused
    in the API server's manner.
    """

    def __init__(self, kube: KubeSession, access: Access, user: User) -> None:
        self._kube = kube
        self._access = access
        self._user = user

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        timeout: float = _SECONDS,  # noqa: ASYNC109 - as in KubeSession
        most_bytes: int | None = None,
    ) -> bytes:
        """The body of the answer. Raises KubeError: Forbidden for what the user may not read, and
        KubeTooLarge for more than LONGEST_READ bytes.
        """
        found = _PATH.fullmatch(path)
        if method != "GET" or found is None:
            raise Forbidden(_FORBIDDEN, reason="Forbidden", message="the page does not read this")
        if found["group"]:
            # A pod names its controller, and the scheduler has no right to read that.
            raise NotFound(404, reason="NotFound", message="the page does not read controllers")
        verb = "get" if found["one"] else "list"
        if not await self._access.may(
            self._user, verb, found["resource"], namespace=found["namespace"]
        ):
            why = f"{self._user.username} may not {verb} {found['resource']} there"
            raise Forbidden(_FORBIDDEN, reason="Forbidden", message=why)
        return await self._kube.request(
            method,
            path,
            query=query,
            timeout=min(timeout, _SECONDS),
            operation="page",
            most_bytes=min(most_bytes or LONGEST_READ, LONGEST_READ),
        )

    async def may_list(self, namespace: str) -> bool:
        """Whether the user may list the pods there. Raises KubeError."""
        return await self._access.may(self._user, "list", "pods", namespace=namespace)


@dataclass(frozen=True, slots=True)
class StoryRead:
    """What was read for a story. `others` are the pods of the namespace; None for a viewer who may
    not list them.
    """

    seen: Sighting
    names: Names
    scheduler: str
    others: Sequence[Row] | None


async def read_story(
    reader: ReadsAsUser, board: Board, *, namespace: str, name: str, names: Names, scheduler: str
) -> StoryRead:
    """Read what the viewer may read. Raises ViewError and KubeError; NotFound for a pod of another
    scheduler.
    """
    seen = await see(reader, namespace, name)
    if seen.pod is not None and seen.pod.spec.scheduler_name != scheduler:
        raise NotFound(404, message=f"pod {name} is for another scheduler")
    others: Sequence[Row] | None = ()
    if seen.pod is not None and gang_of(seen.pod, names.prefixes).gang is not None:
        others = board.rows(namespace) if await reader.may_list(namespace) else None
    return StoryRead(seen, names, scheduler, others)


class StoryTeller:
    """Puts stories together, one after the other: one of 500 Events takes 80 ms (measured). A
    thread does it, and rests as long as lets the loop have most of the time.
    """

    def __init__(self) -> None:
        self._busy = asyncio.Lock()

    async def tell(self, found: StoryRead) -> bytes:
        """The story in JSON."""
        async with self._busy:
            began = perf_counter()
            told = await asyncio.to_thread(_told, found)
            await asyncio.sleep(_RESTS * (perf_counter() - began))
        return told


def _told(found: StoryRead) -> bytes:
    return _encode(object_of(_with_gang(story(found.seen, found.names, found.scheduler), found)))


def _with_gang(whole: Story, found: StoryRead) -> Story:
    gang = None if whole.row is None else whole.row.gang.gang
    if gang is None:
        return whole
    if found.others is None:
        return replace(whole, company=Company(gang, None), unread=(*whole.unread, MAY_NOT_LIST))
    return replace(whole, company=company_among(gang, found.others))
