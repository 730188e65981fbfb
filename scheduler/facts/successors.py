"""Notices pods that ended too soon, and makes their successors wait.

Only the pod's own report counts: it Failed, or was disrupted, for instance by Slurm. Nobody waits
because a person or a controller deleted a pod, or because a pod succeeded. None of this outlives
the process: the next process starts to count again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import structlog

from scheduler.core.crash_pause import (
    TOO_SOON_SECONDS,
    Forerunner,
    PodController,
    Succession,
    pause_seconds,
)
from scheduler.facts.outcome import outcome_of
from scheduler.kube.wire import Pod
from scheduler.observe.metrics import Metrics
from scheduler.state.units import Unit

log = structlog.get_logger(__name__)

# For StatefulSets and DaemonSets this label identifies the revision of the pod's template. A
# Deployment has a ReplicaSet for each revision.
_REVISION: Final = "controller-revision-hash"


class Successors:
    """Notes in the succession what is seen of pods."""

    def __init__(self, *, metrics: Metrics, clock: Callable[[], float]) -> None:
        self._succession = Succession()
        self._metrics = metrics
        self._clock = clock

    def saw(self, unit: Unit, pod: Pod) -> None:
        """Note a pod that may have ended too soon; it counts once."""
        seen = unit.pod(pod.metadata.uid).seen
        if seen.over:
            return
        how = _disrupted(pod) or _failure(pod)
        if not how:
            return
        seen.over = True
        controller = _controller_of(pod)
        tried_at = unit.asked.tried_at
        early = tried_at is not None and self._clock() - tried_at < TOO_SOON_SECONDS
        if controller is not None and early:
            self._note(unit, controller, how)

    def take(self, pod: Pod) -> Forerunner | None:
        """The pod that ended too soon and that this new pod replaces; None if there is none."""
        controller = _controller_of(pod)
        return None if controller is None else self._succession.take(controller, self._clock())

    def _note(self, unit: Unit, controller: PodController, how: str) -> None:
        now = self._clock()
        times = 1 if unit.seen.forerunner is None else unit.seen.forerunner.times + 1
        pause = pause_seconds(times)
        pause *= 1.0 - 0.25 * random.random()  # noqa: S311 - spreads joint failures
        forerunner = Forerunner(
            times=times,
            noted_at=now,
            until=now + pause,
            message=_wait_message(
                controller, times, how=f"{unit.name}: {how}", until=time.time() + pause
            ),
        )
        self._succession.note(controller, forerunner)
        self._metrics.early_ends.inc()
        log.info(
            "pod ended too soon",
            namespace=unit.namespace,
            pod=unit.name,
            of=controller.called,
            times=times,
            how=how,
        )


def _wait_message(controller: PodController, times: int, *, how: str, until: float) -> str:
    at = datetime.fromtimestamp(until, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return (
        f"The last {times} pods of {controller.called}, which this pod replaces, ended within "
        f"{TOO_SOON_SECONDS:.0f} s; the last one: {how}. This pod's job is submitted at {at}; "
        "if you delete this pod, the next one does not wait"
    )


def _controller_of(pod: Pod) -> PodController | None:
    owner = next((it for it in pod.metadata.owner_references if it.controller), None)
    if owner is None:
        return None
    meta = pod.metadata
    return PodController(
        meta.namespace,
        owner.uid,
        meta.labels.get(_REVISION, ""),
        called=f"{owner.kind} {owner.name}",
    )


def _disrupted(pod: Pod) -> str:
    found = pod.condition("DisruptionTarget")
    if found is None or found.status != "True":
        return ""
    return ": ".join(filter(None, (found.reason, found.message)))


def _failure(pod: Pod) -> str:
    """How the pod failed. A kubelet reports Failed for a deleted pod too, which does not count."""
    failed = pod.status.phase == "Failed" and pod.metadata.deletion_timestamp is None
    return outcome_of(pod) if failed else ""
