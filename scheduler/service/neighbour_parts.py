"""Builds the parts that know the pods on Nodes: their watch, and the judge."""

from __future__ import annotations

import asyncio

import structlog

from scheduler.kube.identity import may_read_pods
from scheduler.kube.neighbours import NEIGHBOURS, QUERY, Neighbour, NeighbourStore
from scheduler.kube.reflector import Reflector, Resource
from scheduler.kube.session import KubeSession
from scheduler.nodes.candidates import Nodes
from scheduler.nodes.fit import NodeFit
from scheduler.nodes.volumes import Volumes
from scheduler.service.changes import report_changes
from scheduler.service.memory import Memory
from scheduler.service.outside import Outside

log = structlog.get_logger(__name__)


class NeighbourParts:
    """All of them, connected. They report to the memory's news when pods have come or gone, and
    when a waiting pod has been compared with the Nodes.
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
        self.fit = NodeFit(
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
            on_change=self.fit.changed,
            metrics=outside.metrics,
        )

    async def run(self) -> None:
        """Keep all of it up to date, for ever; end it by cancelling."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(), name="neighbours")
            changes = report_changes(self._changes, self._news.room_changed)
            group.create_task(changes, name="changes")
            group.create_task(self.fit.surveyor.run(), name="surveyor")

    def _changes(self) -> int:
        return self.fit.around.changes

    async def _follow(self) -> None:
        if not await may_read_pods(self._outside.settings, self._outside.kube):
            self.fit.do_without()
            self.reflector.synced.set()
            log.warning(
                "pods of other schedulers are not read: pods are bound without a check that their "
                "requests fit beside them",
                pod_access=self._outside.settings.pod_access,
            )
            await asyncio.Event().wait()
        await self.reflector.run()
