"""Notices pods that ended too soon, and tells of a new one how long it waits for that (succession).

What counts is how the end came about, as the pod itself says: Failed, or a disruption such as those
by Slurm. Nobody waits because a person or a controller has deleted a pod, or because one succeeded.
Nothing of it outlives the process: a next one begins to count anew.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import structlog

from scheduler.core.succession import (
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

# StatefulSets and DaemonSets say so which edition of their template a pod is of; of a Deployment
# each edition has a ReplicaSet of its own.
_REVISION: Final = "controller-revision-hash"


class Successors:
    """Keeps the succession of pods in step with what is seen of them."""

    def __init__(self, *, metrics: Metrics, clock: Callable[[], float]) -> None:
        self._succession = Succession()
        self._metrics = metrics
        self._clock = clock

    def saw(self, unit: Unit, pod: Pod) -> None:
        """The pod may have ended, and too soon: once it counts."""
        if unit.seen.over:
            return
        how = _disrupted(pod) or _failed(pod)
        if not how:
            return
        unit.seen.over = True
        controller = _controller_of(pod)
        tried_at = unit.asked.tried_at
        early = tried_at is not None and self._clock() - tried_at < TOO_SOON_SECONDS
        if controller is not None and early:
            self._note(unit, controller, how)

    def take(self, pod: Pod) -> Forerunner | None:
        """In whose place this new pod comes, None where in that of none that ended too soon."""
        controller = _controller_of(pod)
        return None if controller is None else self._succession.take(controller, self._clock())

    def _note(self, unit: Unit, controller: PodController, how: str) -> None:
        now = self._clock()
        times = 1 if unit.seen.forerunner is None else unit.seen.forerunner.times + 1
        pause = pause_seconds(times)
        pause *= 1.0 - 0.25 * random.random()  # noqa: S311 - parts those that failed together
        forerunner = Forerunner(
            times=times,
            noted_at=now,
            until=now + pause,
            told=_wait_message(
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
        f"The last {times} pods of {controller.called} in this one's place ended within "
        f"{TOO_SOON_SECONDS:.0f} s, at last {how}. Its job is asked for at {at}, "
        "or at once when this pod is deleted and another comes"
    )


def _controller_of(pod: Pod) -> PodController | None:
    owner = next((it for it in pod.metadata.owner_references if it.controller), None)
    if owner is None:
        return None
    revision = pod.metadata.labels.get(_REVISION, "")
    return PodController(owner.uid, revision, f"{owner.kind} {owner.name}")


def _disrupted(pod: Pod) -> str:
    found = pod.condition("DisruptionTarget")
    if found is None or found.status != "True":
        return ""
    return ": ".join(filter(None, (found.reason, found.message)))


def _failed(pod: Pod) -> str:
    """A deletion, too, makes a kubelet call a pod Failed."""
    failed = pod.status.phase == "Failed" and pod.metadata.deletion_timestamp is None
    return outcome_of(pod) if failed else ""
