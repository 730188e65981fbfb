"""The service between a tiny Slurm and a tiny Kubernetes: all of it but sockets and signals.

Everything runs in one event loop, so that a loop with virtual time can play hours.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final, cast

from annotations import Rules
from scheduler.core.brake import Limits
from scheduler.core.ignorable import Ignorable
from scheduler.core.mapping import Strategy, Way
from scheduler.core.naming import Owner
from scheduler.core.reasons import Reason
from scheduler.execute.bind import Binder
from scheduler.execute.brake import EndingBrake
from scheduler.execute.cancel import Release
from scheduler.execute.canceller import Canceller
from scheduler.execute.dispatch import Executor
from scheduler.execute.editing import EditPace
from scheduler.execute.evict import Evictor
from scheduler.execute.forms import Forms
from scheduler.execute.learn import Learner
from scheduler.execute.modes import Modes, Setting
from scheduler.execute.send import Sender
from scheduler.execute.submit import Submitter
from scheduler.execute.submitting import SubmitPace
from scheduler.execute.tell import Teller
from scheduler.execute.tools import Tools
from scheduler.execute.trial import Trial
from scheduler.execute.update import Updater
from scheduler.facts.gather import Look
from scheduler.facts.requirements import Requirements
from scheduler.facts.successors import Successors
from scheduler.hooks.heartbeat import Heartbeat
from scheduler.kube.api import KubeApi
from scheduler.kube.recorder import ObjectRef, Recorder
from scheduler.kube.wire import Claim, Pod
from scheduler.nodes import gpu_sharing
from scheduler.nodes.coverage import Coverage
from scheduler.nodes.fit import Nodes
from scheduler.nodes.gpu_sharing import GpuSharing
from scheduler.nodes.kinds import NodeKinds
from scheduler.nodes.loads import NodeLoads
from scheduler.nodes.map import NodeMap
from scheduler.nodes.presence import Presence
from scheduler.nodes.records import SlurmNodes
from scheduler.nodes.surroundings import Surroundings
from scheduler.nodes.volumes import Volumes
from scheduler.observe.metrics import Metrics
from scheduler.observe.wake import WakeCause
from scheduler.policy.rulebook import Rulebook
from scheduler.reconcile.controller import Controller, run_workers
from scheduler.reconcile.urgency import Level, Urgency
from scheduler.reconcile.workqueue import WorkQueue
from scheduler.slurm.census import Census
from scheduler.slurm.pulse import SlurmWatch
from scheduler.slurm.slurmctld import Slurmctld
from scheduler.state.units import Units
from slurmapi import (
    SlurmClient,
)
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_slurm import TinySlurm

MAPPING: Final = (Strategy(Way.NAME), Strategy(Way.COMMENT))
OWNER: Final = Owner("cluster-1", "slurm-scheduler")


@dataclass(frozen=True)
class Told:
    """One recorded Event."""

    uid: str
    type: str
    reason: str
    message: str


@dataclass
class TinyRecorder:
    """Keeps what is recorded."""

    events: list[Told] = field(default_factory=list)

    def record(
        self, ref: ObjectRef, *, type: str, reason: str, message: str, action: str = ""
    ) -> None:
        self.events.append(Told(ref.uid, type, reason, message))

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
        limits: Limits | None = None,
        ignored: Collection[Ignorable] = (),
        mode: Setting = "auto",
        gpu_sharing: gpu_sharing.Setting = "user",
        keeps_suspended: bool = False,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.slurm, self.kube = slurm, kube
        self.own_events: list[tuple[Reason, str]] = []
        self.recorder = recorder or TinyRecorder()
        self.metrics = metrics = Metrics()
        self.units = Units()
        urgency = Urgency(self.units, kube.store)
        self.queue = WorkQueue[str](
            metrics=metrics,
            first_seconds=0.05,
            levels=len(Level),
            level=urgency,
            tenant=urgency.tenant,
        )
        client = cast("SlurmClient", slurm)
        self.slurm_nodes = SlurmNodes(client, clock=loop.time, on_change=self._mapping_changed)
        self.nodes = Nodes(
            kube.nodes,
            nodemap=NodeMap(MAPPING, slurm=self.slurm_nodes, nodes=kube.nodes),
            slurm=self.slurm_nodes,
            on_change=self._nodes_changed,
        )
        self.canceller = Canceller(client)
        self.watch = SlurmWatch(
            client,
            units=self.units,
            on_change=self.queue.add,
            clock=loop.time,
            fast_seconds=0.25,
            idle_seconds=2.0,
            metrics=metrics,
        )
        self.census = Census(
            client,
            units=self.units,
            owner=OWNER,
            known_uids=kube.store,
            created=kube.created,
            in_scope=lambda _namespace: True,
            slurm_node=lambda unit: self.look.slurm_node(unit),  # noqa: PLW0108 - made later
            unexplained=lambda: self.look.unexplained(),  # noqa: PLW0108 - made later
            on_change=lambda key: self.queue.add(key, WakeCause.CENSUS),
            clock=loop.time,
            metrics=metrics,
        )
        kube.on_node_change = self.nodes.node_changed
        self.presence = Presence(binding=self.units.binding)
        self.coverage = Coverage(
            units=self.units,
            presence=self.presence,
            owner=OWNER,
            kube_node=self.nodes.kube_node,
            keeps_suspended=keeps_suspended,
            clock=loop.time,
            epoch=time.time,
        )
        self._shown: dict[str, Pod] = {}
        self.rulebook = Rulebook(prefixes=Rules().prefixes, namespaces=kube.namespaces)
        self.volumes = Volumes(kube.volumes)
        kube.on_claim_change = self._claim_changed
        self.surroundings = Surroundings(
            self.nodes,
            volumes=self.volumes,
            scheduler_name=OWNER.scheduler,
            seen=kube.neighbours,
            own=kube.store,
            binding=self.units.binding,
            clock=loop.time,
            on_ready=lambda key: self.queue.add(key, WakeCause.NODES),
        )
        for found in kube.neighbours:
            self.surroundings.changed(None, found)
        kube.on_neighbour_change = self.surroundings.changed
        self.requirements = Requirements(
            self.surroundings,
            self.volumes,
            rulebook=self.rulebook,
            ignored=ignored,
            devices=Rules().device_resources,
        )
        self.look = Look(
            pods=kube.store,
            nodes=self.nodes,
            surroundings=self.surroundings,
            requirements=self.requirements,
            units=self.units,
            owner=OWNER,
            rules=Rules(),
            rulebook=self.rulebook,
            clock=loop.time,
            looked_through=lambda: self.census.completed_at is not None,
            covered=self.census.covers,
            coverage=self.coverage,
            successors=Successors(metrics=metrics, clock=loop.time),
            min_job_age=lambda: self.slurmctld.min_job_age,
            accounting_storage=lambda: self.slurmctld.accounting_storage,
            evict_suspended=not keeps_suspended,
        )
        self.teller = teller = Teller(
            cast("KubeApi", kube),
            cast("Recorder", self.recorder),
            condition_seconds=10.0,
            unschedulable_reason=unschedulable_reason,
            metrics=metrics,
            clock=loop.time,
        )
        self.slurmctld = Slurmctld(
            client,
            failed_at=lambda: self.watch.failed_at,
            warn=lambda reason, message: self.own_events.append((reason, message)),
            clock=loop.time,
        )
        self.loads = NodeLoads(client, clock=loop.time)
        self.brake = EndingBrake(
            self.slurmctld,
            loads=self.loads,
            limits=limits or Limits(),
            units=self.units,
            pods=kube.store,
            tell=teller.warn,
            warn=lambda reason, message: self.own_events.append((reason, message)),
            metrics=metrics,
            clock=loop.time,
        )
        self.heartbeat = Heartbeat(
            listens=True, prolog=lambda: self.slurmctld.prolog, clock=loop.time
        )
        kinds = NodeKinds(client, self.slurm_nodes, may_serve=self.nodes.may_serve, clock=loop.time)
        self.modes = Modes(
            mode,
            client,
            kinds=kinds,
            heartbeat=self.heartbeat,
            slurmctld=self.slurmctld,
        )
        self.submits = SubmitPace(teller, metrics=metrics, clock=loop.time)
        sharing = GpuSharing(gpu_sharing, kinds=kinds)
        tools = Tools(
            kube=cast("KubeApi", kube),
            slurm=client,
            units=self.units,
            teller=teller,
            owner=OWNER,
            metrics=metrics,
            clock=loop.time,
        )
        edits = EditPace(
            teller,
            version=lambda: self.rulebook.version,
            metrics=metrics,
            clock=loop.time,
        )
        release = Release(tools, self.canceller, census=self.census, doubt_pods=kube.list_again)
        self.executor = Executor(
            tools,
            submitter=Submitter(
                tools,
                Sender(
                    client,
                    owner=OWNER,
                    modes=self.modes,
                    gpu_sharing=sharing,
                    environment=lambda _unit: {},
                ),
                submits=self.submits,
                edits=edits,
                release=release,
                watch=self.watch,
                census=self.census,
            ),
            updater=Updater(
                tools,
                trial=Trial(client, owner=OWNER, modes=self.modes),
                forms=Forms(self.modes, sharing, kinds=kinds),
                edits=edits,
                release=release,
            ),
            binder=Binder(tools, claim=self.look.claim),
            release=release,
            learner=Learner(tools, nodes=self.nodes, census=self.census, loads=self.loads),
            evictor=Evictor(
                cast("KubeApi", kube),
                brake=self.brake,
                budget_seconds=0.0,
                tell=teller.event,
                metrics=metrics,
                clock=loop.time,
            ),
        )
        self.controller = Controller(
            queue=self.queue,
            look=self.look,
            executor=self.executor,
            teller=teller,
            metrics=metrics,
            clock=loop.time,
        )
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Run all parts; a former process' view of the pods is what the watch lists first."""
        self.coverage.begin()
        self.kube.on_change = self._pod_changed
        for pod in self.kube.store:
            self._pod_changed(pod.metadata.uid)
        parts = (
            self.watch.run(),
            self.census.run(),
            self.canceller.run(),
            self.slurm_nodes.run(),
            self.brake.run(),
            self.slurmctld.run(),
            self.surroundings.surveyor.run(),
        )
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(part) for part in parts]
        self._tasks.append(loop.create_task(run_workers(self.controller, 6)))
        for uid in self.kube.pods:
            self.queue.add(uid, WakeCause.START)

    def _pod_changed(self, uid: str) -> None:
        old, new = self._shown.pop(uid, None), self.kube.store.get(uid)
        if new is not None:
            self._shown[uid] = new
            self.look.parting(new)
        self.presence.changed(old, new)
        self.queue.add(uid, WakeCause.WATCH)

    def _mapping_changed(self) -> None:
        self.nodes.mapping_changed()

    def _claim_changed(self, old: Claim | None, new: Claim | None) -> None:
        self.volumes.claim_changed(old, new)
        self._nodes_changed()

    def _nodes_changed(self) -> None:
        for unit in self.units:
            self.queue.add(unit.key, WakeCause.NODES)

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
