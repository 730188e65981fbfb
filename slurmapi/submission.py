"""What a placeholder asks for, its checks, and the one JSON shape that was verified against
Slurm.

slurmrestd answers a field of a wrong type with HTTP 200 and makes no job, and reads some syntax
errors as "nothing asked" ("gpu;;1" was accepted and gave no GPU), so everything is checked here
before a byte is sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import msgspec

from slurmapi.errors import SlurmInvalid
from slurmapi.versions import ApiVersion

_DEFAULT_ENVIRONMENT: Final = MappingProxyType({"PATH": "/usr/local/bin:/usr/bin:/bin"})
_TEXT_LIMIT: Final = 1024
_GRES: Final = re.compile(r"gres/[A-Za-z][\w.-]*(:[\w.-]*[A-Za-z][\w.-]*)?:[1-9][0-9]{0,8}")
_HOST: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_WORD: Final = re.compile(r"[^\s\x00-\x1f\x7f]+")
_MAX_NUMBER: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSubmission:
    """One placeholder: `cpus`, `memory_mib` and `gres` on each of `nodes` nodes, one task per
    node.

    `external` jobs have no script and need data_parser v0.0.43; the others need a `script` and an
    `environment`. Numeric `user_id` and `group_id` may only be set with an operator's token. A
    placeholder is not requeued unless told so.
    """

    name: str
    external: bool
    script: str | None = None
    admin_comment: str
    cpus: int
    memory_mib: int
    nodes: int = 1
    gres: str | None = None
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    reservation: str | None = None
    comment: str | None = None
    time_limit_minutes: int | None = None
    required_nodes: tuple[str, ...] = ()
    excluded_nodes: tuple[str, ...] = ()
    singleton: bool = True
    held: bool = False
    environment: Mapping[str, str] = field(default_factory=lambda: _DEFAULT_ENVIRONMENT)
    working_directory: str = "/tmp"  # noqa: S108 - exists everywhere; nothing is written there
    user_id: int | None = None
    group_id: int | None = None
    kill_on_node_fail: bool = True
    requeue: bool = False


def encode(job: JobSubmission, version: ApiVersion) -> bytes:
    """The body of `POST job/submit`; raises SlurmInvalid naming every field that would not do."""
    problems = list(_problems(job))
    if job.external and not version.supports_external:
        problems.append(f"external: EXTERNAL_JOB needs v0.0.43 or newer, this server has {version}")
    if problems:
        raise SlurmInvalid("job not sent: " + "; ".join(problems))
    try:
        return msgspec.json.encode({"job": _shape(job)})
    except UnicodeEncodeError as error:
        raise SlurmInvalid(f"job not sent: text that is no UTF-8 ({error.reason})") from None


def _shape(job: JobSubmission) -> dict[str, Any]:
    """Verified on 26.05.5: without nodes, tasks and cpus_per_task a job spreads over nodes;
    `shared` would mean exclusive.
    """
    shape: dict[str, Any] = {
        "name": job.name,
        "admin_comment": job.admin_comment,
        "current_working_directory": job.working_directory,
        "environment": [f"{name}={value}" for name, value in job.environment.items()],
        "nodes": str(job.nodes),
        "tasks": job.nodes,
        "cpus_per_task": job.cpus,
        "minimum_cpus": job.cpus * job.nodes,
        "memory_per_node": {"set": True, "number": job.memory_mib},
        "requeue": job.requeue,
        "kill_on_node_fail": job.kill_on_node_fail,
    }
    optional = dict(_optional(job))
    return shape | {key: value for key, value in optional.items() if value}


def _optional(job: JobSubmission) -> Iterator[tuple[str, Any]]:
    limit = job.time_limit_minutes
    yield "flags", ["EXTERNAL_JOB"] if job.external else None
    yield "script", job.script
    yield "tres_per_node", job.gres
    yield "partition", job.partition
    yield "account", job.account
    yield "qos", job.qos
    yield "reservation", job.reservation
    yield "comment", job.comment
    yield "time_limit", {"set": True, "number": limit} if limit else None
    yield "required_nodes", list(job.required_nodes)
    yield "excluded_nodes", list(job.excluded_nodes)
    yield "dependency", "singleton" if job.singleton else None
    yield "hold", job.held
    # Strings: an integer works too, but with a warning (measured on 26.05.5).
    yield "user_id", None if job.user_id is None else str(job.user_id)
    yield "group_id", None if job.group_id is None else str(job.group_id)


def problem(name: str, value: object) -> str | None:
    """What is wrong with the value of that field of JobSubmission, None where nothing is."""
    accepts, expected = _RULES[name]
    return None if accepts(value) else f"{name} is {_shown(value)}, expected {expected}"


def _problems(job: JobSubmission) -> Iterator[str]:
    for name in _RULES:
        told = problem(name, getattr(job, name))
        if told is not None:
            yield told
    yield from _script_problems(job)


def _script_problems(job: JobSubmission) -> Iterator[str]:
    if job.external and job.script is not None:
        yield "script: an external job takes none"
    if not job.external and not (isinstance(job.script, str) and job.script.startswith("#!")):
        yield "script: a batch job needs one that begins with '#!'"
    if not job.external and not job.environment:
        yield "environment: a batch job needs at least one variable"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _TEXT_LIMIT and "\0" not in value


def _word(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _TEXT_LIMIT and bool(_WORD.fullmatch(value))


def _integer(low: int) -> Callable[[object], bool]:
    return lambda value: type(value) is int and low <= value <= _MAX_NUMBER


def _flag(value: object) -> bool:
    return isinstance(value, bool)


def _hosts(value: object) -> bool:
    return isinstance(value, tuple) and all(
        isinstance(name, str) and _HOST.fullmatch(name) for name in value
    )


def _gres(value: object) -> bool:
    return isinstance(value, str) and all(_GRES.fullmatch(part) for part in value.split(","))


def _variables(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(name, str) and isinstance(text, str) and name and "=" not in name
        and "\0" not in name + text
        for name, text in value.items()
    )  # fmt: skip


def _or_none(accepts: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or accepts(value)


_NAME_RULE: Final = (_word, "1 to 1024 characters without blanks")
_OPTIONAL_NAME: Final = (_or_none(_word), "a name without blanks")
_HOSTS_RULE: Final = (_hosts, "a tuple of host names")
_FLAG_RULE: Final = (_flag, "True or False")
_RULES: Final[Mapping[str, tuple[Callable[[object], bool], str]]] = MappingProxyType(
    {
        "name": _NAME_RULE,
        "external": _FLAG_RULE,
        # Longer than the other texts: 5000 characters were accepted (measured), and a gang names
        # all its pods here.
        "admin_comment": (lambda value: isinstance(value, str) and "\0" not in value, "text"),
        "cpus": (_integer(1), "an integer of at least 1"),
        "memory_mib": (_integer(1), "an integer of at least 1 (0 would take the whole node)"),
        "nodes": (_integer(1), "an integer of at least 1"),
        "gres": (_or_none(_gres), "'gres/NAME:COUNT' or 'gres/NAME:TYPE:COUNT'"),
        "partition": _OPTIONAL_NAME,
        "account": _OPTIONAL_NAME,
        "qos": _OPTIONAL_NAME,
        "reservation": _OPTIONAL_NAME,
        "comment": (_or_none(_text), "at most 1024 characters"),
        "time_limit_minutes": (_or_none(_integer(1)), "an integer of at least 1"),
        "required_nodes": _HOSTS_RULE,
        "excluded_nodes": _HOSTS_RULE,
        "singleton": _FLAG_RULE,
        "held": _FLAG_RULE,
        "environment": (_variables, "names and values of text"),
        "working_directory": (
            lambda value: _text(value) and str(value).startswith("/"),
            "an absolute path",
        ),
        "user_id": (_or_none(_integer(0)), "an integer of at least 0"),
        "group_id": (_or_none(_integer(0)), "an integer of at least 0"),
        "kill_on_node_fail": _FLAG_RULE,
        "requeue": _FLAG_RULE,
    }
)
