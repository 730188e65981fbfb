"""Who may see what: Kubernetes says it, by a TokenReview and SubjectAccessReviews.

A page shows the pods of a namespace to those who may list pods there, and nodes to those who may
list Nodes. Answers are kept for a short time, so that a page costs the API server little. Anybody
can send tokens that nobody knows, so questions about tokens are asked at a pace, and those about
rights do not wait behind them. How many streams and stories there may be: `server.py`.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar
from weakref import WeakValueDictionary

import msgspec

from groundwork.together import few_at_once
from scheduler.kube.session import KubeSession
from scheduler.kube.wire import decoder

REMEMBERED_SECONDS: Final = 30.0
MOST_REMEMBERED: Final = 8192
MOST_NAMESPACES: Final = 100
"""How many namespaces are asked about for one who may not list the pods of all."""
LONGEST_TOKEN: Final = 4000
"""In characters: a request's header is at most 4096 bytes long."""
MOST_TOKENS_AT_ONCE: Final = 4
MOST_AT_ONCE: Final = 8
"""How many questions about rights are asked at a time."""
MOST_WAITING: Final = 256
"""How many questions about tokens may wait, and as many about rights."""
TOKENS_PER_SECOND: Final = 100.0
TOO_MANY: Final = "too many questions wait; try again"
_SECONDS: Final = 5.0
# Kubernetes gives each token of a ServiceAccount another one. No right depends on it.
_PER_CREDENTIAL: Final = "authentication.kubernetes.io/credential-id"
_SERVICE_ACCOUNT: Final = re.compile(r"system:serviceaccount:([^:]+):[^:]+")
_REVIEW: Final = "authentication.k8s.io/v1"
_ACCESS: Final = "authorization.k8s.io/v1"

T = TypeVar("T")


class NobodyError(Exception):
    """There is no token, or Kubernetes does not accept it."""


class CrowdError(Exception):
    """There is no place: too many have one already. The message is for people."""

    def __init__(self, said: str = TOO_MANY) -> None:
        super().__init__(said)


class User(msgspec.Struct, frozen=True):
    """Who a token belongs to, as Kubernetes says."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}

    @property
    def key(self) -> str:
        """A short name for the user with all that rights depend on."""
        extra = {key: it for key, it in self.extra.items() if key != _PER_CREDENTIAL}
        user = msgspec.structs.replace(self, extra=extra)
        return hashlib.sha256(msgspec.json.encode(user)).hexdigest()

    @property
    def counted_as(self) -> str:
        """Whom a bound for one user counts: all ServiceAccounts of a namespace are one, because
        whoever may create one may create many.
        """
        namespace = _namespace_of(self)
        return f"system:serviceaccounts:{namespace}" if namespace else self.username


@dataclass(frozen=True, slots=True)
class Viewer:
    """What somebody may see: pods of these namespaces, or of all (`everywhere`), and `nodes`.
    `partial` says that not all namespaces were asked about.
    """

    name: str
    everywhere: bool
    namespaces: frozenset[str]
    nodes: bool
    partial: bool = False

    def sees(self, scope: str) -> bool:
        """Whether the lines of this namespace are shown."""
        return self.everywhere or scope in self.namespaces


class Access(Protocol):
    """Says who may see what."""

    async def user(self, token: str) -> User:
        """Whose token it is. Raises NobodyError, CrowdError and KubeError."""
        ...

    async def viewer(self, user: User, namespaces: Collection[str], *, only: str = "") -> Viewer:
        """What the user may see of these namespaces, or of the one that was asked for (`only`).
        Raises CrowdError and KubeError.
        """
        ...

    async def may(self, user: User, verb: str, resource: str, *, namespace: str = "") -> bool:
        """Whether the user has this right. Raises CrowdError and KubeError."""
        ...


class Open:
    """Everybody may see everything."""

    async def user(self, _token: str) -> User:
        """The one user that there is."""
        return User()

    async def viewer(self, _user: User, _namespaces: Collection[str], *, only: str = "") -> Viewer:
        """Everything, or all of one namespace."""
        shown = frozenset([only] if only else ())
        return Viewer("", everywhere=not only, namespaces=shown, nodes=True)

    async def may(self, _user: User, _verb: str, _resource: str, *, namespace: str = "") -> bool:
        """Yes."""
        del namespace
        return True


class _TokenStatus(msgspec.Struct, frozen=True):
    authenticated: bool = False
    user: User = User()


class _TokenReview(msgspec.Struct, frozen=True):
    status: _TokenStatus = _TokenStatus()


class _AccessStatus(msgspec.Struct, frozen=True):
    allowed: bool = False


class _AccessReview(msgspec.Struct, frozen=True):
    status: _AccessStatus = _AccessStatus()


_decode_token: Final = decoder(_TokenReview)
_decode_access: Final = decoder(_AccessReview)


class Reviews:
    """Asks the API server. `clock` is in seconds."""

    def __init__(self, kube: KubeSession, *, clock: Callable[[], float]) -> None:
        self._kube = kube
        self._clock = clock
        self._tokens = _Queue(MOST_TOKENS_AT_ONCE)
        self._rights = _Queue(MOST_AT_ONCE)
        self._pacing = asyncio.Lock()
        self._next_token_at = clock()
        self._asking: WeakValueDictionary[object, asyncio.Lock] = WeakValueDictionary()
        self._kept: OrderedDict[object, tuple[float, Any]] = OrderedDict()

    async def user(self, token: str) -> User:
        """Whose token it is."""
        if not token or len(token) > LONGEST_TOKEN or not token.isascii():
            raise NobodyError
        key = hashlib.sha256(token.encode()).digest()
        found = await self._remembered(key, lambda: self._authenticated(token))
        if found is None:
            raise NobodyError
        return found

    async def viewer(self, user: User, namespaces: Collection[str], *, only: str = "") -> Viewer:
        """What the user may see."""
        nodes = await self.may(user, "list", "nodes")
        if not only and await self.may(user, "list", "pods"):
            return Viewer(user.username, everywhere=True, namespaces=frozenset(), nodes=nodes)
        own = _namespace_of(user)
        known = [only] if only else sorted(namespaces, key=lambda it: (it != own, it))
        asked = known[:MOST_NAMESPACES]

        def lists(namespace: str) -> Awaitable[bool]:
            return self.may(user, "list", "pods", namespace=namespace)

        may = await few_at_once(MOST_AT_ONCE, asked, lists)
        return Viewer(
            user.username,
            everywhere=False,
            namespaces=frozenset(it for it, allowed in zip(asked, may, strict=True) if allowed),
            nodes=nodes,
            partial=len(known) > MOST_NAMESPACES,
        )

    async def may(self, user: User, verb: str, resource: str, *, namespace: str = "") -> bool:
        """Whether the user has this right; "" as the namespace stands for all."""
        key = (user.key, verb, resource, namespace)
        asked = {"verb": verb, "resource": resource, "namespace": namespace}
        return await self._remembered(key, lambda: self._allowed(user, asked))

    async def _authenticated(self, token: str) -> User | None:
        body = {"apiVersion": _REVIEW, "kind": "TokenReview", "spec": {"token": token}}
        async with self._tokens.place():
            await self._pause()
            status = _decode_token(await self._post(_REVIEW, "tokenreviews", body)).status
        return status.user if status.authenticated else None

    async def _pause(self) -> None:
        """Wait until the next token may be asked about. Who leaves meanwhile has used nothing."""
        async with self._pacing:
            await asyncio.sleep(max(0.0, self._next_token_at - self._clock()))
            self._next_token_at = self._clock() + 1 / TOKENS_PER_SECOND

    async def _allowed(self, user: User, asked: dict[str, str]) -> bool:
        spec = {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
            "resourceAttributes": {key: it for key, it in asked.items() if it},
        }
        body = {"apiVersion": _ACCESS, "kind": "SubjectAccessReview", "spec": spec}
        async with self._rights.place():
            answer = await self._post(_ACCESS, "subjectaccessreviews", body)
        return _decode_access(answer).status.allowed

    async def _post(self, version: str, resource: str, body: object) -> bytes:
        path = f"/apis/{version}/{resource}"
        return await self._kube.request(
            "POST", path, body=body, timeout=_SECONDS, operation=resource
        )

    async def _remembered(self, key: object, ask: Callable[[], Awaitable[T]]) -> T:
        """The answer, which is asked for once for all who ask the same meanwhile."""
        asking = self._asking.setdefault(key, asyncio.Lock())
        async with asking:
            known = self._kept.get(key)
            if known is not None and self._clock() < known[0]:
                answer: T = known[1]
                return answer
            found = await ask()
            self._kept[key] = (self._clock() + REMEMBERED_SECONDS, found)
            self._kept.move_to_end(key)
            while len(self._kept) > MOST_REMEMBERED:
                self._kept.popitem(last=False)
            return found


class _Queue:
    """So many questions are asked at a time, and at most MOST_WAITING wait or are asked."""

    def __init__(self, at_once: int) -> None:
        self._slots = asyncio.Semaphore(at_once)
        self._waiting = 0

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait for a place, and have it within the block. Raises CrowdError."""
        if self._waiting >= MOST_WAITING:
            raise CrowdError
        self._waiting += 1
        try:
            async with self._slots:
                yield
        finally:
            self._waiting -= 1


def _namespace_of(user: User) -> str:
    """The namespace of a ServiceAccount; "" for other users."""
    found = _SERVICE_ACCOUNT.fullmatch(user.username)
    return "" if found is None else found[1]
