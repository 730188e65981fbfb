"""Keeps what is known of nodes up to date: Nodes, slurmd pods, Slurm's records, and map files."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog

from scheduler.core.mapping_strategies import OF_NODES, OF_SLURM, Strategy
from scheduler.kube.identity import may_read_nodes
from scheduler.kube.reflector import Reflector, Resource
from scheduler.kube.session import KubeSession
from scheduler.kube.slim import slimmed
from scheduler.kube.wire import NODES, PODS, Node, Pod
from scheduler.service.known_cluster import KnownCluster
from scheduler.service.outside import Outside
from scheduler.service.stores import Stores

log = structlog.get_logger(__name__)

# At the start, pods wait this long for Slurm's first list of nodes.
_FIRST_SECONDS: Final = 5.0


class NodeWatch:
    """The watches of Nodes and of slurmd pods, Slurm's list of nodes, and the map files."""

    def __init__(
        self, outside: Outside, session: KubeSession, stores: Stores, *, known: KnownCluster
    ) -> None:
        self._outside = outside
        self._settings = outside.settings
        self._session = session
        self._stores = stores
        self._known = known
        self._reflector = Reflector(
            session,
            Resource(name="nodes", path="/api/v1/nodes", decode=NODES),
            store=stores.nodes,
            on_change=known.nodes.node_changed,
            metrics=outside.metrics,
        )
        self._pod_reflectors = tuple(self._of_pods())

    @property
    def reflectors(self) -> tuple[Reflector[Node] | Reflector[Pod], ...]:
        """All reflectors that must have listed their objects before anything is decided."""
        return (self._reflector, *self._pod_reflectors)

    async def run(self) -> None:
        """Keep all of it up to date, for ever; end it by cancelling."""
        parts = [self._known.records.run(), self._count_kinds(), self._follow_nodes()]
        parts += [reflector.run() for reflector in self._pod_reflectors]
        parts += [file.follow(self._known.mapping_changed) for file in self._known.files.values()]
        async with asyncio.TaskGroup() as group:
            for part in parts:
                group.create_task(part, name="node part")

    async def first(self) -> None:
        """Wait until Slurm has listed its nodes, but no longer than `_FIRST_SECONDS`."""
        try:
            async with asyncio.timeout(_FIRST_SECONDS):
                await self._known.records.first_list.wait()
        except TimeoutError:
            log.warning("slurm's nodes are not known yet: nothing is submitted until they are")

    async def settled(self) -> None:
        """Return when everything that the mappings use has been listed once."""
        for reflector in self.reflectors:
            await reflector.synced.wait()
        if any(strategy.way in OF_SLURM for strategy in self._settings.strategies):
            await self._known.records.first_list.wait()

    async def _count_kinds(self) -> None:
        await self.settled()
        await self._known.kinds.run()

    async def _follow_nodes(self) -> None:
        may_read = await may_read_nodes(self._settings, self._outside.kube)
        self._outside.metrics.node_checks.set(may_read)
        if may_read:
            await self._reflector.run()
        self._say_what_is_not_checked()
        self._known.nodes.do_without()
        self._reflector.synced.set()

    def _say_what_is_not_checked(self) -> None:
        useless = [str(it) for it in self._settings.strategies if it.way in OF_NODES]
        log.warning(
            "kubernetes nodes are not read: pods are bound without a check that the Node exists, "
            "is ready and suits the pod",
            node_access=self._settings.node_access,
            mappings_without_effect=useless,
        )

    def _of_pods(self) -> Sequence[Reflector[Pod]]:
        return [
            Reflector(
                self._session,
                resource,
                store=joined.new(),
                on_change=self._pod_changed,
                metrics=self._outside.metrics,
            )
            for strategy, joined in self._stores.slurmd_pods.items()
            for resource in self._pods_of(strategy)
        ]

    def _pods_of(self, strategy: Strategy) -> Sequence[Resource[Pod]]:
        """The pods whose label names their slurmd."""
        pods = Resource(
            name="slurmd_pods",
            path="/api/v1/pods",
            decode=slimmed(PODS, prefixes=()),
            query={"labelSelector": strategy.key},
        )
        own = strategy.namespace
        return pods.within((own,) if own else self._settings.watch_namespace)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is None or new is None or _parts_for_mapping(old) != _parts_for_mapping(new):
            self._known.mapping_changed()


def _parts_for_mapping(pod: Pod) -> tuple[object, ...]:
    """The fields of a pod that a mapping uses."""
    going = pod.metadata.deletion_timestamp is not None
    return pod.spec.node_name, pod.spec.hostname, pod.status.phase, going
