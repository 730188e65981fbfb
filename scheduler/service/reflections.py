"""The caches of a process: the watches that fill them, and what happens when they change."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial

from scheduler.facts.caches import Caches
from scheduler.kube.identity import may_read_nodes
from scheduler.kube.neighbours import Neighbour
from scheduler.kube.reflector import Reflector, Resource
from scheduler.kube.session import KubeSession
from scheduler.kube.slim import slimmed
from scheduler.kube.store import Store
from scheduler.kube.wire import (
    IDENTIFIED,
    PODS,
    Claim,
    Identified,
    Node,
    PersistentVolume,
    Pod,
)
from scheduler.policy.rulebook import Rulebook
from scheduler.policy.rules import Policy
from scheduler.policy.watch import PolicyWatch
from scheduler.service.memory import Memory
from scheduler.service.neighbour_parts import NeighbourParts
from scheduler.service.node_parts import NodeParts
from scheduler.service.outside import Outside
from scheduler.service.volume_parts import VolumeParts

AnyReflector = (
    Reflector[Pod]
    | Reflector[Node]
    | Reflector[Identified]
    | Reflector[Neighbour]
    | Reflector[Claim]
    | Reflector[PersistentVolume]
)


class Reflections:
    """All caches. Raises SettingsError if the map file cannot be read."""

    def __init__(
        self, outside: Outside, memory: Memory, session: KubeSession, *, policy: Policy
    ) -> None:
        self._outside = outside
        self._memory = memory
        self._session = session
        self._pods = tuple(self._of_pods())
        self.nodes = self._node_parts()
        self.volumes = VolumeParts(outside, session, on_change=memory.news.volumes_changed)
        self.neighbours = NeighbourParts(
            outside, memory, session, nodes=self.nodes.nodes, volumes=self.volumes.volumes
        )
        namespaces = Store[Identified]()
        rulebook = Rulebook(prefixes=memory.rules.prefixes, policy=policy, namespaces=namespaces)
        self.policy = self._policy_watch(rulebook, namespaces)
        self.caches = Caches(
            pods=memory.pods,
            nodes=self.nodes.nodes,
            kinds=self.nodes.kinds,
            fit=self.neighbours.fit,
            volumes=self.volumes.volumes,
            rulebook=rulebook,
            doubt_pods=self._doubt_pods,
            mapped=self._mapped,
        )

    @property
    def all(self) -> tuple[AnyReflector, ...]:
        """All reflectors that must have listed their objects before anything is decided."""
        return (
            *self._pods,
            *self.nodes.reflectors,
            self.neighbours.reflector,
            *self.volumes.reflectors,
            *self.policy.needed(),
        )

    async def synced(self) -> None:
        """Return when all of them have listed their objects."""
        for reflector in self.all:
            await reflector.synced.wait()

    async def run_pods(self) -> None:
        """Watch our pods, for ever; cancel it to stop."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._pods:
                group.create_task(reflector.run(), name="reflector")

    async def _mapped(self) -> None:
        await self.synced()
        await self.nodes.settled()

    def _doubt_pods(self) -> None:
        for reflector in self._pods:
            reflector.doubt()

    def _of_pods(self) -> Iterator[Reflector[Pod]]:
        """One reflector for each namespace in scope, or a single one for all namespaces."""
        settings = self._outside.settings
        served = Resource(
            name="pods",
            path="/api/v1/pods",
            decode=slimmed(PODS, prefixes=self._memory.rules.prefixes),
            query={"fieldSelector": f"spec.schedulerName={settings.scheduler_name}"},
        )
        for resource in served.within(settings.watch_namespace):
            yield Reflector(
                self._session,
                resource,
                store=self._memory.pods.new(),
                on_change=self._memory.news.pod_changed,
                metrics=self._outside.metrics,
            )

    def _node_parts(self) -> NodeParts:
        outside = self._outside
        return NodeParts(
            outside.settings,
            self._session,
            outside.slurm,
            may_read=partial(may_read_nodes, outside.settings, outside.kube),
            metrics=outside.metrics,
            clock=outside.clock,
            on_change=self._nodes_changed,
        )

    def _nodes_changed(self) -> None:
        self._memory.news.nodes_changed(self.nodes.nodes.gpu_types)

    def _policy_watch(self, rulebook: Rulebook, namespaces: Store[Identified]) -> PolicyWatch:
        reflector = Reflector(
            self._session,
            Resource(name="namespaces", path="/api/v1/namespaces", decode=IDENTIFIED),
            store=namespaces,
            on_change=self._memory.news.namespace_changed,
            metrics=self._outside.metrics,
        )
        return PolicyWatch(
            self._outside.settings.policy_file,
            rulebook=rulebook,
            namespaces=reflector,
            on_change=self._memory.news.policy_changed,
            metrics=self._outside.metrics,
            gangs=self._outside.settings.gangs,
        )
