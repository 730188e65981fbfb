"""Where a job fits, by whole cores, memory, generic resources and features. Pure functions.

Nodes are tried in their configured order (weight, then name), as select/cons_tres does. The free
resources are those of a node as it is now, or of a ``Room``: the node as it would be without some
of its jobs.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from . import constraints
from .config import NodeConfig
from .records import GresPool, GresRequest, Node, Request, Share


class Space(Protocol):
    """A source of free resources: a node, or a ``Room``."""

    @property
    def config(self) -> NodeConfig:
        """The node's configuration."""

    @property
    def pools(self) -> tuple[GresPool, ...]:
        """The node's devices."""

    @property
    def position(self) -> int:
        """The node's place in the node table."""

    @property
    def cores_used(self) -> int:
        """Bit set of the cores that jobs hold."""

    @property
    def memory_used(self) -> int:
        """Memory that jobs hold, in MiB."""

    @property
    def gres_used(self) -> Sequence[int]:
        """Bit set of the devices that jobs hold, for each pool."""


@dataclass(frozen=True, slots=True)
class Room:
    """A node as it would be without some of its jobs."""

    config: NodeConfig
    pools: tuple[GresPool, ...]
    position: int
    cores_used: int
    memory_used: int
    gres_used: tuple[int, ...]

    @classmethod
    def empty(cls, node: Node) -> "Room":
        """Return the node as it would be without any job."""
        return cls(node.config, node.pools, node.position, 0, 0, (0,) * len(node.pools))

    @classmethod
    def without(cls, node: Space, shares: Iterable[Share]) -> "Room":
        """Return the node as it would be if these shares were released."""
        cores, memory, gres = node.cores_used, node.memory_used, list(node.gres_used)
        for share in shares:
            cores &= ~share.cores
            memory -= share.memory_mib
            for index, bits in share.devices if not share.leaky else ():
                gres[index] &= ~bits
        return cls(node.config, node.pools, node.position, cores, memory, tuple(gres))


def eligible(node: Node, request: Request) -> bool:
    """Whether the node suits the request, whatever its present load and state."""
    return (
        node.config.name not in request.excluded
        and constraints.read(request.constraint).holds(node.features)
        and (request.threads_per_core or 1) <= node.config.threads_per_core
        and (request.external or not node.config.external)
    )


def place(request: Request, spaces: Sequence[Space]) -> tuple[Share, ...] | None:
    """Return the shares that the job would get of these nodes, None if it does not fit."""
    if not request.contiguous:
        return _place(request, spaces)
    positions = {space.config.name: space.position for space in spaces}
    for first in range(len(spaces)):
        shares = _place(request, spaces[first:])
        if shares is None:
            return None
        found = [positions[share.node] for share in shares]
        if max(found) - min(found) < len(found):
            return shares
    return None


def _place(request: Request, spaces: Sequence[Space]) -> tuple[Share, ...] | None:
    if request.required:
        spaces = _required_first(request, spaces)
    if request.max_nodes is None and not request.most_per_node:
        return _spread(request, spaces)
    if request.max_nodes is not None and request.min_nodes > request.max_nodes:
        return None
    shares: list[Share] = []
    missing = request.cpus
    for space in spaces:
        others = request.min_nodes - len(shares) - 1
        wanted = _cpus_of(request, space, missing=missing, others=others)
        share = share_of(request, space, wanted)
        if share is not None:
            shares.append(share)
            missing -= share.cpus
            if not others:
                return tuple(shares)
    return None


def _cpus_of(request: Request, space: Space, *, missing: int, others: int) -> int:
    """Return how many CPUs the job wants of a node, if so many ``others`` are to follow.

    Slurm gives the first nodes as much as they may have, and leaves one task for each of the
    others. If there are fewer tasks than nodes, the last nodes get no CPU (measured on 26.05.5 and
    24.11.5).
    """
    one = min(missing, request.task_cpus)
    most = max(missing - others * request.task_cpus, one, 0)
    if request.most_per_node:
        most = min(most, request.most_per_node)
    return min(most, max(_free_cpus(request, space), request.task_cpus)) if others else most


def _free_cpus(request: Request, space: Space) -> int:
    """Return the CPUs of whole tasks that are free."""
    config = space.config
    cores = config.cores - space.cores_used.bit_count()
    free = cores * (request.threads_per_core or config.threads_per_core)
    if request.memory_per_cpu:
        free = min(free, (config.memory_mib - space.memory_used) // request.memory_per_cpu)
    for wanted in request.task_gres:
        devices = sum(count for _, count in _free_devices(wanted, space, space.gres_used))
        free = min(free, devices // wanted.count * request.task_cpus)
    return free - free % request.task_cpus


def share_of(request: Request, space: Space, cpus: int) -> Share | None:
    """Return the job's share of the node with that many CPUs, None if it does not fit."""
    config = space.config
    threads = request.threads_per_core or config.threads_per_core
    cores = config.cores if request.exclusive else -(-cpus // threads)
    memory = request.memory_mib or config.memory_mib
    if request.memory_per_cpu:
        memory = request.memory_per_cpu * cpus
    if cores > config.cores - space.cores_used.bit_count():
        return None
    if memory > config.memory_mib - space.memory_used:
        return None
    tasks = cpus // request.task_cpus
    devices = _all_devices(space) if request.exclusive else _devices(request, space, tasks)
    if devices is None:
        return None
    cpus = cores * config.threads_per_core
    leaky = config.external and bool(request.task_gres)
    sole_user = request.user_id if request.sole_user else None
    bits = _lowest(cores, space.cores_used)
    return Share(config.name, cpus, bits, memory, devices, sole_user, leaky)


def _required_first(request: Request, spaces: Sequence[Space]) -> Sequence[Space]:
    """Return the required nodes, followed by the others if the job may use more nodes.

    A job that needs fewer nodes than it names gets any of them (measured on 26.05.5 and 24.11.5).
    """
    named = [space for space in spaces if space.config.name in request.required]
    if len(named) < min(len(request.required), request.min_nodes):
        return ()
    if request.max_nodes is not None and request.min_nodes <= len(named):
        return named
    return [*named, *(space for space in spaces if space.config.name not in request.required)]


def _spread(request: Request, spaces: Sequence[Space]) -> tuple[Share, ...] | None:
    """Fill node after node until all CPUs are found, as Slurm does without a node limit."""
    shares: list[Share] = []
    missing = request.cpus
    for space in spaces:
        cpus = min(missing, _free_cpus(request, space))
        share = share_of(request, space, cpus) if cpus > 0 else None
        if share is None:
            continue
        shares.append(share)
        missing -= share.cpus
        if missing <= 0 and len(shares) >= request.min_nodes:
            return tuple(shares)
    return None


def _devices(request: Request, space: Space, tasks: int) -> tuple[tuple[int, int], ...] | None:
    """Return the lowest free devices as (pool index, bit set) pairs, None if too few are free."""
    if not request.gres and not request.task_gres:
        return ()
    used = list(space.gres_used)
    by_task = ((gres, gres.count * tasks) for gres in request.task_gres)
    for wanted, count in (*((gres, gres.count) for gres in request.gres), *by_task):
        missing = count
        for index, free in _free_devices(wanted, space, used):
            got = _lowest(min(missing, free), used[index])
            used[index] |= got
            missing -= got.bit_count()
        if missing:
            return None
    taken = (bits & ~before for bits, before in zip(used, space.gres_used, strict=True))
    return tuple((index, bits) for index, bits in enumerate(taken) if bits)


def _free_devices(
    wanted: GresRequest, space: Space, used: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """Yield index and number of free devices of each of the node's pools that will do."""
    for index, pool in enumerate(space.pools):
        if pool.name == wanted.name and wanted.type in ("", pool.type):
            yield index, pool.count - used[index].bit_count()


def _all_devices(space: Space) -> tuple[tuple[int, int], ...]:
    return tuple((index, (1 << pool.count) - 1) for index, pool in enumerate(space.pools))


def _lowest(count: int, used: int) -> int:
    """Return the bit set of the ``count`` lowest bits that are not in ``used``."""
    chosen = 0
    for _ in range(count):
        bit = ~used & (used + 1)
        used |= bit
        chosen |= bit
    return chosen
