"""Makes lives of pods from their states and from the requests about them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from tests.audit.history import NEVER, Bind, PodLife, Touch, When
from tests.audit.records import PodAsked, PodSeen, Records

_ENDED: Final = frozenset({"Succeeded", "Failed"})
_LISTS: Final = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")


def pod_lives(records: Records) -> Iterator[PodLife]:
    """One life for each uid that was seen."""
    seen: dict[str, list[PodSeen]] = defaultdict(list)
    for it in sorted(records.pods, key=lambda it: it.when.latest):
        seen[it.pod["metadata"]["uid"]].append(it)
    asked = _by_uid(records, seen)
    for uid, states in seen.items():
        yield _life(uid, states, asked[uid], reported=records.reported)


def _life(
    uid: str, states: Sequence[PodSeen], asked: Sequence[PodAsked], *, reported: bool
) -> PodLife:
    pod = states[0].pod
    binds = tuple(Bind(it.when, it.by, it.node, it.accepted) for it in asked if it.verb == "bind")
    bound = next((it for it in states if it.pod["spec"].get("nodeName")), None)
    return PodLife(
        uid=uid,
        namespace=pod["metadata"]["namespace"],
        name=pod["metadata"]["name"],
        scheduler=pod["spec"].get("schedulerName", ""),
        made=states[0].when,
        node=bound.pod["spec"]["nodeName"] if bound else "",
        placed=_placed(bound, binds),
        stopped=_stopped(states, reported=reported),
        over=next((it.when for it in states if _is_over(it)), NEVER),
        binds=binds,
        deletions=tuple(
            Touch(it.when, it.by) for it in asked if it.verb == "delete" and it.accepted
        ),
        touches=tuple(Touch(it.when, it.by) for it in asked if it.accepted),
    )


def _placed(bound: PodSeen | None, binds: Sequence[Bind]) -> When:
    """When it got its Node: from the recorded Binding, else from the first state that shows it."""
    accepted = [bind.when for bind in binds if bind.accepted]
    if bound is None:
        return min(accepted, default=NEVER)
    return min([*accepted, bound.when])


def _is_over(seen: PodSeen) -> bool:
    return seen.gone or seen.pod.get("status", {}).get("phase") in _ENDED


def _stopped(states: Sequence[PodSeen], *, reported: bool) -> When:
    """When the last container stopped. Reports come late; if a report has no time in it, a pod may
    have stopped at any moment since its deletion was asked for.
    """
    over = next((it for it in states if _is_over(it)), None)
    if over is None:
        return NEVER
    if not reported:
        return over.when
    finished = _finished(over.pod)
    if finished is None:
        leaving = [it.when for it in states if "deletionTimestamp" in it.pod["metadata"]]
        since = min([over.when, *leaving]).earliest
    else:
        since = min(finished, over.when.latest)
    return When(since, over.when.latest)


def _finished(pod: dict[str, Any]) -> float | None:
    """When the last container of an ended pod ended, in whole seconds; None for unknown."""
    states = [
        status.get("state", {})
        for name in _LISTS
        for status in pod.get("status", {}).get(name) or ()
    ]
    ended = [it["terminated"].get("finishedAt") for it in states if "terminated" in it]
    if not ended or len(ended) < len(states) or not all(ended):
        return None
    return max(datetime.fromisoformat(it).timestamp() for it in ended)


def _by_uid(records: Records, seen: dict[str, list[PodSeen]]) -> dict[str, list[PodAsked]]:
    """Requests by uid. One without a uid is about the pod that had the name at that time."""
    names: dict[tuple[str, str], list[str]] = defaultdict(list)
    for uid, states in seen.items():
        metadata = states[0].pod["metadata"]
        names[metadata["namespace"], metadata["name"]].append(uid)
    found: dict[str, list[PodAsked]] = defaultdict(list)
    for it in records.pods_asked:
        uids = [it.uid] if it.uid else names[it.namespace, it.name]
        then = [uid for uid in uids if uid in seen and _was_there(seen[uid], it.when)]
        for uid in then[:1] or uids[-1:]:
            found[uid].append(it)
    return found


def _was_there(states: Sequence[PodSeen], when: When) -> bool:
    gone = next((it.when for it in states if it.gone), NEVER)
    return states[0].when.maybe_before(when) and when.maybe_before(gone)
