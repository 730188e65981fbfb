"""Slurm's answers as plain immutable data, independent of the wire format.

Times are Unix seconds, memory is in MiB, and time limits are in minutes. None means that Slurm gave
no value, or a value that is known to be meaningless.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from enum import StrEnum, unique
from typing import Final, Self

import msgspec
from msgspec.structs import replace

from groundwork.aside import WithAside


@unique
class BaseState(StrEnum):
    """The exclusive part of a job's state (squeue(1), JOB STATE CODES). Any other value is
    UNKNOWN.
    """

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    COMPLETED = "COMPLETED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    NODE_FAIL = "NODE_FAIL"
    PREEMPTED = "PREEMPTED"
    BOOT_FAIL = "BOOT_FAIL"
    DEADLINE = "DEADLINE"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    UNKNOWN = "UNKNOWN"


_LIVE: Final = frozenset(
    {BaseState.PENDING, BaseState.RUNNING, BaseState.SUSPENDED, BaseState.UNKNOWN}
)
_BASES: Final = {state.value: state for state in BaseState if state is not BaseState.UNKNOWN}
PARTIAL: Final = "PARTIAL"
_SEPARATORS: Final = re.compile(r"[,+\s]+")


class JobState(msgspec.Struct, frozen=True):
    """A base state, and flags such as CONFIGURING or COMPLETING."""

    base: BaseState
    flags: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, words: list[str] | str) -> JobState:
        """Parse Slurm's list (`["RUNNING", "CONFIGURING"]`) or a comma-separated string.

        Never raises. Without a base state, or with two that contradict each other, the result is
        UNKNOWN, which does not count as ended.
        """
        listed = _SEPARATORS.split(words) if isinstance(words, str) else words
        tokens = dict.fromkeys(word.strip().upper() for word in listed if word.strip())
        bases = [token for token in tokens if token in _BASES]
        if len(bases) != 1:
            return cls(BaseState.UNKNOWN, frozenset(tokens) - {BaseState.UNKNOWN.value})
        return cls(_BASES[bases[0]], frozenset(tokens) - {bases[0]})

    @property
    def configuring(self) -> bool:
        """Whether it is allocated but still waits for PrologSlurmctld or for a node to boot."""
        return "CONFIGURING" in self.flags

    @property
    def completing(self) -> bool:
        """Whether it has ended, but its epilog or its processes still run."""
        return "COMPLETING" in self.flags

    @property
    def ended(self) -> bool:
        """Whether the base state is a final one."""
        return self.base not in _LIVE

    @property
    def partial(self) -> bool:
        """Whether only some components of a heterogeneous job have ended. The others hold their
        nodes until the job is cancelled.
        """
        return PARTIAL in self.flags

    def __str__(self) -> str:
        return "+".join([self.base.value, *sorted(self.flags)])


class Job(WithAside, frozen=True, kw_only=True):
    """One job record. `nodes` is expanded, in rank order; `excluded_nodes`, of which there may be
    many, stay a hostlist. `gres` is what was requested for each node, in the form of JobSubmission.
    `batch` says that the job has a script, which a slurmd must start.

    `tasks` is the number that was asked for, and stays when the job loses nodes. `tasks_per_node`
    is 0 if Slurm deals the tasks out. `cpus_by_node` has the allocated CPUs of each node in the
    order of `nodes`. It is empty for a job of one task, and where nobody needs it: for a job of
    several nodes that names the tasks of each.

    The record of a heterogeneous job is that of all its components: `parts` are their own records,
    in their order, which is also that of `nodes`. Other jobs have no `parts`. A component that was
    asked for by its own id has the id of the first as its `leader`.

    A task of an array that has an id of its own has that of its `array`. Slurm gives it that id
    when it starts, and `submit_time` remains that of the array (measured on 26.05.5 and 24.11.5):
    so its id may be above those of jobs that were submitted later.

    `answered_at` is when Slurm answered, by Slurm's own clock, which its other times use too
    (`last_update` of `GET job/{id}`, measured on 26.05.5 and 24.11.5). It is ignored when records
    are compared.
    """

    ASIDE = frozenset({"answered_at"})

    job_id: int
    name: str
    state: JobState
    state_reason: str = ""
    state_description: str = ""
    nodes: tuple[str, ...] = ()
    excluded_nodes: Collection[str] = ()
    admin_comment: str = ""
    comment: str = ""
    partition: str = ""
    account: str = ""
    qos: str = ""
    dependency: str = ""
    held: bool = False
    priority: int | None = None
    nice: int = 0
    reservation: str = ""
    restart_count: int = 0
    batch: bool = False
    submit_time: int | None = None
    start_time: int | None = None
    end_time: int | None = None
    preempt_time: int | None = None
    time_limit_minutes: int | None = None
    gres: str = ""
    tres_allocated: str = ""
    tasks: int = 1
    cpus_per_task: int = 1
    tasks_per_node: int = 0
    cpus_by_node: Mapping[str, int] = msgspec.field(default_factory=dict)
    parts: tuple[Job, ...] = ()
    leader: int | None = None
    array: int | None = None
    answered_at: int | None = None

    @property
    def ids(self) -> tuple[int, ...]:
        """The ids of all its components: an update concerns only the one whose id it names."""
        return tuple(part.job_id for part in self.parts) or (self.job_id,)

    def part_on(self, node: str) -> Job:
        """The component that holds this node; the job itself if it has no such component."""
        if not self.parts:
            return self
        return next((part for part in self.parts if node in part.nodes), self)

    @property
    def tasks_by_node(self) -> dict[str, int]:
        """How many tasks each node has, in the order of `nodes`. Empty before the job has nodes,
        and if it is not known.

        It follows from the CPUs where Slurm deals the tasks out. A job that takes whole nodes has
        all their CPUs, so there it does not: ask for such a job with `tasks_per_node`.
        """
        if self.parts:
            return {node: n for part in self.parts for node, n in part.tasks_by_node.items()}
        if self.tasks_per_node or self.tasks == 1:
            return dict.fromkeys(self.nodes, self.tasks_per_node or 1)
        held = self.cpus_by_node
        return {node: held[node] // self.cpus_per_task for node in self.nodes if node in held}

    @property
    def dealt_out(self) -> bool:
        """Whether Slurm has dealt its tasks out on several nodes, as it liked, and the job holds
        them now.
        """
        if self.parts:
            return any(part.dealt_out for part in self.parts)
        packed = self.tasks > 1 and not self.tasks_per_node and len(self.nodes) > 1
        return packed and not self.state.ended

    def laid_out_as(self, earlier: Job) -> Self:
        """This record with the CPUs of each node from an earlier one of the same run of the job: a
        running job may lose nodes, and nothing else of its layout changes. The same record if that
        does not tell them all.
        """
        if len(self.parts) != len(earlier.parts) or self._run != earlier._run:
            return self
        if self.parts:
            pairs = zip(self.parts, earlier.parts, strict=True)
            return replace(self, parts=tuple(part.laid_out_as(other) for part, other in pairs))
        if not self.dealt_out or not earlier.cpus_by_node.keys() >= set(self.nodes):
            return self
        return replace(self, cpus_by_node={it: earlier.cpus_by_node[it] for it in self.nodes})

    @property
    def laid_out(self) -> bool:
        """Whether it tells how many tasks each of its nodes has."""
        if self.parts:
            return all(part.laid_out for part in self.parts)
        if self.tasks == 1 or self.tasks_per_node or self.state.ended:
            return True
        counted = self.tasks_by_node
        return len(counted) == len(self.nodes) and all(counted.values())

    @property
    def _run(self) -> tuple[int, int | None, int | None, int]:
        return self.job_id, self.submit_time, self.start_time, self.restart_count


class ListedJob(msgspec.Struct, frozen=True):
    """A job with what only people ask about it: the name of its user, and what it is to have in
    all, as in `cpu=4,mem=8G,node=1` (`tres_req_str`).
    """

    job: Job
    user: str = ""
    tres_requested: str = ""


class Submitted(msgspec.Struct, frozen=True):
    """The job that a submit created; `warnings` are Slurm's remarks about it."""

    job_id: int
    warnings: tuple[str, ...] = ()


class Ping(msgspec.Struct, frozen=True):
    """Whether a controller responds to slurmrestd, and what slurmrestd says about it. `release` is
    slurmrestd's own, such as "26.05.5"; "" if it does not say.
    """

    responding: bool
    status: str
    release: str = ""


class SlurmConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of slurm.conf that a client may want to compare with its own; durations in
    seconds. `answered_at` is when Slurm answered, by Slurm's own clock, which `boot_time` uses too
    (`LastUpdate`, measured on 26.05.5).
    """

    kill_wait: int | None = None
    min_job_age: int | None = None
    accounting_storage: str | None = None
    accounting_enforce: tuple[str, ...] = ()
    answered_at: int | None = None
    boot_time: int | None = None
    prolog_slurmctld: str = ""
    scheduler_parameters: tuple[str, ...] = ()
    preempt_type: str = ""
    preempt_modes: tuple[str, ...] = ()
    slurm_user: str = ""

    @property
    def preempts(self) -> bool:
        """Whether Slurm ends or suspends jobs for the sake of others."""
        return self.preempt_type not in {"", "preempt/none"}


class SlurmNode(msgspec.Struct, frozen=True, kw_only=True):
    """One Slurm node. `states` has the base state and the flags, such as ("IDLE", "DRAIN")."""

    name: str
    states: frozenset[str]
    address: str = ""
    comment: str = ""
    extra: str = ""
    instance_id: str = ""
    cpus: int = 0
    job_cpus: int = 0
    """Those that jobs may have: without specialized cores (`effective_cpus`)."""
    threads_per_core: int = 1
    """How many CPUs a core has (`threads`). Slurm allocates whole cores."""
    allocated_cpus: int = 0
    memory_mib: int = 0
    specialized_memory_mib: int = 0
    """What no job may have (MemSpecLimit)."""
    allocated_memory_mib: int = 0
    gres: str = ""
    gres_used: str = ""
    partitions: tuple[str, ...] = ()

    @property
    def job_memory_mib(self) -> int:
        """The memory that jobs may have."""
        return max(0, self.memory_mib - self.specialized_memory_mib)


class Partition(msgspec.Struct, frozen=True, kw_only=True):
    """One partition. A limit that is None is not set, or not reported. Lists of names are empty if
    they do not restrict anybody.
    """

    name: str
    is_default: bool = False
    """Only newer data_parsers have it; False if unknown."""
    flags: frozenset[str] | None = frozenset()
    """Such as HIDDEN and ROOT_ONLY. None if not reported: data_parsers before v0.0.45 have none."""
    states: tuple[str, ...] = ()
    """UP, DOWN, DRAIN or INACTIVE."""
    grace_seconds: int = 0
    """GraceTime: how long before its end a job that is preempted is warned. It counts only with
    preempt/partition_prio; with preempt/qos that of the QoS does.
    """
    max_minutes: int | None = None
    default_minutes: int | None = None
    min_nodes: int | None = None
    max_nodes: int | None = None
    max_cpus_per_node: int | None = None
    max_memory_per_node_mib: int | None = None
    max_memory_per_cpu_mib: int | None = None
    whole_nodes: bool = False
    """Whether each job gets whole nodes (OverSubscribe=EXCLUSIVE)."""
    accounts: tuple[str, ...] = ()
    denied_accounts: tuple[str, ...] = ()
    qos: tuple[str, ...] = ()
    denied_qos: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    own_qos: str = ""
    """The QoS whose limits hold for the whole partition."""


class Call(msgspec.Struct, frozen=True):
    """One finished request, for the observer. Its outcome is "ok", "cancelled", or the `outcome` of
    an error.
    """

    operation: str
    outcome: str
    seconds: float
