"""Builds the parts that know the pods on Nodes and the volumes: their watches, and the judge."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import structlog

from scheduler.config.settings import Settings
from scheduler.kube.neighbours import NEIGHBOURS, QUERY, Neighbour, NeighbourStore
from scheduler.kube.reflector import Reflector, Resource
from scheduler.kube.session import KubeSession
from scheduler.kube.store import Joined, Store
from scheduler.kube.wire import CLAIMS, VOLUMES, Claim, PersistentVolume, Pod
from scheduler.nodes.surroundings import Surroundings
from scheduler.nodes.volumes import Volumes
from scheduler.observe.metrics import Metrics
from scheduler.service.node_parts import NodeParts

log = structlog.get_logger(__name__)

# How often we check whether pods have come or gone, or volumes have changed. After such a change a
# pod that no Node could take may fit one, so all pods that wait for this are looked at again.
_AGAIN_SECONDS: Final = 3.0


class NeighbourParts:
    """All of them, connected. Once the API server answers, `may_read` returns whether pods of all
    namespaces can be read, and `may_read_volumes` whether volumes can. `on_change` is called when
    pods have come or gone, and `on_volumes` when claims or volumes have changed. `on_ready` is
    called with the uid of a pod that waited to be compared with the Nodes.
    """

    def __init__(
        self,
        settings: Settings,
        kube: KubeSession,
        *,
        may_read: Callable[[], Awaitable[bool]],
        may_read_volumes: Callable[[], Awaitable[bool]],
        nodes: NodeParts,
        own: Joined[Pod],
        binding: Mapping[str, str],
        on_change: Callable[[], None],
        on_volumes: Callable[[], None],
        on_ready: Callable[[str], None],
        metrics: Metrics,
        clock: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._may_read, self._may_read_volumes = may_read, may_read_volumes
        self._on_change, self._on_volumes = on_change, on_volumes
        store = NeighbourStore()
        claims, volumes = Joined[Claim](), Store[PersistentVolume]()
        self.volumes = Volumes(volumes)
        self.surroundings = Surroundings(
            nodes.nodes,
            volumes=self.volumes,
            scheduler_name=settings.scheduler_name,
            seen=store,
            own=own,
            binding=binding,
            clock=clock,
            on_ready=on_ready,
        )
        self.reflector = Reflector(
            kube,
            Resource(name="neighbours", path="/api/v1/pods", decode=NEIGHBOURS, query=QUERY),
            store=store,
            on_change=self.surroundings.changed,
            metrics=metrics,
        )
        self._volume_reflector = Reflector(
            kube,
            Resource(name="volumes", path="/api/v1/persistentvolumes", decode=VOLUMES),
            store=volumes,
            on_change=self.volumes.volume_changed,
            metrics=metrics,
        )
        of_claims = Resource(name="claims", path="/api/v1/persistentvolumeclaims", decode=CLAIMS)
        self._claim_reflectors = tuple(
            Reflector(
                kube,
                resource,
                store=claims.new(),
                on_change=self.volumes.claim_changed,
                metrics=metrics,
            )
            for resource in of_claims.within(settings.watch_namespace)
        )

    @property
    def reflectors(
        self,
    ) -> tuple[Reflector[Neighbour] | Reflector[Claim] | Reflector[PersistentVolume], ...]:
        """All reflectors that must have listed their objects before anything is decided."""
        return (self.reflector, self._volume_reflector, *self._claim_reflectors)

    async def run(self) -> None:
        """Keep all of it up to date, for ever; end it by cancelling."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_pods(), name="neighbours")
            group.create_task(self._follow_volumes(), name="volumes")
            group.create_task(self._announce(), name="announce")
            group.create_task(self.surroundings.surveyor.run(), name="surveyor")

    async def _follow_volumes(self) -> None:
        reflectors: list[Reflector[Claim] | Reflector[PersistentVolume]]
        reflectors = [self._volume_reflector, *self._claim_reflectors]
        if not await self._may_read_volumes():
            self.volumes.do_without()
            for reflector in reflectors:
                reflector.synced.set()
            log.warning(
                "persistent volumes are not read: pods with claims are refused, unless "
                "--ignored-requirements lets them pass",
                volume_access=self._settings.volume_access,
            )
            await asyncio.Event().wait()
        async with asyncio.TaskGroup() as group:
            for reflector in reflectors:
                group.create_task(reflector.run(), name="reflector")

    async def _follow_pods(self) -> None:
        if not await self._may_read():
            self.surroundings.do_without()
            self.reflector.synced.set()
            self._say_what_is_not_checked()
            await asyncio.Event().wait()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.reflector.run(), name="reflector")

    async def _announce(self) -> None:
        """Report changes at intervals rather than singly, because pods come and go all the time."""
        pods = volumes = 0
        while True:
            await asyncio.sleep(_AGAIN_SECONDS)
            former, pods = pods, self.surroundings.around.changes
            if former != pods:
                self._on_change()
            former, volumes = volumes, self.volumes.changes
            if former != volumes:
                self._on_volumes()

    def _say_what_is_not_checked(self) -> None:
        log.warning(
            "pods of other schedulers are not read: pods are bound without a check that their "
            "requests fit beside them",
            pod_access=self._settings.pod_access,
        )
