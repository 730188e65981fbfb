"""The records of slurmctld: requests, jobs, nodes, and the resources that jobs hold on them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Final, NamedTuple

from . import scripts
from .config import NodeConfig


class State(StrEnum):
    """Base states of a job, as slurmrestd writes them."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    COMPLETED = "COMPLETED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    NODE_FAIL = "NODE_FAIL"
    PREEMPTED = "PREEMPTED"
    DEADLINE = "DEADLINE"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"


ALIVE: Final = frozenset({State.PENDING, State.RUNNING, State.SUSPENDED})
STARTED: Final = frozenset({State.RUNNING, State.SUSPENDED})


class Exit(NamedTuple):
    """How a job ended: ``status`` is SUCCESS, ERROR or SIGNALED."""

    status: str = "SUCCESS"
    return_code: int = 0
    signal: int = 0


SUCCESS: Final = Exit()


@dataclass(frozen=True, slots=True)
class GresRequest:
    """One entry of ``tres_per_node`` or ``tres_per_task``; an empty ``type`` accepts any type."""

    name: str
    type: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a job asks of nodes; two jobs with equal requests fit in the same places.

    ``cpus`` is the total, in units of ``task_cpus`` that one node must have, of which a node gets
    at most ``most_per_node`` (0: any number). With ``max_nodes`` None the job may spread over any
    number of nodes. ``memory_mib`` is for each node; 0 means all its memory, unless there is a
    ``memory_per_cpu``. A node has ``gres`` for the job, and ``task_gres`` for each of its tasks.
    ``contiguous`` nodes follow one another in the node table. ``constraint`` has the syntax that
    ``constraints`` reads. With ``sole_user`` the job shares its nodes only with jobs of the same
    ``user_id``. The job uses ``threads_per_core`` threads of each core, by default all.
    """

    partition: str
    cpus: int = 1
    cpus_per_node: int = 1
    task_cpus: int = 1
    most_per_node: int = 0
    min_nodes: int = 1
    max_nodes: int | None = 1
    memory_mib: int = 0
    memory_per_cpu: int = 0
    gres: tuple[GresRequest, ...] = ()
    task_gres: tuple[GresRequest, ...] = ()
    contiguous: bool = False
    constraint: str = ""
    required: tuple[str, ...] = ()
    excluded: frozenset[str] = frozenset()
    exclusive: bool = False
    sole_user: bool = False
    user_id: int = 0
    threads_per_core: int | None = None
    external: bool = False
    reservation: str = ""
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Each scheduling pass looks up the request of each pending job, and they have many fields.
        values = (getattr(self, it.name) for it in fields(self) if it.compare)
        object.__setattr__(self, "_hash", hash(tuple(values)))

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """Everything that a submit asked for; ``described`` is its parsed job description."""

    request: Request
    user_id: int
    user_name: str
    group_id: int
    name: str = ""
    script: str | None = None
    account: str = ""
    qos: str = ""
    tres_per_node: str = ""
    tres_per_task: str = ""
    dependency: str = ""
    licenses: tuple[tuple[str, int], ...] = ()
    tasks: int = 1
    tasks_per_node: int = 0
    cpus_per_task: int = 1
    requeue: bool = True
    kill_on_node_fail: bool = True
    default_partition: bool = False
    memory_given: bool = True
    working_directory: str = ""
    standard_error: str = ""
    standard_output: str = ""
    admin_comment: str = ""
    comment: str = ""
    extra: str = ""
    held: bool = False
    priority: int | None = None
    begin_time: float = 0.0
    time_limit_minutes: int | None = None
    prefer: str = ""
    shared: tuple[str, ...] = ()
    wckey: str = ""
    license_text: str = ""
    nice: int = 0
    deadline: float = 0.0
    switches: int = 0
    switch_wait: int = 0
    segment_size: int = 0
    described: Mapping[str, Any] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class Share:
    """What one job holds on one node.

    ``cores`` is a bit set, ``devices`` holds (index of the node's pool, bit set) pairs.
    ``sole_user`` is the only user who may share the node, None if anybody may. The devices of a
    ``leaky`` share are not in the node's record, and the node does not get them back.
    """

    node: str
    cpus: int
    cores: int
    memory_mib: int
    devices: tuple[tuple[int, int], ...] = ()
    sole_user: int | None = None
    leaky: bool = False


@dataclass(slots=True, kw_only=True)
class Job:
    """One job record. Times are seconds since the epoch; 0 means "not yet".

    ``misfit`` is the reason why the partition, as configured, can never run the job. ``preferred``
    means that the job runs on nodes with the features of its ``prefer``. ``batch_host`` is the
    first node of the allocation, where a batch job's script runs. ``het_id`` is the id of the first
    component of a heterogeneous job, 0 if it is none, and ``het_offset`` the component's number.
    """

    id: int
    asked: Submission
    name: str
    sluid: str
    submit_time: float
    comment: str = ""
    admin_comment: str = ""
    extra: str = ""
    state: State = State.PENDING
    completing: bool = False
    configuring: bool = False
    reason: str = "None"
    reason_text: str = ""
    priority: int = 1
    priority_set: bool = False
    nice: int = 0
    begin_time: float = 0.0
    expected_start: float = 0.0
    give_up_at: float = 0.0
    eligible_time: float = 0.0
    start_time: float = 0.0
    end_time: float = 0.0
    preempt_time: float = 0.0
    signalling_until: float = 0.0
    suspend_time: float = 0.0
    last_evaluation: float = 0.0
    time_limit_minutes: int | None = None
    shares: tuple[Share, ...] = ()
    batch_host: str = ""
    exit: Exit = SUCCESS
    script_ends_at: float | None = None
    restart_count: int = 0
    failed_node: str = ""
    dependency: str = ""
    misfit: str = ""
    preferred: bool = False
    het_id: int = 0
    het_offset: int = 0

    @property
    def external(self) -> bool:
        """Whether this is an external job, of which nothing ever runs on a node."""
        return self.asked.request.external

    @property
    def alive(self) -> bool:
        """Whether the job is pending, running or suspended."""
        return self.state in ALIVE

    @property
    def holding(self) -> tuple[Share, ...]:
        """The shares that the job still has: an ending job has those where its processes are."""
        if self.completing and not scripts.read(self.asked.script or "").on_each_node:
            return tuple(share for share in self.shares if share.node == self.batch_host)
        return self.shares if self.completing or self.state in STARTED else ()

    @property
    def held(self) -> bool:
        """Whether the job waits for somebody to release it."""
        return self.state is State.PENDING and self.priority == 0

    def too_late(self, now: float) -> bool:
        """Whether the job can no longer end before its deadline.

        A job without a time limit is never too late (measured).
        """
        if not self.give_up_at or self.time_limit_minutes is None:
            return False
        return now + 60 * self.time_limit_minutes > self.give_up_at

    @property
    def deadline(self) -> float | None:
        """Return the time at which the time limit ends, None without a limit."""
        if self.time_limit_minutes is None:
            return None
        return self.start_time + 60 * self.time_limit_minutes


@dataclass(frozen=True, slots=True)
class GresPool:
    """The devices of one kind and type on a node; their indices start at ``first``."""

    name: str
    type: str
    first: int
    count: int


@dataclass(slots=True)
class Node:
    """One node record: its configuration, the resources held on it, and operators' settings.

    ``position`` is the node's place in the node table. ``cores_used`` and the entries of
    ``gres_used`` and ``gres_unseen``, one for each pool, are bit sets. slurmctld does not report
    the unseen ones, and a restart frees those that no job has.
    ``sole_users`` maps the id of a job to the only user that it shares the node with.
    ``cpus_counted`` and ``memory_counted`` are the values at the last request for all nodes, and
    node records show only these (measured on 26.05.5 and 24.11.5).
    """

    config: NodeConfig
    pools: tuple[GresPool, ...] = ()
    partitions: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    cores_used: int = 0
    memory_used: int = 0
    position: int = 0
    gres_used: list[int] = field(default_factory=list)
    gres_unseen: list[int] = field(default_factory=list)
    jobs: set[int] = field(default_factory=set)
    sole_users: dict[int, int] = field(default_factory=dict)
    down: bool = False
    drain: bool = False
    reboot: bool = False
    not_responding: bool = False
    reason: str = ""
    reason_user: str = ""
    reason_time: float = 0.0
    comment: str = ""
    extra: str = ""
    address: str = ""
    instance_id: str = ""
    last_busy: float = 0.0
    cpus_counted: int = 0
    memory_counted: int = 0

    @classmethod
    def of(cls, config: NodeConfig, partitions: tuple[str, ...], position: int) -> "Node":
        """Return the record of a node that no job has used yet."""
        pools, first = [], 0
        for gres in config.gres:
            pools.append(GresPool(gres.name, gres.type, first, gres.count))
            first += gres.count
        node = cls(config, tuple(pools), partitions, config.features, position=position)
        node.gres_used, node.gres_unseen = [0] * len(pools), [0] * len(pools)
        return node

    @property
    def available(self) -> bool:
        """Whether new jobs may start here."""
        return not (self.down or self.drain or self.not_responding)

    @property
    def cpus_used(self) -> int:
        """Return the CPUs (threads) of the cores that are held."""
        return self.cores_used.bit_count() * self.config.threads_per_core

    def count(self) -> None:
        """Store the CPUs and the memory held now as the values that node records show."""
        self.cpus_counted, self.memory_counted = self.cpus_used, self.memory_used

    def hold(self, job_id: int, share: Share) -> None:
        """Give the share to the job."""
        self.jobs.add(job_id)
        if share.sole_user is not None:
            self.sole_users[job_id] = share.sole_user
        self.cores_used |= share.cores
        self.memory_used += share.memory_mib
        for index, bits in share.devices:
            self.gres_used[index] |= bits
            self.gres_unseen[index] |= bits if share.leaky else 0

    def release(self, job_id: int, share: Share, *, now: float) -> None:
        """Take the share back; do nothing if the job no longer holds anything here."""
        if job_id not in self.jobs:
            return
        self.jobs.discard(job_id)
        self.sole_users.pop(job_id, None)
        self.cores_used &= ~share.cores
        self.memory_used -= share.memory_mib
        for index, bits in share.devices if not share.leaky else ():
            self.gres_used[index] &= ~bits
        self.last_busy = now

    @property
    def states(self) -> list[str]:
        """Return the base state and the flags as slurmrestd writes them."""
        used = self.cores_used.bit_count()
        base = "ALLOCATED" if used == self.config.cores else "MIXED" if used else "IDLE"
        names = ["DOWN" if self.down else base]
        if self.config.external:
            names.append("EXTERNAL")
        if self.drain:
            names.append("DRAIN")
        if self.reboot:
            names.append("REBOOT_REQUESTED")
        if self.not_responding:
            names.append("NOT_RESPONDING")
        return names
