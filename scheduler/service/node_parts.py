"""Builds the parts that know nodes: watches of Nodes and slurmd pods, Slurm's records, mapping."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

import structlog

from scheduler.config.settings import Settings, SettingsError
from scheduler.core.node_mapping import OF_NODES, OF_SLURM, Strategy, Way
from scheduler.kube.reflector import Reflector, Resource
from scheduler.kube.session import KubeSession
from scheduler.kube.slim import slimmed
from scheduler.kube.store import Joined, Store
from scheduler.kube.wire import NODES, PODS, Node, Pod
from scheduler.nodes.candidates import Nodes
from scheduler.nodes.map import NodeMap
from scheduler.nodes.map_file import MapFile, MapFileError
from scheduler.nodes.node_kinds import NodeKinds
from scheduler.nodes.records import SlurmNodes
from scheduler.observe.metrics import Metrics
from slurmapi import SlurmClient

log = structlog.get_logger(__name__)

# At the start, pods wait this long for Slurm's first list of nodes.
_FIRST_SECONDS: Final = 5.0


class NodeParts:
    """The parts that know nodes, connected. Once the API server answers, `may_read` returns whether
    Nodes can be read.

    Raises SettingsError for a map file that cannot be read.
    """

    def __init__(
        self,
        settings: Settings,
        kube: KubeSession,
        slurm: SlurmClient,
        *,
        may_read: Callable[[], Awaitable[bool]],
        metrics: Metrics,
        clock: Callable[[], float],
        on_change: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._kube = kube
        self._may_read = may_read
        self._metrics = metrics
        strategies = settings.strategies
        store = Store[Node]()
        self.records = SlurmNodes(slurm, clock=clock, on_change=self._changed)
        self._files = {it: _map_file(it) for it in strategies if it.way is Way.FILE}
        self._pods = {it: Joined[Pod]() for it in strategies if it.way is Way.SLURMD_POD}
        self._map = NodeMap(
            strategies, slurm=self.records, nodes=store, pods=self._pods, files=self._files
        )
        self.nodes = Nodes(store, nodemap=self._map, slurm=self.records, on_change=on_change)
        self.kinds = NodeKinds(slurm, self.records, may_serve=self.nodes.may_serve, clock=clock)
        self._reflector = Reflector(
            kube,
            Resource(name="nodes", path="/api/v1/nodes", decode=NODES),
            store=store,
            on_change=self.nodes.node_changed,
            metrics=metrics,
        )
        self._pod_reflectors = tuple(self._of_pods())

    @property
    def reflectors(self) -> tuple[Reflector[Node] | Reflector[Pod], ...]:
        """All reflectors that must have listed their objects before anything is decided."""
        return (self._reflector, *self._pod_reflectors)

    async def run(self) -> None:
        """Keep all of it up to date, for ever; end it by cancelling."""
        parts = [self.records.run(), self._follow_nodes()]
        parts += [reflector.run() for reflector in self._pod_reflectors]
        parts += [file.follow(self._changed) for file in self._files.values()]
        async with asyncio.TaskGroup() as group:
            for part in parts:
                group.create_task(part, name="node part")

    async def first(self) -> None:
        """Wait until Slurm has listed its nodes, but no longer than `_FIRST_SECONDS`."""
        try:
            async with asyncio.timeout(_FIRST_SECONDS):
                await self.records.first_list.wait()
        except TimeoutError:
            log.warning("slurm's nodes are not known yet: nothing is submitted until they are")

    async def settled(self) -> None:
        """Return when everything that the mappings use has been listed once."""
        for reflector in self.reflectors:
            await reflector.synced.wait()
        if any(strategy.way in OF_SLURM for strategy in self._settings.strategies):
            await self.records.first_list.wait()

    async def _follow_nodes(self) -> None:
        may_read = await self._may_read()
        self._metrics.node_checks.set(may_read)
        if may_read:
            await self._reflector.run()
        self._say_what_is_not_checked()
        self.nodes.do_without()
        self._reflector.synced.set()

    def _say_what_is_not_checked(self) -> None:
        useless = [str(it) for it in self._settings.strategies if it.way in OF_NODES]
        log.warning(
            "kubernetes nodes are not read: pods are bound without a check that the Node exists, "
            "is ready and suits the pod",
            node_access=self._settings.node_access,
            mappings_without_effect=useless,
        )

    def _changed(self) -> None:
        self.nodes.mapping_changed()

    def _of_pods(self) -> Sequence[Reflector[Pod]]:
        return [
            Reflector(
                self._kube,
                resource,
                store=joined.new(),
                on_change=self._pod_changed,
                metrics=self._metrics,
            )
            for strategy, joined in self._pods.items()
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
            self._changed()


def _map_file(strategy: Strategy) -> MapFile:
    try:
        return MapFile(Path(strategy.key))
    except MapFileError as error:
        raise SettingsError(f"--node-mapping: {error}") from None


def _parts_for_mapping(pod: Pod) -> tuple[object, ...]:
    """The fields of a pod that a mapping uses."""
    going = pod.metadata.deletion_timestamp is not None
    return pod.spec.node_name, pod.spec.hostname, pod.status.phase, going
