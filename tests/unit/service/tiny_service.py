"""The service between a tiny Slurm and a tiny Kubernetes: all of it but sockets and signals.

Everything runs in one event loop, so that a loop with virtual time can play hours.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, cast

from annotations import Rules
from scheduler.brake import EndingBrake
from scheduler.canceller import Canceller
from scheduler.census import Census
from scheduler.controller import Controller, run_workers
from scheduler.core.brake import Limits
from scheduler.core.mapping import Strategy, Way
from scheduler.core.naming import Owner
from scheduler.core.reasons import Reason
from scheduler.execute import Executor
from scheduler.kube.api import KubeApi
from scheduler.kube.recorder import ObjectRef, Recorder
from scheduler.look import Look
from scheduler.metrics import Metrics
from scheduler.nodemap import NodeMap
from scheduler.nodes import Nodes
from scheduler.policy.rulebook import Rulebook
from scheduler.slurmnodes import SlurmNodes
from scheduler.slurmwatch import SlurmWatch
from scheduler.successors import Successors
from scheduler.teller import Teller
from scheduler.units import Units
from scheduler.workqueue import WorkQueue
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
        left_over: Callable[[str, Iterable[str]], int] = lambda _uid, _nodes: 0,
        limits: Limits | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.slurm, self.kube = slurm, kube
        self.own_events: list[tuple[Reason, str]] = []
        self.recorder = recorder or TinyRecorder()
        self.metrics = metrics = Metrics()
        self.units = Units()
        self.queue = WorkQueue[str](metrics=metrics, first_seconds=0.05)
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
            on_change=self.queue.add,
            clock=loop.time,
            metrics=metrics,
        )
        kube.on_node_change = self.nodes.node_changed
        self.rulebook = Rulebook(prefixes=Rules().prefixes, namespaces=kube.namespaces)
        self.look = Look(
            pods=kube.store,
            nodes=self.nodes,
            units=self.units,
            owner=OWNER,
            rules=Rules(),
            rulebook=self.rulebook,
            clock=loop.time,
            looked_through=lambda: self.census.completed_at is not None,
            covered=self.census.covers,
            left_over=left_over,
            successors=Successors(metrics=metrics, clock=loop.time),
        )
        self.teller = teller = Teller(
            cast("KubeApi", kube),
            cast("Recorder", self.recorder),
            condition_seconds=10.0,
            unschedulable_reason=unschedulable_reason,
            metrics=metrics,
            clock=loop.time,
        )
        self.brake = EndingBrake(
            client,
            limits=limits or Limits(),
            units=self.units,
            pods=kube.store,
            tell=teller.warn,
            warn=lambda reason, message: self.own_events.append((reason, message)),
            metrics=metrics,
            clock=loop.time,
        )
        self.executor = Executor(
            kube=cast("KubeApi", kube),
            slurm=client,
            canceller=self.canceller,
            units=self.units,
            nodes=self.nodes,
            teller=teller,
            owner=OWNER,
            placeholder_mode="auto",
            watch=self.watch,
            census=self.census,
            job_environment=lambda _unit: {},
            metrics=metrics,
            clock=loop.time,
            doubt_pods=kube.list_again,
            brake=self.brake,
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
        self.kube.on_change = self.queue.add
        parts = (
            self.watch.run(),
            self.census.run(),
            self.canceller.run(),
            self.slurm_nodes.run(),
            self.brake.run(),
        )
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(part) for part in parts]
        self._tasks.append(loop.create_task(run_workers(self.controller, 4)))
        for uid in self.kube.pods:
            self.queue.add(uid)

    def _mapping_changed(self) -> None:
        self.nodes.mapping_changed()

    def _nodes_changed(self) -> None:
        for unit in self.units:
            self.queue.add(unit.key)

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
