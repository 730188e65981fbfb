"""One frozen tree of settings, from flags, environment variables and a file, in that order.

Flag names are those of the SUNK Pod Scheduler where it has them. The environment variable of
`--slurm-api-base` is `SLURM_POD_SCHEDULER_SLURM_API_BASE`, its key in the file `slurm-api-base`.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from scheduler.core.mapping import Strategy
from slurmapi import check_base_url

ENV_PREFIX: Final = "SLURM_POD_SCHEDULER_"
# Kubernetes gives every pod these for each Service of its namespace; ours may bear our own name.
_SERVICE_VARIABLE: Final = re.compile(
    r"(?:\w+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT(?:_\d+_(?:TCP|UDP|SCTP)(?:_\w+)?)?)"
)
_PART: Final = r"(\d+(?:\.\d+)?)(ms|s|m|h)"
_DURATION: Final = re.compile(rf"\d+(?:\.\d+)?|(?:{_PART})+")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_ADDRESS: Final = re.compile(r"(?P<host>[^:\s]*|\[[0-9a-fA-F:.]+\]):(?P<port>\d{1,5})")


class SettingsError(Exception):
    """What is wrong with the settings, one line a problem."""


class Address(BaseModel):
    """Where to listen: `:8081`, `127.0.0.1:8081`, `[::1]:8081`; `0` listens nowhere."""

    model_config = ConfigDict(frozen=True)
    host: str | None
    port: int

    def __str__(self) -> str:
        return f"{self.host or ''}:{self.port}"


def _seconds(value: object) -> object:
    if not isinstance(value, str):
        return value
    text = value.strip()
    if _DURATION.fullmatch(text) is None:
        raise ValueError("expected a duration such as 30s, 500ms or 1m30s")
    parts = re.findall(_PART, text)
    return sum(float(number) * _UNITS[unit] for number, unit in parts) if parts else float(text)


def _address(value: object) -> object:
    if value in ("0", 0):
        return None
    if not isinstance(value, str):
        return value
    match = _ADDRESS.fullmatch(value)
    if match is None or int(match["port"]) > 65535:
        raise ValueError("expected HOST:PORT or :PORT, or 0 for none")
    return Address(host=match["host"].strip("[]") or None, port=int(match["port"]))


Seconds = Annotated[float, BeforeValidator(_seconds)]
Listen = Annotated[Address | None, BeforeValidator(_address)]


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
        description="how a Slurm node finds its Kubernetes Node, tried in this order",
    )
    node_access: Literal["auto", "read", "none"] = Field(
        "auto",
        description="whether Nodes are read, to check that a pod may go there; auto: if allowed",
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
    slurm_auth_token_file: Path = Field(
        Path("/var/run/secrets/slurm/auth-token"),
        description="file with the JWT of a Slurm operator, read again when it changes",
    )
    slurm_kill_wait: Seconds = Field(30.0, gt=0, description="Slurm's KillWait")
    termination_offset: Seconds = Field(
        5.0,
        ge=0,
        validate_default=True,  # against KillWait
        description="a pod's grace must be below KillWait by more than this",
    )
    placeholder_mode: Literal["auto", "external", "script"] = Field(
        "auto", description="how pods are represented in Slurm"
    )
    slurm_connections: int = Field(16, ge=1, le=64, description="connections to slurmrestd")
    poll_interval: Seconds = Field(
        0.25, gt=0, description="how often job states are asked for while pods wait"
    )
    idle_poll_interval: Seconds = Field(
        2.0, gt=0, description="how often job states are asked for while none waits"
    )
    workers: int = Field(48, ge=1, le=512, description="units worked on at the same time")
    events_per_second: float = Field(50.0, gt=0, description="recorded Events, at most")
    health_probe_bind_address: Listen = Field(
        Address(host=None, port=8081), description="/healthz and /readyz"
    )
    metrics_bind_address: Listen = Field(Address(host=None, port=8080), description="/metrics")
    hooks_api_bind_address: Listen = Field(
        Address(host=None, port=8000), description="hints from Slurm's hook scripts"
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
    shutdown_grace: Seconds = Field(10.0, ge=0, description="time to finish what is being done")

    @property
    def strategies(self) -> tuple[Strategy, ...]:
        """`node_mapping`, understood."""
        return tuple(map(Strategy.parse, self.node_mapping))

    @field_validator("node_mapping")
    @classmethod
    def _mappings(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        parsed = list(map(Strategy.parse, value))
        if not parsed or len(set(parsed)) < len(parsed):
            raise ValueError("expected at least one mapping, and each of them once")
        return value

    @field_validator("watch_namespace")
    @classmethod
    def _namespaces(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        wrong = [name for name in value if not _NAMESPACE.fullmatch(name)]
        if wrong:
            raise ValueError(f"{wrong[0]!r} is no namespace; expected names such as team-a,team-b")
        return tuple(dict.fromkeys(value))

    @field_validator("watch_namespace", "node_mapping", "components", mode="before")
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

    @field_validator("scheduler_name")
    @classmethod
    def _named(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("expected a name, as pods give it in spec.schedulerName")
        return value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Every field as a flag, and `--config` for the file."""
    parser.add_argument(
        "--config", metavar="FILE", help="YAML file of settings, flag names as keys"
    )
    for name, field in Settings.model_fields.items():
        default = _shown(field.default)
        parser.add_argument(
            f"--{_flag(name)}",
            dest=name,
            default=argparse.SUPPRESS,
            metavar=name.rsplit("_", 1)[-1].upper(),
            help=_help(field.description or "", default).replace("%", "%%"),
        )


def _help(description: str, default: str) -> str:
    return description if default == "none" else f"{description} (default: {default})"


def load(arguments: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings; raises SettingsError naming flag, value and what is accepted."""
    given = vars(arguments)
    values: dict[str, Any] = _from_file(given.get("config"))
    values |= _from_environment(environ)
    values |= {
        _flag(name): given[name] for name in Settings.model_fields if given.get(name) is not None
    }
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        raise SettingsError("\n".join(_problem(part) for part in error.errors())) from None


def describe() -> Sequence[tuple[str, str, str]]:
    """Flag, default and meaning of each setting, for the documentation."""
    return [
        (f"--{_flag(name)}", _shown(field.default), field.description or "")
        for name, field in Settings.model_fields.items()
    ]


def _flag(name: str) -> str:
    return name.replace("_", "-")


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple):
        return ",".join(value) or "none"
    return "none" if value in (None, "") else str(value)


def _from_file(path: str | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SettingsError(f"--config {path}: {error}") from None
    if not isinstance(content, dict | None):
        raise SettingsError(f"--config {path}: expected keys and values, such as scheduler-name: x")
    return dict(content or {})


def _from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    known = {ENV_PREFIX + name.upper(): _flag(name) for name in Settings.model_fields}
    ours = [name for name in environ if name.startswith(ENV_PREFIX)]
    strange = [name for name in ours if name not in known]
    unknown = sorted(name for name in strange if not _of_a_service(name))
    if unknown:
        raise SettingsError(f"environment variables without a meaning: {', '.join(unknown)}")
    return {known[name]: environ[name] for name in ours if name in known}


def _of_a_service(name: str) -> bool:
    return _SERVICE_VARIABLE.fullmatch(name.removeprefix(ENV_PREFIX)) is not None


def _problem(error: Any) -> str:
    flag = "--" + ".".join(str(part) for part in error["loc"][:1])
    if error["type"] in {"extra_forbidden", "invalid_key"}:
        return f"{flag}: there is no such setting"
    message = error["msg"].removeprefix("Value error, ")
    return f"{flag}: {error['input']!r}: {message}"
