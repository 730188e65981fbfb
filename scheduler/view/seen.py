"""What the API server shows of one pod: the pod, its Events and its controller.

Whoever calls the command may lack the right to read a part; then the rest is shown, and what is
missing is named. Memory is bounded: at most MOST_EVENTS Events, texts clipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Protocol, TypeVar

from msgspec import structs

from scheduler.kube.clip import clipped
from scheduler.kube.controllers import CONTROLLERS, controller_path
from scheduler.kube.depth import decoded
from scheduler.kube.errors import Forbidden, KubeTooLarge, NotFound
from scheduler.kube.session import Query
from scheduler.kube.wire import (
    ItemList,
    ObjectMeta,
    OwnerReference,
    Pod,
    Wire,
    decode_identified,
    decode_pod,
    decoder,
)
from scheduler.view.connection import ViewError

MOST_EVENTS: Final = 500
"""As many as one page of a list: the scheduler itself writes far fewer about a pod."""
LONGEST_ANSWER: Final = 16 * 1024 * 1024
"""In bytes. Ordinary pods and Events have some kilobytes, but their authors may write megabytes."""
_FEWER: Final = 10
_SECONDS: Final = 30.0
_MOST_BYTES: Final = 128
_MOST_STOPS: Final = 16

T = TypeVar("T")


class InvolvedObject(Wire, frozen=True, gc=False):
    """What an Event is about."""

    uid: str = ""


class EventSource(Wire, frozen=True, gc=False):
    """Who has written an Event."""

    component: str = ""


class EventSeries(Wire, frozen=True, gc=False):
    """How often an Event of the newer kind was repeated."""

    count: int = 1
    last_observed_time: datetime | None = None


class Event(Wire, frozen=True, gc=False):
    """An Event of v1. Older writers set first, last and count; newer ones time and series."""

    metadata: ObjectMeta
    involved_object: InvolvedObject = InvolvedObject()
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int = 1
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    event_time: datetime | None = None
    series: EventSeries | None = None
    source: EventSource = EventSource()
    reporting_component: str = ""

    @property
    def first(self) -> datetime | None:
        """When it was written first."""
        return self.first_timestamp or self.event_time or self.metadata.creation_timestamp

    @property
    def last(self) -> datetime | None:
        """When it was repeated last."""
        repeated = None if self.series is None else self.series.last_observed_time
        return repeated or self.last_timestamp or self.first

    @property
    def times(self) -> int:
        """How often it was written."""
        return self.count if self.series is None else self.series.count

    @property
    def writer(self) -> str:
        """The component that has written it."""
        return self.source.component or self.reporting_component


class _Stopped(Wire, frozen=True, gc=False):
    """How and when a container stopped; the scheduler itself does not read when."""

    exit_code: int = 0
    reason: str = ""
    finished_at: datetime | None = None


class _StoppedState(Wire, frozen=True, gc=False):
    terminated: _Stopped | None = None


class _StoppedContainer(Wire, frozen=True, gc=False):
    name: str = ""
    state: _StoppedState = _StoppedState()


class _StoppedStatus(Wire, frozen=True, gc=False):
    container_statuses: tuple[_StoppedContainer, ...] = ()


class _StoppedPod(Wire, frozen=True, gc=False):
    status: _StoppedStatus = _StoppedStatus()


class Reader(Protocol):
    """What reads from the API server: a session, or one that first asks who reads."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        timeout: float = _SECONDS,  # noqa: ASYNC109 - as in KubeSession
        most_bytes: int | None = None,
    ) -> bytes:
        """The body of the answer. Raises KubeError, KubeTooLarge for more than `most_bytes`."""
        ...


@dataclass(frozen=True, slots=True)
class Stop:
    """A container that has stopped."""

    container: str
    at: datetime | None
    exit_code: int
    reason: str


_decode_events = decoder(ItemList[Event])
_decode_stops = decoder(_StoppedPod)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """`pod` is None if it does not exist any more; then only its Events tell of it. `owner` is the
    pod's controller as the pod names it, and `controller` that object's metadata, if it was read.
    `more_events` says that the pod has more Events than were read. `unread` says in words what
    could not be read.
    """

    namespace: str
    name: str
    pod: Pod | None
    stops: tuple[Stop, ...] = ()
    events: tuple[Event, ...] = ()
    more_events: bool = False
    owner: OwnerReference | None = None
    controller: ObjectMeta | None = None
    unread: tuple[str, ...] = ()


async def see(session: Reader, namespace: str, name: str) -> Sighting:
    """Read all of it. Raises ViewError if there is nothing to tell, and KubeError."""
    pod, stops = await _pod(session, namespace, name)
    events, more, unread = await _events(session, namespace, name, pod=pod)
    if pod is None and not events:
        nothing = unread or "no Events tell of one that was there in the last hour"
        raise ViewError(
            f"there is no pod {name} in namespace {namespace}, and {nothing}; "
            f"`kubectl slurm queue -n {namespace}` lists those that are there"
        )
    seen = Sighting(
        namespace=namespace,
        name=name,
        pod=pod,
        stops=stops,
        events=events,
        more_events=more,
        unread=(unread,) if unread else (),
    )
    return seen if pod is None else await _with_controller(session, seen, pod)


async def _pod(session: Reader, namespace: str, name: str) -> tuple[Pod | None, tuple[Stop, ...]]:
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    try:
        body = await session.request("GET", path, timeout=_SECONDS, most_bytes=LONGEST_ANSWER)
    except NotFound:
        return None, ()
    except KubeTooLarge as error:
        raise ViewError(f"pod {name} is larger than what is read of one here: {error}") from error
    except Forbidden as error:
        raise ViewError(
            f"you may not get pods in namespace {namespace}: the right `get` on `pods` is missing "
            f"there; name another namespace with -n, or ask the administrators ({error})"
        ) from error
    stopped = await decoded(_decode_stops, body)
    return await decoded(decode_pod, body), tuple(_stops(stopped))


def _stops(pod: _StoppedPod) -> Iterator[Stop]:
    for it in pod.status.container_statuses[:_MOST_STOPS]:
        ended = it.state.terminated
        if ended is not None:
            reason = clipped(ended.reason, _MOST_BYTES)
            yield Stop(clipped(it.name, _MOST_BYTES), ended.finished_at, ended.exit_code, reason)


async def _events(
    session: Reader, namespace: str, name: str, *, pod: Pod | None
) -> tuple[tuple[Event, ...], bool, str]:
    """The pod's Events, whether there are more, and why they could not be read. Without the pod,
    those of the last pod of that name.
    """
    about = f"involvedObject.kind=Pod,involvedObject.name={name}"
    if pod is not None:
        about = f"{about},involvedObject.uid={pod.metadata.uid}"
    path, limit = f"/api/v1/namespaces/{namespace}/events", MOST_EVENTS
    body = None
    while body is None:
        query = {"fieldSelector": about, "limit": str(limit)}
        try:
            body = await session.request(
                "GET", path, query=query, timeout=_SECONDS, most_bytes=LONGEST_ANSWER
            )
        except Forbidden:
            return (), False, "you may not list Events there (the right `list` on `events`)"
        except KubeTooLarge:
            limit //= _FEWER
            if not limit:
                return (), False, "its Events, which are too large"
    page = await decoded(_decode_events, body)
    found = [_bounded(it) for it in page.items or ()]
    found = found if pod is not None else _of_the_last(found)
    return tuple(found), bool(page.metadata.continue_), ""


def _bounded(event: Event) -> Event:
    return structs.replace(
        event, message=clipped(event.message), reason=clipped(event.reason, _MOST_BYTES)
    )


def _of_the_last(events: Iterable[Event]) -> list[Event]:
    """The Events about the pod of which the latest one tells: names are used again."""
    dated = [(it.last, it) for it in events]
    latest = max(((at, it) for at, it in dated if at), key=lambda pair: pair[0], default=None)
    if latest is None:
        return []
    uid = latest[1].involved_object.uid
    return [it for _, it in dated if it.involved_object.uid == uid]


async def _with_controller(session: Reader, seen: Sighting, pod: Pod) -> Sighting:
    """With the pod's controller, as far as it can be read."""
    owner = next((it for it in pod.metadata.owner_references if it.controller), None)
    if owner is None:
        return seen
    seen = replace(seen, owner=owner)
    path = controller_path(owner, seen.namespace)
    if not path:
        return seen
    try:
        body = await session.request("GET", path, timeout=_SECONDS)
        found = (await decoded(decode_identified, body)).metadata
    except Forbidden:
        resource = CONTROLLERS[owner.kind, owner.api_version]
        why = f"you may not read {owner.kind} {owner.name} (the right `get` on `{resource}`)"
        return replace(seen, unread=(*seen.unread, why))
    except NotFound:
        return seen
    return replace(seen, controller=found) if found.uid == owner.uid else seen
