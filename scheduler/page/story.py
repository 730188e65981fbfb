"""A pod's story, as the command `explain` tells it, of what the viewer may read and no more."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

from scheduler.kube.errors import Forbidden, NotFound
from scheduler.kube.session import KubeSession, Query
from scheduler.page.access import Access, User
from scheduler.page.board import Board
from scheduler.view.peers import MAY_NOT_LIST, Company, company_among
from scheduler.view.row import Names
from scheduler.view.seen import see
from scheduler.view.story import Story, story
from scheduler.view.telling import object_of

LONGEST_READ: Final = 1024 * 1024
"""How many bytes of one answer are read. What tenants write is decoded in one turn of the loop."""
_SECONDS: Final = 10.0
_FORBIDDEN: Final = 403
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


async def story_of(
    reader: ReadsAsUser, board: Board, *, namespace: str, name: str, names: Names, scheduler: str
) -> dict[str, Any]:
    """The story as an object. Raises ViewError and KubeError; NotFound for a pod of another
    scheduler.
    """
    seen = await see(reader, namespace, name)
    if seen.pod is not None and seen.pod.spec.scheduler_name != scheduler:
        raise NotFound(404, message=f"pod {name} is for another scheduler")
    return object_of(await _with_gang(story(seen, names, scheduler), reader, board))


async def _with_gang(found: Story, reader: ReadsAsUser, board: Board) -> Story:
    gang = None if found.row is None else found.row.gang.gang
    if gang is None:
        return found
    namespace = found.seen.namespace
    if not await reader.may_list(namespace):
        return replace(found, company=Company(gang, None), unread=(*found.unread, MAY_NOT_LIST))
    return replace(found, company=company_among(gang, board.rows(namespace)))
