"""What happened to a pod, in order: its Events, and the times that stand on the pod itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from scheduler.core.event_reasons import Reason
from scheduler.kube.wire import Pod
from scheduler.view.seen import Event, Sighting

_BEGINNING: Final = datetime.min.replace(tzinfo=UTC)
_CREATED: Final = "Created"
_BOUND: Final = "Bound"
_STARTED: Final = "Started"
_PLACES: Final = {it: place for place, it in enumerate((_CREATED, *Reason, _BOUND, _STARTED))}


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happened. `writer` is the component whose Event tells of it, "" for what
    stands on the pod. `last` is when it was repeated last, `times` how often it happened.
    """

    at: datetime | None
    what: str
    message: str
    writer: str = ""
    last: datetime | None = None
    times: int = 1


def history(seen: Sighting) -> tuple[Moment, ...]:
    """All moments, the earliest first. Times are whole seconds, so what happened in one second is
    in the order in which things mostly happen.
    """
    found = [_of_event(it) for it in seen.events]
    if seen.pod is not None:
        has_event = any(it.what == Reason.SCHEDULED for it in found)
        found += [*_beginning(seen.pod, seen, has_event=has_event), *_ending(seen.pod, seen)]
    return tuple(sorted(found, key=lambda it: (it.at or _BEGINNING, _place(it))))


def _place(moment: Moment) -> int:
    return _PLACES.get(moment.what, len(_PLACES))


def _of_event(event: Event) -> Moment:
    return Moment(
        event.first, event.reason, event.message, event.writer or "?", event.last, event.times
    )


def _beginning(pod: Pod, seen: Sighting, *, has_event: bool) -> Iterator[Moment]:
    """How the pod came to run. `has_event` says that an Event tells to which Node it was bound."""
    by = "" if seen.owner is None else f"by {seen.owner.kind} {seen.owner.name}"
    yield Moment(pod.metadata.creation_timestamp, _CREATED, by)
    bound = pod.condition("PodScheduled")
    if bound is not None and bound.status == "True" and not has_event:
        yield Moment(bound.last_transition_time, _BOUND, f"to Node {pod.spec.node_name}")
    running = (it.state.running for it in pod.status.container_statuses)
    starts = [it.started_at for it in running if it is not None and it.started_at is not None]
    if starts:
        some = f"{len(starts)} of {len(pod.spec.containers)} containers run"
        yield Moment(min(starts), _STARTED, some)


def _ending(pod: Pod, seen: Sighting) -> Iterator[Moment]:
    disrupted = pod.condition("DisruptionTarget")
    if disrupted is not None and disrupted.status == "True":
        what = f"DisruptionTarget, {disrupted.reason}"
        yield Moment(disrupted.last_transition_time, what, disrupted.message)
    gone_by = pod.metadata.deletion_timestamp
    if gone_by is not None:
        grace = pod.metadata.deletion_grace_period_seconds or 0
        yield Moment(_before(gone_by, grace), "Deleted", f"its containers have {grace} s to stop")
    for it in seen.stops:
        how = f"with exit code {it.exit_code}" + (f" ({it.reason})" if it.reason else "")
        yield Moment(it.at, "Stopped", f"container {it.container}, {how}")


def _before(moment: datetime, seconds: int) -> datetime | None:
    """So many seconds before; None if no calendar reaches as far: a grace may be of any length."""
    try:
        return moment - timedelta(seconds=seconds)
    except OverflowError:
        return None
