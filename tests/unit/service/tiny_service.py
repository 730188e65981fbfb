"""The service between a tiny Slurm and a tiny Kubernetes: all of it but sockets and signals.

Everything runs in one event loop, so that a loop with virtual time can play hours.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final, cast

from scheduler.config.settings import Settings
from scheduler.core.brake import BrakeLimits
from scheduler.core.event_reasons import Reason
from scheduler.core.ignorable import Ignorable
from scheduler.core.owner_tag import Owner
from scheduler.execute.placeholder_mode import ModeSetting
from scheduler.facts import grace_rule
from scheduler.kube.api import KubeApi
from scheduler.kube.recorder import ObjectRef, Recorder
from scheduler.kube.wire import Claim, Pod
from scheduler.nodes import gpu_sharing
from scheduler.observe.metrics import Metrics
from scheduler.reconcile.controller import run_workers
from scheduler.service.changes import report_changes
from scheduler.service.known_cluster import KnownCluster
from scheduler.service.memory import Memory
from scheduler.service.outside import Outside
from scheduler.service.parts import Parts
from scheduler.service.stores import Stores
from slurmapi import SlurmClient
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_slurm import TinySlurm

OWNER: Final = Owner("cluster-1", "slurm-scheduler")


@dataclass(frozen=True)
class RecordedEvent:
    """One recorded Event."""

    uid: str
    type: str
    reason: str
    message: str


@dataclass
class TinyRecorder:
    """Keeps what is recorded."""

    events: list[RecordedEvent] = field(default_factory=list)

    def record(
        self, ref: ObjectRef, *, type: str, reason: str, message: str, action: str = ""
    ) -> None:
        self.events.append(RecordedEvent(ref.uid, type, reason, message))

    def reasons(self, uid: str | None = None) -> list[str]:
        return [event.reason for event in self.events if uid in {None, event.uid}]


class Service:
    """One process of ours between the two: everything but sockets and signal handlers."""

    def __init__(
        self,
        slurm: TinySlurm,
        kube: TinyKube,
        *,
        recorder: TinyRecorder | None = None,
        unschedulable_reason: str = "",
        limits: BrakeLimits | None = None,
        ignored: Collection[Ignorable] = (),
        mode: ModeSetting = "auto",
        grace_policy: grace_rule.GraceSetting = "auto",
        gpu_sharing: gpu_sharing.SharingSetting = "user",
        keeps_suspended: bool = False,
        lost_slot: str = "wait",
        pods_per_node: int = 1,
    ) -> None:
        loop = asyncio.get_running_loop()
        limits = limits or BrakeLimits()
        settings = Settings.model_validate(
            {
                "unschedulable-reason": unschedulable_reason,
                "placeholder-mode": mode,
                "grace-policy": grace_policy,
                "gpu-node-sharing": gpu_sharing,
                "suspend-policy": "keep" if keeps_suspended else "evict",
                "ignored-requirements": tuple(ignored),
                "gang-lost-slot": lost_slot,
                "pods-per-node": pods_per_node,
                "brake-share": limits.share,
                "brake-minimum": limits.minimum,
                "brake-window": limits.window_seconds,
                "brake-pause": limits.pause_seconds,
                # The hooks API is on, and never opened.
                "hooks-api-token-file": "/nowhere/token",
            }
        )
        self.slurm, self.kube = slurm, kube
        self.own_events: list[tuple[Reason, str]] = []
        self.recorder = recorder or TinyRecorder()
        self.metrics = Metrics()
        outside = Outside(
            settings=settings,
            kube=cast("KubeApi", kube),
            slurm=cast("SlurmClient", slurm),
            recorder=cast("Recorder", self.recorder),
            owner=OWNER,
            metrics=self.metrics,
            clock=loop.time,
            leads=lambda: True,
            warn=lambda reason, message: self.own_events.append((reason, message)),
            on_pulse=lambda _error: None,
        )
        self.memory = Memory(outside, kube.store)
        self.units, self.queue = self.memory.units, self.memory.queue
        self.presence = self.memory.presence
        self.known = known = self._known(outside)
        self.slurm_nodes, self.nodes = known.records, known.nodes
        self.fit, self.volumes = known.fit, known.volumes
        self.rulebook = known.rulebook
        caches = known.caches(doubt_pods=kube.list_again, mapped=_mapped)
        self.parts = parts = Parts(outside, self.memory, caches)
        self.canceller, self.pulse, self.census = parts.canceller, parts.pulse, parts.census
        self.starts = parts.starts
        self.slurmctld, self.brake, self.modes = parts.slurmctld, parts.brake, parts.modes
        self.gatherer, self.teller, self.executor = parts.gatherer, parts.teller, parts.executor
        self.reader, self.places, self.newcomers = parts.reader, parts.places, parts.newcomers
        self.heartbeat, self.submits = parts.hooks.heartbeat, parts.submits
        self.controller = parts.controller
        self._shown: dict[str, Pod] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def _known(self, outside: Outside) -> KnownCluster:
        """What is known of the tiny Kubernetes, whose stores stand in the place of watches."""
        kube = self.kube
        known = KnownCluster(
            outside,
            self.memory,
            Stores(
                nodes=kube.nodes,
                neighbours=kube.neighbours,
                volumes=kube.volumes,
                namespaces=kube.namespaces,
            ),
        )
        for found in kube.neighbours:
            known.fit.changed(None, found)
        kube.on_node_change = known.nodes.node_changed
        kube.on_neighbour_change = known.fit.changed
        kube.on_claim_change = self._claim_changed
        return known

    def start(self) -> None:
        """Run all parts; a former process' view of the pods is what the watch lists first."""
        self.kube.on_change = self._pod_changed
        for pod in self.kube.store:
            self._pod_changed(pod.metadata.uid)
        parts = (
            self._lead(),
            self.memory.news.rounds.run(),
            self.pulse.run(),
            self.starts.run(),
            self.census.run(),
            self.canceller.run(),
            self.slurm_nodes.run(),
            self.known.kinds.run(),
            self.brake.run(),
            self.slurmctld.run(),
            self.fit.surveyor.run(),
            report_changes(self.fit.around.taken_change, self.memory.news.room_changed),
        )
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(part) for part in parts]

    async def _lead(self) -> None:
        await self.parts.take_over()
        await run_workers(self.controller, 6)

    async def bound(self, uid: str, **more: Any) -> int:
        """Create a pod, and let Slurm start its job on n1; returns the job once the pod is bound.
        `more` as in `TinyKube.create`.
        """
        self.kube.create(uid, **more)
        await asyncio.sleep(5)
        job_id = max(self.slurm.jobs)
        self.slurm.start(job_id, node="n1")
        await asyncio.sleep(5)
        assert (uid, "n1") in self.kube.bindings
        return job_id

    def _pod_changed(self, uid: str) -> None:
        old, new = self._shown.pop(uid, None), self.kube.store.get(uid)
        if new is not None:
            self._shown[uid] = new
        self.known.pod_changed(old, new)

    def _claim_changed(self, old: Claim | None, new: Claim | None) -> None:
        self.volumes.claim_changed(old, new)
        self.memory.news.volumes_changed(self.volumes.taken_changes())

    def job_of(self, uid: str) -> int | None:
        """The job of a pod's unit, None while it has none."""
        unit = self.units.get(uid)
        return None if unit is None or unit.job is None else unit.job.job_id

    def acted(self, action: str, outcome: str) -> float:
        """How often this action had this outcome."""
        return self.metric("actions_total", action=action, outcome=outcome)

    def metric(self, name: str, **labels: str) -> float:
        """The value of a metric, named without our prefix; 0 before it was ever counted."""
        return self.metrics.registry.get_sample_value(f"slurm_pod_scheduler_{name}", labels) or 0.0

    async def kill(self) -> None:
        """As SIGKILL: nothing is finished, nothing is remembered."""
        self.kube.on_change = lambda _uid: None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def unharmed(self) -> None:
        """AssertionError with what ended a part that must not end."""
        for task in self._tasks:
            assert not task.done(), f"a part has ended: {task}"


async def _mapped() -> None:
    """All is known from the start."""
