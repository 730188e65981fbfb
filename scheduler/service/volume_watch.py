"""Watches the volumes and claims of pods."""

from __future__ import annotations

import asyncio

import structlog

from scheduler.kube.identity import may_read_volumes
from scheduler.kube.reflector import Reflector, Resource
from scheduler.kube.session import KubeSession
from scheduler.kube.store import Joined, Store
from scheduler.kube.wire import CLAIMS, VOLUMES, Claim, PersistentVolume
from scheduler.nodes.volumes import Volumes
from scheduler.service.changes import report_changes
from scheduler.service.news import News
from scheduler.service.outside import Outside

log = structlog.get_logger(__name__)


class VolumeWatch:
    """The watches. They report to the news when claims or volumes have changed."""

    def __init__(
        self,
        outside: Outside,
        session: KubeSession,
        store: Store[PersistentVolume],
        *,
        volumes: Volumes,
        news: News,
    ) -> None:
        self._outside = outside
        self._volumes = volumes
        self._news = news
        self._volume_reflector = Reflector(
            session,
            Resource(name="volumes", path="/api/v1/persistentvolumes", decode=VOLUMES),
            store=store,
            on_change=volumes.volume_changed,
            metrics=outside.metrics,
        )
        claims = Joined[Claim]()
        of_claims = Resource(name="claims", path="/api/v1/persistentvolumeclaims", decode=CLAIMS)
        self._claim_reflectors = tuple(
            Reflector(
                session,
                resource,
                store=claims.new(),
                on_change=volumes.claim_changed,
                metrics=outside.metrics,
            )
            for resource in of_claims.within(outside.settings.watch_namespace)
        )

    @property
    def reflectors(self) -> tuple[Reflector[Claim] | Reflector[PersistentVolume], ...]:
        """All reflectors that must have listed their objects before anything is decided."""
        return (self._volume_reflector, *self._claim_reflectors)

    async def run(self) -> None:
        """Keep all of it up to date, for ever; end it by cancelling."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(), name="volumes")
            changes = report_changes(self._volumes.taken_changes, self._news.volumes_changed)
            group.create_task(changes, name="changes")

    async def _follow(self) -> None:
        if not await may_read_volumes(self._outside.settings, self._outside.kube):
            self._volumes.do_without()
            for reflector in self.reflectors:
                reflector.synced.set()
            log.warning(
                "persistent volumes are not read: pods with claims are refused, unless "
                "--ignored-requirements lets them pass",
                volume_access=self._outside.settings.volume_access,
            )
            await asyncio.Event().wait()
        async with asyncio.TaskGroup() as group:
            for reflector in self.reflectors:
                group.create_task(reflector.run(), name="reflector")
