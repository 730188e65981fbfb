"""Builds the parts that know the cluster, from the stores that the watches fill. `App`, the tests
and a benchmark share it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from scheduler.config.settings import Settings, SettingsError
from scheduler.core.mapping_strategies import Strategy, Way
from scheduler.facts.caches import Caches
from scheduler.kube.wire import Pod
from scheduler.nodes.candidates import Nodes
from scheduler.nodes.fit import NodeFit
from scheduler.nodes.map_file import MapFile, MapFileError
from scheduler.nodes.node_kinds import NodeKinds
from scheduler.nodes.node_map import NodeMap
from scheduler.nodes.records import SlurmNodes
from scheduler.nodes.volumes import Volumes
from scheduler.policy.rulebook import Rulebook
from scheduler.policy.rules import NO_POLICY, Policy
from scheduler.service.memory import Memory
from scheduler.service.outside import Outside
from scheduler.service.stores import Stores


class KnownCluster:
    """The parts, connected. They report to the memory's news when Nodes or their mapping have
    changed, and when a waiting pod has been compared with the Nodes.

    Raises SettingsError for a map file that cannot be read.
    """

    def __init__(
        self, outside: Outside, memory: Memory, stores: Stores, *, policy: Policy = NO_POLICY
    ) -> None:
        self._memory = memory
        strategies = outside.settings.strategies
        self.files = {it: _map_file(it) for it in strategies if it.way is Way.FILE}
        self.records = SlurmNodes(
            outside.slurm, clock=outside.clock, on_change=self.mapping_changed
        )
        self.nodes = Nodes(
            stores.nodes,
            nodemap=NodeMap(
                strategies,
                slurm=self.records,
                nodes=stores.nodes,
                pods=stores.slurmd_pods,
                files=self.files,
            ),
            slurm=self.records,
            on_change=self._nodes_changed,
        )
        self.kinds = NodeKinds(
            outside.slurm, self.records, may_serve=self.nodes.may_serve, clock=outside.clock
        )
        self.nodes.follow_mapping(self.kinds.mapping_changed)
        self.volumes = Volumes(stores.volumes)
        self.fit = NodeFit(
            self.nodes,
            volumes=self.volumes,
            scheduler_name=outside.settings.scheduler_name,
            seen=stores.neighbours,
            own=memory.pods,
            binding=memory.units.binding,
            own_left_out=bool(own_left_out(outside.settings)),
            clock=outside.clock,
            on_ready=memory.news.compared,
        )
        self.rulebook = Rulebook(
            prefixes=memory.rules.prefixes, policy=policy, namespaces=stores.namespaces
        )

    def caches(
        self, *, doubt_pods: Callable[[], None], mapped: Callable[[], Awaitable[None]]
    ) -> Caches:
        """The parts, for those that decide. `Caches` describes the arguments."""
        return Caches(
            pods=self._memory.pods,
            nodes=self.nodes,
            kinds=self.kinds,
            fit=self.fit,
            volumes=self.volumes,
            rulebook=self.rulebook,
            doubt_pods=doubt_pods,
            mapped=mapped,
        )

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Called with each change of one of our pods."""
        self.fit.own_changed(old, new)
        self._memory.news.pod_changed(old, new)

    def mapping_changed(self) -> None:
        """Called when Slurm's nodes, a map file or a slurmd pod has changed."""
        self.nodes.mapping_changed()

    def _nodes_changed(self) -> None:
        self._memory.news.nodes_changed(self.nodes.gpu_types)


def own_left_out(settings: Settings) -> str:
    """The scheduler name whose pods the watch of pods on Nodes leaves out; "" if none. The watch of
    our own pods shows those, unless it is limited to some namespaces.
    """
    return "" if settings.watch_namespace else settings.scheduler_name


def _map_file(strategy: Strategy) -> MapFile:
    try:
        return MapFile(Path(strategy.key))
    except MapFileError as error:
        raise SettingsError(f"--node-mapping: {error}") from None
