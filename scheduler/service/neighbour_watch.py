"""Watches the pods on Nodes, and has waiting pods compared with them."""

from __future__ import annotations

import asyncio

import structlog

from scheduler.kube.identity import may_read_pods
from scheduler.kube.neighbours import NEIGHBOURS, Neighbour, NeighbourStore, on_nodes
from scheduler.kube.reflector import Reflector, Resource
from scheduler.kube.session import KubeSession
from scheduler.nodes.fit import NodeFit
from scheduler.service.changes import report_changes
from scheduler.service.known_cluster import own_left_out
from scheduler.service.news import News
from scheduler.service.outside import Outside

log = structlog.get_logger(__name__)


class NeighbourWatch:
    """The watch, and the surveyor of `fit`. It reports to the news when pods have come or gone."""

    def __init__(
        self,
        outside: Outside,
        session: KubeSession,
        store: NeighbourStore,
        *,
        fit: NodeFit,
        news: News,
    ) -> None:
        self._outside = outside
        self._fit = fit
        self._news = news
        self.reflector: Reflector[Neighbour] = Reflector(
            session,
            Resource(
                name="neighbours",
                path="/api/v1/pods",
                decode=NEIGHBOURS,
                query=on_nodes(but_those_of=own_left_out(outside.settings)),
            ),
            store=store,
            on_change=fit.changed,
            metrics=outside.metrics,
        )

    async def run(self) -> None:
        """Keep all of it up to date, for ever; end it by cancelling."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(), name="neighbours")
            changes = report_changes(self._fit.around.taken_change, self._news.room_changed)
            group.create_task(changes, name="changes")
            group.create_task(self._fit.surveyor.run(), name="surveyor")

    async def _follow(self) -> None:
        if not await may_read_pods(self._outside.settings, self._outside.kube):
            self._fit.do_without()
            self.reflector.synced.set()
            log.warning(
                "pods of other schedulers are not read: pods are bound without a check that their "
                "requests fit beside them",
                pod_access=self._outside.settings.pod_access,
            )
            await asyncio.Event().wait()
        await self.reflector.run()
