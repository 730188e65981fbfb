"""The plain data that goes into and comes out of the parser; no Kubernetes and no Slurm types."""

from collections.abc import Mapping
from dataclasses import dataclass, field

PREFIX = "sunk.coreweave.com/"


def _nvidia_gpus() -> Mapping[str, str]:
    return {"nvidia.com/gpu": "gpu"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a site has decided.

    `prefixes` are read as one: each annotation may stand under any of them, and under two only
    with the same value. `gpu_resources` maps a Kubernetes resource to a Slurm gres, with or
    without a type ("gpu", "gpu:h100").
    Raises ValueError for a prefix that does not end in a slash.
    """

    kill_wait_seconds: int = 30
    termination_offset_seconds: int = 5
    prefixes: tuple[str, ...] = (PREFIX,)
    gpu_resources: Mapping[str, str] = field(default_factory=_nvidia_gpus)

    def __post_init__(self) -> None:
        wrong = [prefix for prefix in self.prefixes if not prefix.endswith("/")]
        if wrong:
            raise ValueError(f"annotation prefixes {wrong} must end in '/', as {PREFIX!r} does")


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerResources:
    """Requests and limits of one container, as Kubernetes quantities.

    `restartable` is only read for init containers (`restartPolicy: Always`, a sidecar).
    """

    name: str = ""
    requests: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)
    restartable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSpec:
    """The parts of a pod that shape its Slurm job."""

    annotations: Mapping[str, str]
    containers: tuple[ContainerResources, ...]
    init_containers: tuple[ContainerResources, ...] = ()
    overhead: Mapping[str, str] = field(default_factory=dict)
    termination_grace_period_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """What to ask of Slurm for one pod: CPUs, MiB and GPUs on one node; None is Slurm's default.

    `gres` is in the form of `tres_per_node`: "gres/gpu:2", several joined by commas.
    """

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
    excluded_nodes: tuple[str, ...] = ()
