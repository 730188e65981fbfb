"""The parser's input and output as plain data, without types of Kubernetes or Slurm."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Literal

import msgspec

from groundwork.aside import WithAside

PREFIX = "sunk.coreweave.com/"
# The two labels that SUNK reads.
GPU_TYPE_KEYS = ("gpu.nvidia.com/class", "gpu.nvidia.com/model")


@unique
class Sharing(StrEnum):
    """Who else may use the job's node; the words are those of slurm.h.

    `NONE` means shared with nobody, that is, exclusive. `OK` lets Slurm give the same CPUs to other
    jobs, if the partition has OverSubscribe.
    """

    NONE = "none"
    OK = "ok"
    USER = "user"
    MCS = "mcs"
    TOPO = "topo"


LostSlot = Literal["wait", "release"]
"""What is done if a pod of a gang cannot come back to its slot while others run."""


@dataclass(frozen=True, slots=True)
class Switches:
    """At most `count` network switches; after `wait_minutes` Slurm no longer insists on that."""

    count: int
    wait_minutes: int | None = None


def _nvidia_gpus() -> Mapping[str, str]:
    return {"nvidia.com/gpu": "gpu"}


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The site's decisions.

    `prefixes` are equivalent: each annotation may have any of them. If a pod gives it under two
    prefixes, the values must be equal. `device_resources` maps a Kubernetes resource to a Slurm
    gres, with or without a type ("gpu", "gpu:h100"). `gpu_type_keys` are Node labels whose values
    name a GPU type, and `gpu_types` maps those values to gres types. `known_gpu_types` are the
    types that Slurm has; None if they are not known yet, and then no pod is refused for its type.
    The grace policy `strict` is SUNK's rule; `guarded` relies on the handover guard. With
    `guarded_grace_seconds` above 0, `strict` accepts a grace period of this many seconds, too.
    Raises ValueError for a prefix that does not end in a slash.
    """

    kill_wait_seconds: int = 30
    termination_offset_seconds: int = 5
    prefixes: tuple[str, ...] = (PREFIX,)
    device_resources: Mapping[str, str] = msgspec.field(default_factory=_nvidia_gpus)
    gpu_type_keys: tuple[str, ...] = GPU_TYPE_KEYS
    gpu_types: Mapping[str, str] = msgspec.field(default_factory=dict)
    known_gpu_types: frozenset[str] | None = frozenset()
    grace_policy: Literal["strict", "guarded"] = "strict"
    guarded_grace_seconds: int = 0

    def __post_init__(self) -> None:
        wrong = [prefix for prefix in self.prefixes if not prefix.endswith("/")]
        if wrong:
            raise ValueError(f"annotation prefixes {wrong} must end in '/', as {PREFIX!r} does")


class ContainerResources(msgspec.Struct, frozen=True, kw_only=True):
    """Requests and limits of one container, as Kubernetes quantities.

    `restartable` is only read for init containers (`restartPolicy: Always`, a sidecar).
    """

    name: str = ""
    requests: Mapping[str, str] = msgspec.field(default_factory=dict)
    limits: Mapping[str, str] = msgspec.field(default_factory=dict)
    restartable: bool = False


@dataclass(frozen=True, slots=True)
class AffinityExpression:
    """One expression of a node affinity term, such as `key In values`."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class PodView(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a pod that determine its Slurm job.

    `requests` and `limits` are those of the whole pod (pod-level resources). `node_affinity` has
    the required terms, of which one must match; None if there are none.
    """

    annotations: Mapping[str, str]
    containers: tuple[ContainerResources, ...]
    init_containers: tuple[ContainerResources, ...] = ()
    overhead: Mapping[str, str] = msgspec.field(default_factory=dict)
    requests: Mapping[str, str] = msgspec.field(default_factory=dict)
    limits: Mapping[str, str] = msgspec.field(default_factory=dict)
    node_selector: Mapping[str, str] = msgspec.field(default_factory=dict)
    node_affinity: tuple[tuple[AffinityExpression, ...], ...] | None = None
    termination_grace_period_seconds: int
    active_deadline_seconds: int | None = None


class JobRequest(WithAside, frozen=True, kw_only=True):
    """What to ask of Slurm for one pod: CPUs, MiB and GPUs on one node.

    None, an empty tuple and False mean Slurm's default. `gres` has the form of `tres_per_node`:
    "gres/gpu:2", several joined by commas. `begin` and `deadline` are Unix seconds, or a text that
    Slurm interprets by its own clock. `dependency` never contains Slurm's "?", so more terms can be
    added to it. `pods_per_node`, `contiguous`, `segment`, `no_kill` and `gang_lost_slot` are about
    jobs of several pods; Slurm does not get the last one. `keys` are the annotations that the
    fields were read from, for messages only.
    """

    ASIDE = frozenset({"keys"})

    cpus: int
    memory_mib: int
    gpus: int = 0
    gres: str | None = None
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    reservation: str | None = None
    comment: str | None = None
    time_limit_minutes: int | None = None
    priority: int | None = None
    nice: int | None = None
    constraints: str | None = None
    prefer: str | None = None
    exclusive: Sharing | None = None
    required_nodes: Collection[str] = ()
    excluded_nodes: Collection[str] = ()
    user_id: int | None = None
    group_id: int | None = None
    working_directory: str | None = None
    licenses: str | None = None
    wckey: str | None = None
    begin: str | int | None = None
    deadline: str | int | None = None
    dependency: str | None = None
    switches: Switches | None = None
    hold: bool = False
    requeue: bool = False
    threads_per_core: int | None = None
    pods_per_node: int | None = None
    contiguous: bool = False
    segment: int | None = None
    no_kill: bool = False
    gang_lost_slot: LostSlot | None = None
    keys: Mapping[str, str] = msgspec.field(default_factory=dict)
