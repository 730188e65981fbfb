"""One frozen model of all settings: everything a site can set, and which values are accepted.

Flags have the same names as those of the SUNK Pod Scheduler, where it has such a flag. `flags.py`
reads them. A new setting also needs its place in a group of the help (`groups.py`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
)

from annotations import GPU_TYPE_KEYS, LostSlot
from scheduler.config.values import GresMap, Prefix, TypeMap
from scheduler.core.gang_sources import ALL_SOURCES, Source
from scheduler.core.ignorable import IGNORABLE, Ignorable
from scheduler.core.lease import JITTER_FACTOR
from scheduler.core.mapping_strategies import Strategy
from slurmapi import SlurmDenied, StaticToken, check_base_url

ENV_PREFIX: Final = "SLURM_POD_SCHEDULER_"
_PART: Final = r"(\d+(?:\.\d+)?)(ms|s|m|h)"
_DURATION: Final = re.compile(rf"\d+(?:\.\d+)?|(?:{_PART})+")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_OBJECT: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_LONGEST_OBJECT: Final = 253
# What Kubernetes accepts as the reason of a condition (metav1.Condition).
_REASON: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
# Kubernetes leaves `$(NAME)` in a container's arguments if there is no variable of that name.
_UNSET_VARIABLE: Final = re.compile(r"\$\(\w+\)")
_URL: Final = re.compile(r"https?://[^\s/?#@]+")
_ADDRESS: Final = re.compile(r"(?P<host>[^:\s]*|\[[0-9a-fA-F:.]+\]):(?P<port>\d{1,5})")

_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_ALL_HOSTS: Final = frozenset({None, "0.0.0.0", "::"})  # noqa: S104 - compared, not bound
_LISTENERS: Final = ("health_probe_bind_address", "metrics_bind_address", "page_bind_address")


class SettingsError(Exception):
    """The settings are wrong. The text has one line for each problem."""


class Address(BaseModel):
    """Where to listen, written as `:8081`, `127.0.0.1:8081` or `[::1]:8081`. `0` means nowhere."""

    model_config = ConfigDict(frozen=True)
    host: str | None
    port: int

    def __str__(self) -> str:
        return f"{self.host or ''}:{self.port}"

    def meets(self, other: Address) -> bool:
        """Whether one process cannot listen on both. Port 0 is any port that is free."""
        hosts = {self.host, other.host}
        return self.port == other.port != 0 and (
            len(hosts) == 1 or not _ALL_HOSTS.isdisjoint(hosts)
        )


def _seconds(value: object) -> object:
    if not isinstance(value, str):
        return value
    text = value.strip()
    if _DURATION.fullmatch(text) is None:
        raise ValueError("expected a duration such as 30s, 500ms or 1m30s")
    parts = re.findall(_PART, text)
    return sum(float(number) * _UNITS[unit] for number, unit in parts) if parts else float(text)


def _address(value: object) -> object:
    if value in ("0", 0) and not isinstance(value, bool):
        return None
    if value is None or isinstance(value, Address):
        return value
    match = _ADDRESS.fullmatch(value) if isinstance(value, str) else None
    if match is None or int(match["port"]) > 65535:
        raise ValueError("expected HOST:PORT or :PORT, or 0 for none")
    return Address(host=match["host"].strip("[]") or None, port=int(match["port"]))


def _met(address: Address, info: ValidationInfo) -> str:
    """The flag before this one whose address is the same, with its value; "" if there is none."""
    for name in _LISTENERS:
        other = info.data.get(name)
        if name != info.field_name and other is not None and address.meets(other):
            return f"--{name.replace('_', '-')}, which is {other}"
    return ""


def _check_token(text: str) -> None:
    try:
        StaticToken(text)
    except SlurmDenied as error:
        raise ValueError(error.description) from None


@dataclass(frozen=True, slots=True)
class Metavar:
    """How the value of a flag is written, in one word for its help."""

    word: str


DURATION: Final = Metavar("DURATION")
Seconds = Annotated[float, BeforeValidator(_seconds), DURATION]
Listen = Annotated[Address | None, BeforeValidator(_address), Metavar("HOST:PORT")]


class Settings(BaseModel):
    """Everything a site can set. Each field is a flag; its description is the flag's help."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        alias_generator=lambda name: name.replace("_", "-"),
    )

    scheduler_name: str = Field("slurm-scheduler", description="serve pods of this schedulerName")
    watch_namespace: tuple[str, ...] = Field(
        (), description="serve these namespaces, comma-separated; all when empty"
    )
    node_mapping: tuple[str, ...] = Field(
        ("name", "comment"),
        description="how to find the Kubernetes Node behind a Slurm node, tried in this order",
    )
    node_access: Literal["auto", "read", "none"] = Field(
        "auto",
        description="whether to read Nodes, to check that a pod may run there; auto: if allowed",
    )
    pod_access: Literal["auto", "read", "none"] = Field(
        "auto",
        description="whether to read pods of all namespaces and schedulers, to check that a pod "
        "fits beside them; auto: if allowed",
    )
    volume_access: Literal["auto", "read", "none"] = Field(
        "auto",
        description="whether to read PersistentVolumeClaims and PersistentVolumes, to check that a "
        "Node can reach a pod's volumes; auto: if allowed",
    )
    ignored_requirements: Annotated[tuple[Ignorable, ...], Metavar("NAMES")] = Field(
        (),
        description="pod requirements that are ignored if they cannot be honoured, "
        f"comma-separated: {', '.join(IGNORABLE)}",
    )
    kubeconfig: Path | None = Field(
        None, description="kubeconfig file; default: $KUBECONFIG, in-cluster, ~/.kube/config"
    )
    cluster_id: str = Field(
        "",
        description="identity of this Kubernetes cluster; default: uid of kube-system, else of the "
        "scheduler's own namespace",
    )
    own_namespace: str = Field(
        "", description="namespace the scheduler runs in; default: that of its service account"
    )
    slurm_api_base: str = Field(
        "http://127.0.0.1:6820", description="slurmrestd: http(s)://HOST:PORT or unix:/PATH"
    )
    slurm_cluster: str = Field(
        "",
        description="Slurm's ClusterName; default: that of the first answer. Answers of any other "
        "cluster count as no answer, and nothing is written there",
    )
    slurm_auth_token_file: Path = Field(
        Path("/var/run/secrets/slurm/auth-token"),
        description="file with the JWT of a Slurm administrator, read again when it changes",
    )
    slurm_auth_token: Annotated[SecretStr, Metavar("JWT")] = Field(
        SecretStr(""),
        description="the JWT itself, as SUNK takes it, instead of the file; it cannot be renewed "
        "while the process runs",
    )
    annotation_prefix: Prefix = Field(
        "", description="a second prefix of annotations, beside SUNK's own: slurm.example.com/"
    )
    policy_file: Path | None = Field(
        None,
        description="YAML file with the site's policy (who may ask for what); read again when it "
        "changes",
    )
    slurm_kill_wait: Seconds = Field(30.0, gt=0, description="Slurm's KillWait")
    termination_offset: Seconds = Field(
        5.0,
        ge=0,
        validate_default=True,  # against KillWait
        description="a pod's grace period must be shorter than KillWait by more than this",
    )
    grace_policy: Literal["auto", "strict", "guarded"] = Field(
        "auto",
        description="strict: a pod's grace period must be shorter than KillWait; guarded: any is "
        "accepted, because Slurm's handover guard keeps the node for the pod; auto: strict, but "
        "Kubernetes' default of 30 s is accepted, too, while the guard is known to be installed; "
        "see docs/annotations.md",
    )
    gangs: Annotated[tuple[Source, ...], Metavar("SOURCES")] = Field(
        ALL_SOURCES,
        description="which pods form gangs, and get one job together, comma-separated; the first "
        "of these sources that knows a pod decides. The default has all sources; empty: no gangs",
    )
    gang_linger: Seconds = Field(
        60.0,
        ge=0,
        le=86_400,
        description="how long a gang keeps its job when no pod of it is left, for pods that its "
        "controller may make in their place",
    )
    gang_lost_slot: LostSlot = Field(
        "wait",
        description="if a pod of a gang cannot come back to its slot while others run: wait, or "
        "release: all pods of the gang end, and one job is submitted anew for them; unless the "
        "annotation gang-lost-slot says otherwise",
    )
    pods_per_node: int = Field(
        1,
        ge=1,
        le=2**16 - 3,
        description="at most this many pods of a gang on one node, unless the annotation "
        "pods-per-node says otherwise",
    )
    device_resources: Annotated[GresMap, Metavar("RESOURCE=GRES")] = Field(
        {"nvidia.com/gpu": "gpu"},
        description="pod resources that are gres in Slurm, RESOURCE=NAME or RESOURCE=NAME:TYPE, "
        "comma-separated",
    )
    gpu_types: Annotated[TypeMap, Metavar("VALUE=TYPE")] = Field(
        {}, description="the gres type for each value of a GPU type label, comma-separated"
    )
    gpu_type_keys: Annotated[tuple[str, ...], Metavar("LABELS")] = Field(
        GPU_TYPE_KEYS, description="Node labels whose values name a GPU type, comma-separated"
    )
    placeholder_mode: Literal["auto", "external", "script"] = Field(
        "auto",
        description="how pods are represented in Slurm. auto: external jobs where Slurm has them "
        "and the nodes have no slurmd or the handover guard is known to be installed, else scripts",
    )
    gpu_node_sharing: Literal["user", "node", "shared"] = Field(
        "user",
        description="who else may use a node with a slurmd while a pod with GPUs is there: jobs of "
        "the same Slurm user, nobody (node), or anybody (shared)",
    )
    suspend_policy: Literal["keep", "evict"] = Field(
        "evict",
        description="what happens to a running pod when Slurm suspends its job. keep: it goes on, "
        "beside the job that Slurm runs in its place",
    )
    eviction_policy: Literal["delete", "budget"] = Field(
        "delete",
        description="how to end a pod whose resources Slurm has taken: delete it, or use the "
        "Eviction API, so that a PodDisruptionBudget may hold it for a while",
    )
    eviction_budget_timeout: Seconds = Field(
        30.0, gt=0, description="how long a budget may hold a pod before it is deleted nevertheless"
    )
    brake_share: float = Field(
        0.25,
        gt=0,
        le=1,
        description="the brake holds pods that would end because of Slurm, if within the window "
        "they are more than this share of all pods; 1: never",
    )
    brake_minimum: int = Field(
        10, ge=0, le=100_000, description="and if they are more than this number of pods"
    )
    brake_window: Seconds = Field(
        60.0, gt=0, le=3600, description="time within which the endings of pods are counted"
    )
    brake_pause: Seconds = Field(
        30.0,
        ge=1,
        le=3600,
        description="how long the brake holds a pod, which then ends only if a later look at Slurm "
        "confirms it",
    )
    slurm_connections: int = Field(16, ge=1, le=64, description="connections to slurmrestd")
    poll_interval: Seconds = Field(
        0.25, gt=0, description="interval between requests for job states while pods wait"
    )
    idle_poll_interval: Seconds = Field(
        0.75,
        gt=0,
        description="interval between requests for job states while no pod waits; with more than "
        "250 jobs at least 2s",
    )
    running_looks_per_second: float = Field(
        10.0,
        ge=0,
        le=50,
        description="how many jobs of running pods with a GraceTime are read in full each second, "
        "to see a preemption before that is over; of other running jobs, at most two are read each "
        "second; 0: none is read",
    )
    workers: int = Field(
        48, ge=1, le=512, description="number of units that are handled at the same time"
    )
    events_per_second: float = Field(50.0, gt=0, description="limit of recorded Events per second")
    condition_interval: Seconds = Field(
        10.0, ge=1, description="the wording of a pod's condition changes no more often than this"
    )
    unschedulable_reason: str = Field(
        "",
        description="reason written in every PodScheduled=False, such as Unschedulable for "
        "autoscalers; Events keep their own. Default: the reasons in docs/events.md",
    )
    health_probe_bind_address: Listen = Field(
        Address(host=None, port=8081), description="/healthz and /readyz"
    )
    metrics_bind_address: Listen = Field(
        Address(host=None, port=8080),
        validate_default=True,  # against the other addresses
        description="/metrics",
    )
    page_bind_address: Listen = Field(
        None, description="the live page (docs/page.md), such as 127.0.0.1:8082; 0: none"
    )
    page_access: Literal["token", "open"] = Field(
        "token",
        description="who may see the live page; token: everybody whose token Kubernetes accepts, "
        "but only what they may read in Kubernetes; open: anybody who reaches the page, on a "
        "loopback address only",
    )
    hooks_api_bind_address: Listen = Field(
        Address(host=None, port=8000),
        description="the hooks API, for hook scripts and placeholders; needs the token file",
    )
    hooks_api_url: str = Field(
        "",
        description="URL at which placeholder scripts reach the hooks API from the nodes, such as "
        "https://HOST:8000; without it they end on their first signal",
    )
    hooks_api_token_file: Path | None = Field(
        None,
        validate_default=True,  # against the grace policy and the URL
        description="file with the secret of Slurm's hook scripts; several secrets: one a line. "
        "Without the file the hooks API is off",
    )
    hooks_api_tls_cert_file: Path | None = Field(
        None, description="PEM certificate chain of the hooks API, read again when it changes"
    )
    hooks_api_tls_key_file: Path | None = Field(
        None,
        validate_default=True,  # against the certificate
        description="private key of that certificate; without both, the API speaks plain HTTP",
    )
    hooks_api_ca_file: Path | None = Field(
        None,
        description="PEM certificate of the authority that signed the hooks API's certificate. "
        "Placeholder scripts get it; it is read again when it changes. Without it the "
        "nodes use their own trusted authorities",
    )
    zap_log_level: Literal["debug", "info", "warn", "error"] = Field(
        "info", description="log level"
    )
    log_format: Literal["auto", "json", "console"] = Field(
        "auto", description="json, or console for terminals"
    )
    components: tuple[Literal["scheduler"], ...] = Field(
        ("scheduler",), description="roles to run; there is one"
    )
    shutdown_grace: Seconds = Field(
        10.0, ge=0, description="time at shutdown to finish work that has begun"
    )
    leader_elect: bool = Field(
        False,
        description="elect one leader among several processes, by a Lease, while the others stand "
        "by; the Helm chart sets true",
    )
    leader_elect_lease_duration: Seconds = Field(
        15.0,
        ge=1,
        description="others may take the lease after this time without a renewal; whole seconds",
    )
    leader_elect_renew_deadline: Seconds = Field(
        10.0,
        gt=0,
        validate_default=True,  # against the duration
        description="the leader ends itself after this time without a renewal",
    )
    leader_elect_retry_period: Seconds = Field(
        2.0,
        gt=0,
        validate_default=True,  # against the deadline
        description="how often the lease is renewed; processes that stand by read it four times as "
        "often",
    )
    leader_elect_resource_name: str = Field(
        "slurm-pod-scheduler", description="name of the Lease, the same for all processes"
    )
    leader_elect_resource_namespace: str = Field(
        "", description="namespace of the Lease; default: that of --own-namespace"
    )

    @property
    def gpu_resources(self) -> frozenset[str]:
        """The pod resources that are GPUs in Slurm."""
        devices = self.device_resources.items()
        return frozenset(name for name, gres in devices if gres.partition(":")[0] == "gpu")

    @property
    def strategies(self) -> tuple[Strategy, ...]:
        """`node_mapping`, parsed."""
        return tuple(map(Strategy.parse, self.node_mapping))

    @field_validator("node_mapping")
    @classmethod
    def _mappings(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        parsed = list(map(Strategy.parse, value))
        if not parsed or len(set(parsed)) < len(parsed):
            raise ValueError("expected at least one mapping, and each of them once")
        return value

    @field_validator("gangs")
    @classmethod
    def _sources(cls, value: tuple[Source, ...]) -> tuple[Source, ...]:
        if len(set(value)) < len(value):
            raise ValueError("expected each source once")
        return value

    @field_validator("watch_namespace")
    @classmethod
    def _namespaces(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        wrong = [name for name in value if not _NAMESPACE.fullmatch(name)]
        if wrong:
            raise ValueError(f"{wrong[0]!r} is no namespace; expected names such as team-a,team-b")
        return tuple(dict.fromkeys(value))

    @field_validator(
        *("watch_namespace", "node_mapping", "components", "gpu_type_keys"),
        *("ignored_requirements", "gangs"),
        mode="before",
    )
    @classmethod
    def _comma_list(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @field_validator("slurm_api_base")
    @classmethod
    def _reachable(cls, value: str) -> str:
        check_base_url(value)
        return value

    @property
    def serves_hooks(self) -> bool:
        """Whether the hooks API is on: it has a secret and an address."""
        return self.hooks_api_token_file is not None and self.hooks_api_bind_address is not None

    @field_validator("slurm_auth_token")
    @classmethod
    def _a_token(cls, value: SecretStr) -> SecretStr:
        given = value.get_secret_value()
        if _UNSET_VARIABLE.fullmatch(given):
            raise ValueError(f"expected a JWT; the container has no variable for {given}")
        if given:
            _check_token(given)
        return value

    @field_validator("metrics_bind_address", "page_bind_address")
    @classmethod
    def _apart(cls, value: Address | None, info: ValidationInfo) -> Address | None:
        if value is not None and (other := _met(value, info)):
            raise ValueError(f"expected another port than {other}")
        return value

    @field_validator("hooks_api_bind_address")
    @classmethod
    def _asked_by_the_guard(cls, value: Address | None, info: ValidationInfo) -> Address | None:
        if value is None and info.data.get("grace_policy") == "guarded":
            raise ValueError(
                "expected HOST:PORT with --grace-policy=guarded: the guard asks the hooks API"
            )
        return value

    @field_validator("hooks_api_url")
    @classmethod
    def _url(cls, value: str, info: ValidationInfo) -> str:
        if value and _URL.fullmatch(value) is None:
            raise ValueError("expected http(s)://HOST[:PORT], without a path")
        if value and info.data.get("hooks_api_bind_address", ()) is None:
            raise ValueError("expected --hooks-api-bind-address=HOST:PORT beside it, not 0")
        return value

    @field_validator("hooks_api_token_file")
    @classmethod
    def _shared(cls, value: Path | None, info: ValidationInfo) -> Path | None:
        if value is None and info.data.get("grace_policy") == "guarded":
            raise ValueError(
                "expected a file with --grace-policy=guarded: the guard asks the hooks API"
            )
        if value is None and info.data.get("hooks_api_url"):
            raise ValueError("expected a file with a secret, since --hooks-api-url is given")
        address = info.data.get("hooks_api_bind_address")
        if value is not None and address is not None and (other := _met(address, info)):
            raise ValueError(
                f"expected --hooks-api-bind-address with another port than {other}: with this "
                "file the hooks API is on"
            )
        return value

    @field_validator("hooks_api_tls_key_file")
    @classmethod
    def _of_a_certificate(cls, value: Path | None, info: ValidationInfo) -> Path | None:
        if (value is None) != (info.data.get("hooks_api_tls_cert_file") is None):
            raise ValueError("expected both --hooks-api-tls-cert-file and this, or neither")
        return value

    @field_validator("hooks_api_ca_file")
    @classmethod
    def _for_https(cls, value: Path | None, info: ValidationInfo) -> Path | None:
        url = info.data.get("hooks_api_url")
        if value is not None and url is not None and not url.startswith("https:"):
            raise ValueError(f"expected --hooks-api-url=https://HOST beside it, not {url!r}")
        return value

    @field_validator("page_access")
    @classmethod
    def _for_this_machine_alone(cls, value: str, info: ValidationInfo) -> str:
        address = info.data.get("page_bind_address")
        if value == "open" and address is not None and address.host not in _LOOPBACK:
            raise ValueError(
                f"expected --page-bind-address=127.0.0.1:PORT beside it, not {address}: the page "
                "shows pods of all namespaces"
            )
        return value

    @field_validator("leader_elect_lease_duration")
    @classmethod
    def _whole(cls, value: float) -> float:
        if value != int(value):
            raise ValueError("expected whole seconds: a Lease stores no fractions")
        return value

    @field_validator("leader_elect_renew_deadline")
    @classmethod
    def _within_the_lease(cls, value: float, info: ValidationInfo) -> float:
        lease = info.data.get("leader_elect_lease_duration")
        if lease is not None and value >= lease:
            raise ValueError(
                f"expected less than {lease:g}s, which is --leader-elect-lease-duration: the "
                "leader has to end before another may lead"
            )
        return value

    @field_validator("leader_elect_retry_period")
    @classmethod
    def _within_the_deadline(cls, value: float, info: ValidationInfo) -> float:
        deadline = info.data.get("leader_elect_renew_deadline")
        if deadline is not None and value * JITTER_FACTOR >= deadline:
            raise ValueError(
                f"expected less than {deadline / JITTER_FACTOR:.3g}s: {JITTER_FACTOR:g} times it "
                f"must be below --leader-elect-renew-deadline, which is {deadline:g}s"
            )
        return value

    @field_validator("leader_elect_resource_name")
    @classmethod
    def _an_object(cls, value: str) -> str:
        if _OBJECT.fullmatch(value) is None or len(value) > _LONGEST_OBJECT:
            raise ValueError("expected a name of small letters, digits, '-' and '.'")
        return value

    @field_validator("leader_elect_resource_namespace")
    @classmethod
    def _a_namespace(cls, value: str) -> str:
        if value and _NAMESPACE.fullmatch(value) is None:
            raise ValueError("expected the name of a namespace")
        return value

    @field_validator("termination_offset")
    @classmethod
    def _leaves_a_grace(cls, value: float, info: ValidationInfo) -> float:
        kill_wait = info.data.get("slurm_kill_wait")
        if kill_wait is not None and kill_wait - value <= 1:
            raise ValueError(
                f"expected less than {kill_wait - 1:g}, which is --slurm-kill-wait minus 1 s: "
                "no grace period would be short enough"
            )
        return value

    @field_validator("unschedulable_reason")
    @classmethod
    def _a_reason(cls, value: str) -> str:
        if value and _REASON.fullmatch(value) is None:
            raise ValueError("expected a word in CamelCase, such as Unschedulable")
        return value

    @field_validator("scheduler_name")
    @classmethod
    def _named(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("expected a name, as pods give it in spec.schedulerName")
        return value
