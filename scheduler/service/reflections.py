"""The watches of a process, and what happens when one of them shows a change."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from scheduler.kube.neighbours import Neighbour
from scheduler.kube.reflector import Reflector, Resource
from scheduler.kube.session import KubeSession
from scheduler.kube.slim import slimmed
from scheduler.kube.store import Store
from scheduler.kube.wire import (
    NAMESPACES,
    PODS,
    Claim,
    Namespace,
    Node,
    PersistentVolume,
    Pod,
)
from scheduler.policy.rules import Policy
from scheduler.policy.watch import PolicyWatch
from scheduler.service.known_cluster import KnownCluster
from scheduler.service.memory import Memory
from scheduler.service.neighbour_watch import NeighbourWatch
from scheduler.service.node_watch import NodeWatch
from scheduler.service.outside import Outside
from scheduler.service.stores import stores_for
from scheduler.service.volume_watch import VolumeWatch

AnyReflector = (
    Reflector[Pod]
    | Reflector[Node]
    | Reflector[Namespace]
    | Reflector[Neighbour]
    | Reflector[Claim]
    | Reflector[PersistentVolume]
)


class Reflections:
    """All watches, and the caches that they fill. Raises SettingsError if the map file cannot be
    read.
    """

    def __init__(
        self, outside: Outside, memory: Memory, session: KubeSession, *, policy: Policy
    ) -> None:
        self._outside = outside
        self._memory = memory
        self._session = session
        stores = stores_for(outside.settings.strategies)
        self.known = known = KnownCluster(outside, memory, stores, policy=policy)
        self._pods = tuple(self._of_pods())
        self.nodes = NodeWatch(outside, session, stores, known=known)
        self.volumes = VolumeWatch(
            outside, session, stores.volumes, volumes=known.volumes, news=memory.news
        )
        self.neighbours = NeighbourWatch(
            outside, session, stores.neighbours, fit=known.fit, news=memory.news
        )
        self.policy = self._policy_watch(stores.namespaces)
        self.caches = known.caches(doubt_pods=self._doubt_pods, mapped=self._mapped)

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
                on_change=self.known.pod_changed,
                metrics=self._outside.metrics,
            )

    def _policy_watch(self, namespaces: Store[Namespace]) -> PolicyWatch:
        reflector = Reflector(
            self._session,
            Resource(name="namespaces", path="/api/v1/namespaces", decode=NAMESPACES),
            store=namespaces,
            on_change=self._memory.news.namespace_changed,
            metrics=self._outside.metrics,
        )
        return PolicyWatch(
            self._outside.settings.policy_file,
            rulebook=self.known.rulebook,
            namespaces=reflector,
            on_change=self._memory.news.policy_changed,
            metrics=self._outside.metrics,
            gangs=self._outside.settings.gangs,
        )
