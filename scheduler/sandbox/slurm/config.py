"""The configuration of a model cluster: the parts of slurm.conf that the model obeys.

Names and defaults are those of slurm.conf(5) where it has them. Times are in seconds unless the
name says minutes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType


class Release(StrEnum):
    """The Slurm releases whose answers have been measured."""

    V26_05 = "26.05"
    V24_11 = "24.11"

    @property
    def full(self) -> str:
        """Return the exact release measured, like ``26.05.5``."""
        return f"{self.value}.5"

    @property
    def data_parsers(self) -> tuple[str, ...]:
        """Return the API versions served, oldest first."""
        first, last = (42, 45) if self is Release.V26_05 else (40, 42)
        return tuple(f"v0.0.{number}" for number in range(first, last + 1))


@dataclass(frozen=True, slots=True)
class Gres:
    """Generic resources of one kind and type on a node, as in ``Gres=gpu:h100:8``."""

    name: str
    count: int
    type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """One NodeName line. ``external`` is State=EXTERNAL (26.05): no slurmd, external jobs only.

    ``memory_mib`` is RealMemory. ``sockets`` 0 means one socket for each core, as Slurm
    assumes for a line that gives only CPUs.
    """

    name: str
    cpus: int
    memory_mib: int
    gres: tuple[Gres, ...] = ()
    features: tuple[str, ...] = ()
    external: bool = False
    threads_per_core: int = 1
    sockets: int = 0
    weight: int = 1

    @property
    def cores(self) -> int:
        """Return the number of cores; each thread of a core is one CPU."""
        return self.cpus // self.threads_per_core

    @property
    def cores_per_socket(self) -> int:
        """Return the cores of each socket."""
        return self.cores // (self.sockets or self.cores)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionConfig:
    """One PartitionName line. ``nodes`` None means ALL; a time limit of None means INFINITE.

    A job may preempt jobs of partitions with a lower ``priority_tier``. ``preempt_mode`` says what
    then happens to a job *of this partition*: CANCEL, REQUEUE, or OFF, which protects it. In
    ``state`` DOWN the partition accepts jobs and starts none; in INACTIVE it does neither.
    """

    name: str
    nodes: tuple[str, ...] | None = None
    default: bool = False
    priority_tier: int = 1
    max_time_minutes: int | None = None
    default_time_minutes: int | None = None
    preempt_mode: str = "CANCEL"
    grace_time: int = 0
    state: str = "UP"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationConfig:
    """A reservation: while it is active, only jobs that name it start on its nodes."""

    name: str
    nodes: tuple[str, ...]
    start_time: float = 0.0
    end_time: float = 2**32

    def active(self, now: float) -> bool:
        """Whether the reservation has begun and has not ended."""
        return self.start_time <= now < self.end_time


DEFAULT_QOS = "normal"


@dataclass(frozen=True, slots=True, kw_only=True)
class QosConfig:
    """A QoS. ``max_jobs_per_user`` limits the running jobs of one user.

    ``group_cpus`` limits the CPUs of all running jobs of the QoS. None means no limit.
    """

    name: str
    max_jobs_per_user: int | None = None
    group_cpus: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountConfig:
    """An account, the users that may use it, and the QoS that their jobs may then use.

    ``max_jobs`` limits the running jobs of one user, ``group_cpus`` the CPUs of all running jobs of
    the account. None means no limit.
    """

    name: str
    users: frozenset[str]
    qos: frozenset[str] = frozenset({DEFAULT_QOS})
    max_jobs: int | None = None
    group_cpus: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The periods and timeouts of the controller.

    The defaults make a fast model. ``real()`` is what slurmctld does with the fast-start tuning: it
    schedules once a second, checks time limits every 30 s and saves its state every 5 s. slurmrestd
    retries for 10 s while slurmctld does not answer.
    """

    schedule_seconds: float = 0.1
    limits_seconds: float = 0.5
    save_seconds: float = 5.0
    outage_seconds: float = 0.2
    batch_start_seconds: float = 20.0

    @classmethod
    def real(cls) -> "Timing":
        """Return the measured timing of slurmctld 26.05 with sched_interval=1."""
        return cls(schedule_seconds=1.0, limits_seconds=30.0, save_seconds=5.0, outage_seconds=10.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmConfig:
    """A whole cluster.

    ``accounts`` None is a cluster without slurmdbd, which accepts every name of an account or a QoS
    and ignores it; otherwise a user's first account is its default. ``users`` maps the users known
    on the controller's host to their ids. ``operators`` may do anything. ``hook_environment`` is
    added to the environment of PrologSlurmctld. ``double_error_answers`` is the fault of 26.05 that
    answers a failed request twice; None means that the release decides.
    """

    nodes: tuple[NodeConfig, ...]
    partitions: tuple[PartitionConfig, ...]
    release: Release = Release.V26_05
    cluster_name: str = "sandbox"
    controller_host: str = "localhost"
    timing: Timing = field(default_factory=Timing)
    kill_wait: int = 30
    prolog_slurmctld: str = ""
    hook_environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    min_job_age: int = 300
    max_job_count: int = 10_000
    requeue_delay: int = 121
    users: Mapping[str, int] = field(
        default_factory=lambda: MappingProxyType({"root": 0, "slurm": 64030, "alice": 2001})
    )
    operators: frozenset[str] = frozenset({"root", "slurm"})
    accounts: tuple[AccountConfig, ...] | None = None
    qos: tuple[QosConfig, ...] = (QosConfig(name=DEFAULT_QOS),)
    reservations: tuple[ReservationConfig, ...] = ()
    licenses: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    double_error_answers: bool | None = None

    def __post_init__(self) -> None:
        known = {node.name for node in self.nodes}
        for partition in self.partitions:
            unknown = sorted(set(partition.nodes or ()) - known)
            if unknown:
                raise ValueError(
                    f"partition {partition.name}: nodes {', '.join(unknown)} are not among the "
                    "configured nodes"
                )
        if self.release is Release.V24_11 and any(node.external for node in self.nodes):
            raise ValueError("nodes: external=True needs release 26.05, 24.11 has no such nodes")

    @property
    def answers_twice(self) -> bool:
        """Whether a failed request gets two HTTP responses."""
        if self.double_error_answers is None:
            return self.release is Release.V26_05
        return self.double_error_answers
