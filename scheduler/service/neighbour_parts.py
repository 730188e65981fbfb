"""Builds the parts that know the pods on Nodes: their watch, and the judge."""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from scheduler.kube.identity import may_read_pods
from scheduler.kube.neighbours import NEIGHBOURS, QUERY, Neighbour, NeighbourStore
from scheduler.kube.reflector import Reflector, Resource
from scheduler.kube.session import KubeSession
from scheduler.nodes.candidates import Nodes
from scheduler.nodes.surroundings import Surroundings
from scheduler.nodes.volumes import Volumes
from scheduler.service.memory import Memory
from scheduler.service.outside import Outside

log = structlog.get_logger(__name__)

# How often we check whether pods have come or gone. After such a change a pod that no Node could
# take may fit one, so all pods that wait for this are looked at again.
_AGAIN_SECONDS: Final = 3.0


class NeighbourParts:
    """All of them, connected. The memory's news are told when pods have come or gone, and when a
    pod that waited to be compared with the Nodes has been compared.
    """

    def __init__(
        self,
        outside: Outside,
        memory: Memory,
        session: KubeSession,
        *,
        nodes: Nodes,
        volumes: Volumes,
    ) -> None:
        self._outside = outside
        self._news = memory.news
        store = NeighbourStore()
        self.surroundings = Surroundings(
            nodes,
            volumes=volumes,
            scheduler_name=outside.settings.scheduler_name,
            seen=store,
            own=memory.pods,
            binding=memory.units.binding,
            clock=outside.clock,
            on_ready=memory.news.compared,
        )
        self.reflector: Reflector[Neighbour] = Reflector(
            session,
            Resource(name="neighbours", path="/api/v1/pods", decode=NEIGHBOURS, query=QUERY),
            store=store,
            on_change=self.surroundings.changed,
            metrics=outside.metrics,
        )

    async def run(self) -> None:
        """Keep all of it up to date, for ever; end it by cancelling."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(), name="neighbours")
            group.create_task(self._announce(), name="announce")
            group.create_task(self.surroundings.surveyor.run(), name="surveyor")

    async def _follow(self) -> None:
        if not await may_read_pods(self._outside.settings, self._outside.kube):
            self.surroundings.do_without()
            self.reflector.synced.set()
            log.warning(
                "pods of other schedulers are not read: pods are bound without a check that their "
                "requests fit beside them",
                pod_access=self._outside.settings.pod_access,
            )
            await asyncio.Event().wait()
        await self.reflector.run()

    async def _announce(self) -> None:
        """Report changes at intervals rather than singly, because pods come and go all the time."""
        changes = 0
        while True:
            await asyncio.sleep(_AGAIN_SECONDS)
            former, changes = changes, self.surroundings.around.changes
            if former != changes:
                self._news.room_changed()
