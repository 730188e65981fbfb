"""What a running process shows to the live page: its own caches, and nothing that only it may
change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from scheduler.config.settings import Settings
from scheduler.kube.store import Joined
from scheduler.kube.wire import Pod
from scheduler.nodes.candidates import Nodes
from scheduler.nodes.fit import NodeFit
from scheduler.nodes.partitions import SlurmPartitions
from scheduler.nodes.records import SlurmNodes
from scheduler.policy.rulebook import Rulebook
from scheduler.state.gangs import Gangs


@dataclass(frozen=True, slots=True)
class Shown:
    """`pods` are those with our scheduler's name, `gangs` says which of them belong together.
    `records` are Slurm's nodes, `nodes` the Nodes behind them, and `fit` knows the pods of all
    schedulers there. `partitions` are Slurm's, and `rulebook` says who may ask for which. `leads`
    says whether this process is the leader, and `not_ready` why it cannot work now. `count_streams`
    gets the function that says how many streams are open.
    """

    pods: Joined[Pod]
    gangs: Gangs
    records: SlurmNodes
    nodes: Nodes
    fit: NodeFit
    partitions: SlurmPartitions
    rulebook: Rulebook
    leads: Callable[[], bool]
    not_ready: Callable[[], Sequence[str]]
    count_streams: Callable[[Callable[[], float]], None]


Showing = Callable[[Settings, Shown], AbstractAsyncContextManager[None]]
"""Shows it until the context is left. Raises SettingsError if its port cannot be opened."""
