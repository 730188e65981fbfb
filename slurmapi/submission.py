"""The properties of a placeholder, their checks, and their JSON, verified against Slurm.

If a field has a wrong type, slurmrestd answers HTTP 200 and creates no job, and it reads some
syntax errors as "nothing requested" ("gpu;;1" was accepted and gave no GPU). So everything is
checked here before a byte is sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec

from slurmapi.errors import SlurmInvalid
from slurmapi.versions import ApiVersion

_DEFAULT_ENVIRONMENT: Final = MappingProxyType({"PATH": "/usr/local/bin:/usr/bin:/bin"})
# Bytes of UTF-8, as slurmctld counts (measured on 26.05.5 and 24.11.5).
_TEXT_LIMIT: Final = 1024
_GRES: Final = re.compile(r"gres/[A-Za-z][\w.-]*(:[\w.-]*[A-Za-z][\w.-]*)?:[1-9][0-9]{0,8}")
_HOST: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_WORD: Final = re.compile(r"[^\s\x00-\x1f\x7f]+")
# Terms that must all hold. With "?" between them one is enough, and `singleton` would not protect
# anything.
_DEPENDENCY: Final = re.compile(r"[a-z]+(:[0-9]+(\+[0-9]+)?)*(,[a-z]+(:[0-9]+(\+[0-9]+)?)*)*")
# slurmrestd also accepts a time in sbatch's syntax (measured on 26.05.5 and 24.11.5).
_TIME: Final = re.compile(r"[0-9a-z:T+-]+")
_SHARED: Final = ("none", "oversubscribe", "user", "mcs", "topo")
_MAX_NUMBER: Final = 2**31 - 1
# The two larger numbers have special meanings (NO_VAL and INFINITE of slurm.h).
_MAX_UNSIGNED: Final = 2**32 - 3
# slurmd opens a script's output file as the job's user, follows links, and truncates what it finds.
# So a predictable file name in any folder is a trap: a file of root with mode 0600 was emptied
# through a link, and the job fails if another user's file is in the way (both releases).
_NOWHERE: Final = "/dev/null"


class JobSubmission(msgspec.Struct, frozen=True, kw_only=True):
    """One placeholder: on each of `nodes` nodes `tasks_per_node` tasks, each of `cpus` CPUs,
    `memory_mib` and `gres`.

    With `tasks` instead of `nodes` Slurm packs this many of them on as few or as many nodes as it
    likes. Their memory then counts by CPU, rounded up, because Slurm knows no memory of a task.
    Pack tasks with `gres` only where every node has a slurmd: on EXTERNAL nodes slurmctld does not
    take it back until it is restarted (measured on 26.05.5).

    `external` jobs have no script and need data_parser v0.0.43. Other jobs need a `script` and an
    `environment`. A numeric `user_id` or `group_id` needs an operator's token. Slurm may requeue
    the job only if `requeue` is set.

    `shared` is one of Slurm's own words: "none" means exclusive. `begin` and `deadline` are Unix
    seconds or a time in sbatch's syntax. `switch_wait_seconds` needs `switches`. `contiguous` wants
    nodes that are neighbours in Slurm's order, `segment_size` groups of this many nodes near each
    other, where the topology has blocks (from v0.0.41 on). A `priority` makes Slurm ignore
    `held`. `dependency` has the terms that must hold in addition to `singleton`.
    """

    name: str
    external: bool
    script: str | None = None
    admin_comment: str
    cpus: int
    memory_mib: int
    nodes: int | None = 1
    tasks_per_node: int = 1
    tasks: int | None = None
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
    environment: Mapping[str, str] = msgspec.field(default_factory=lambda: _DEFAULT_ENVIRONMENT)
    working_directory: str = "/tmp"  # noqa: S108 - exists everywhere; nothing is written there
    user_id: int | None = None
    group_id: int | None = None
    kill_on_node_fail: bool = True
    requeue: bool = False
    priority: int | None = None
    nice: int | None = None
    constraints: str | None = None
    prefer: str | None = None
    shared: str | None = None
    licenses: str | None = None
    wckey: str | None = None
    begin: str | int | None = None
    deadline: str | int | None = None
    dependency: str | None = None
    switches: int | None = None
    switch_wait_seconds: int | None = None
    threads_per_core: int | None = None
    contiguous: bool = False
    segment_size: int | None = None

    @property
    def memory_per_cpu(self) -> int:
        """MiB for each CPU, so that a task has at least its memory."""
        return -(-self.memory_mib // self.cpus)

    @property
    def gres_per_node(self) -> str | None:
        """The gres of all tasks of a node."""
        return times(self.gres, self.tasks_per_node) if self.gres else None


def times(gres: str, count: int) -> str:
    """The gres of this many tasks: "gres/gpu:h100:2" for four of them is "gres/gpu:h100:8"."""
    split = (part.rpartition(":") for part in gres.split(","))
    return ",".join(f"{kind}:{int(number) * count}" for kind, _, number in split)


def encode_submission(
    job: JobSubmission, version: ApiVersion, *, others: Sequence[JobSubmission] = ()
) -> bytes:
    """The body of `POST job/submit`, with `others` of a heterogeneous job. Raises SlurmInvalid,
    which names every unacceptable field.
    """
    problems = list(_job_problems(job))
    for number, other in enumerate(others, 1):
        problems += (f"component {number}: {found}" for found in _job_problems(other))
    if any(other.external != job.external for other in others):
        problems.append("external: expected the same of all components")
    if job.external and not version.supports_external:
        problems.append(f"external: EXTERNAL_JOB needs v0.0.43 or newer, this server has {version}")
    if problems:
        raise SlurmInvalid("job not sent: " + "; ".join(problems))
    shapes = [_job_body(it) for it in (job, *others)]
    try:
        return msgspec.json.encode({"jobs": shapes} if others else {"job": shapes[0]})
    except UnicodeEncodeError as error:
        raise SlurmInvalid(f"job not sent: text that is no UTF-8 ({error.reason})") from None


def _job_body(job: JobSubmission) -> dict[str, Any]:
    """The job as slurmrestd takes it."""
    shape: dict[str, Any] = {
        "name": job.name,
        "admin_comment": job.admin_comment,
        "current_working_directory": job.working_directory,
        "environment": [f"{name}={value}" for name, value in job.environment.items()],
        "cpus_per_task": job.cpus,
        "requeue": job.requeue,
        "kill_on_node_fail": job.kill_on_node_fail,
    }
    layout = _packed(job) if job.nodes is None else _dealt(job, job.nodes)
    optional = dict(_optional(job)) | dict(layout) | dict(_wishes(job))
    return shape | {key: value for key, value in optional.items() if value}


def _dealt(job: JobSubmission, nodes: int) -> Iterator[tuple[str, Any]]:
    """The tasks on this many nodes. Without nodes, tasks and cpus_per_task, a job spreads over
    nodes (verified on 26.05.5). A job of several nodes names the tasks of each, so that its record
    tells them.
    """
    tasks = nodes * job.tasks_per_node
    yield "nodes", str(nodes)
    yield "tasks", tasks
    yield "tasks_per_node", job.tasks_per_node if tasks > 1 else None
    yield "minimum_cpus", job.cpus * tasks
    yield "memory_per_node", number(job.memory_mib * job.tasks_per_node)
    yield "tres_per_node", job.gres_per_node


def _packed(job: JobSubmission) -> Iterator[tuple[str, Any]]:
    """Tasks for which Slurm finds the nodes."""
    yield "tasks", job.tasks
    yield "memory_per_cpu", number(job.memory_per_cpu)
    yield "tres_per_task", job.gres


def _optional(job: JobSubmission) -> Iterator[tuple[str, Any]]:
    yield "flags", ["EXTERNAL_JOB"] if job.external else None
    yield "script", job.script
    yield "standard_output", None if job.external else _NOWHERE
    yield "standard_error", None if job.external else _NOWHERE
    yield "partition", job.partition
    yield "account", job.account
    yield "qos", job.qos
    yield "reservation", job.reservation
    yield "comment", job.comment
    yield "time_limit", number(job.time_limit_minutes)
    yield "required_nodes", list(job.required_nodes)
    yield "excluded_nodes", list(job.excluded_nodes)
    yield "dependency", ",".join(_dependencies(job))
    yield "hold", job.held
    # Strings: an integer works too, but with a warning (measured on 26.05.5).
    yield "user_id", None if job.user_id is None else str(job.user_id)
    yield "group_id", None if job.group_id is None else str(job.group_id)


def _wishes(job: JobSubmission) -> Iterator[tuple[str, Any]]:
    """When and where the job may start; each JSON shape was verified on 26.05.5 and 24.11.5."""
    yield "priority", number(job.priority)
    yield "nice", job.nice
    yield "constraints", job.constraints
    yield "prefer", job.prefer
    yield "shared", [job.shared] if job.shared else None
    yield "licenses", job.licenses
    yield "wckey", job.wckey
    yield "begin_time", job.begin if isinstance(job.begin, str) else number(job.begin)
    yield "deadline", job.deadline
    yield "required_switches", number(job.switches)
    yield "wait_for_switch", job.switch_wait_seconds
    yield "threads_per_core", job.threads_per_core
    yield "contiguous", job.contiguous
    yield "segment_size", number(job.segment_size)


def number(value: int | None) -> dict[str, Any] | None:
    """An integer that may be unset, as slurmrestd takes it; None is left out."""
    return None if value is None else {"set": True, "number": value}


def _dependencies(job: JobSubmission) -> Iterator[str]:
    if job.singleton:
        yield "singleton"
    if job.dependency:
        yield job.dependency


def problem(name: str, value: object) -> str | None:
    """What is wrong with this value of a field of JobSubmission; None if it is acceptable."""
    accepts, expected = _RULES[name]
    return None if accepts(value) else f"{name} is {_quoted(value)}, expected {expected}"


def _job_problems(job: JobSubmission) -> Iterator[str]:
    for name, default in _DEFAULTS:
        value = getattr(job, name)
        if value is not default and (found := problem(name, value)) is not None:
            yield found
    yield from _script_problems(job)
    if (job.tasks is None) == (job.nodes is None):
        yield f"tasks is {job.tasks!r:.60}, expected a number of tasks or of nodes, and not both"
    if job.tasks is not None and job.tasks_per_node != 1:
        yield f"tasks_per_node is {job.tasks_per_node!r:.60}, but Slurm is to pack the tasks"


def _script_problems(job: JobSubmission) -> Iterator[str]:
    if job.external and job.script is not None:
        yield "script: an external job takes none"
    if not job.external and not (isinstance(job.script, str) and job.script.startswith("#!")):
        yield "script: a batch job needs one that begins with '#!'"
    if not job.external and not job.environment:
        yield "environment: a batch job needs at least one variable"


def _quoted(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _is_short_text(value: object) -> bool:
    return isinstance(value, str) and _is_short(value) and "\0" not in value


def _is_word(value: object) -> bool:
    return isinstance(value, str) and _is_short(value) and bool(_WORD.fullmatch(value))


def _is_short(value: str) -> bool:
    return len(value.encode(errors="surrogatepass")) <= _TEXT_LIMIT


def _is_integer(low: int, high: int = _MAX_NUMBER) -> Callable[[object], bool]:
    return lambda value: type(value) is int and low <= value <= high


def _matches(pattern: re.Pattern[str]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, str) and bool(pattern.fullmatch(value))


def _is_moment(value: object) -> bool:
    return _is_integer(1, _MAX_UNSIGNED)(value) or _matches(_TIME)(value)


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


def _are_hosts(value: object) -> bool:
    return isinstance(value, tuple) and all(
        isinstance(name, str) and _HOST.fullmatch(name) for name in value
    )


def _is_gres(value: object) -> bool:
    return isinstance(value, str) and all(_GRES.fullmatch(part) for part in value.split(","))


def _is_environment(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(name, str) and isinstance(text, str) and name and "=" not in name
        and "\0" not in name + text
        for name, text in value.items()
    )  # fmt: skip


def _or_none(accepts: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or accepts(value)


_NAME_RULE: Final = (_is_word, "1 to 1024 bytes without blanks")
_OPTIONAL_NAME: Final = (_or_none(_is_word), "a name without blanks")
_HOSTS_RULE: Final = (_are_hosts, "a tuple of host names")
_FLAG_RULE: Final = (_is_bool, "True or False")
_UNSIGNED: Final = (
    _or_none(_is_integer(0, _MAX_UNSIGNED)),
    f"an integer from 0 to {_MAX_UNSIGNED}",
)
_MOMENT_RULE: Final = (_or_none(_is_moment), "seconds of the epoch, or a time such as 'now+1hour'")
_RULES: Final[Mapping[str, tuple[Callable[[object], bool], str]]] = MappingProxyType(
    {
        "name": _NAME_RULE,
        "external": _FLAG_RULE,
        # May be longer than the other texts: 5000 characters were accepted (measured), and a gang's
        # tag contains all its pods.
        "admin_comment": (lambda value: isinstance(value, str) and "\0" not in value, "text"),
        "cpus": (_is_integer(1), "an integer of at least 1"),
        "memory_mib": (_is_integer(1), "an integer of at least 1 (0 would take the whole node)"),
        "nodes": (_or_none(_is_integer(1)), "an integer of at least 1"),
        "tasks": (_or_none(_is_integer(1)), "an integer of at least 1"),
        # Slurm keeps it in 16 bits, of which the two largest numbers have special meanings.
        "tasks_per_node": (_is_integer(1, 2**16 - 3), "an integer from 1 to 65533"),
        "gres": (_or_none(_is_gres), "'gres/NAME:COUNT' or 'gres/NAME:TYPE:COUNT'"),
        "partition": _OPTIONAL_NAME,
        "account": _OPTIONAL_NAME,
        "qos": _OPTIONAL_NAME,
        "reservation": _OPTIONAL_NAME,
        "comment": (_or_none(_is_short_text), "at most 1024 bytes"),
        "time_limit_minutes": (_or_none(_is_integer(1)), "an integer of at least 1"),
        "required_nodes": _HOSTS_RULE,
        "excluded_nodes": _HOSTS_RULE,
        "singleton": _FLAG_RULE,
        "held": _FLAG_RULE,
        "environment": (_is_environment, "names and values of text"),
        "working_directory": (
            lambda value: _is_short_text(value) and str(value).startswith("/"),
            "an absolute path",
        ),
        "user_id": (_or_none(_is_integer(0)), "an integer of at least 0"),
        "group_id": (_or_none(_is_integer(0)), "an integer of at least 0"),
        "kill_on_node_fail": _FLAG_RULE,
        "requeue": _FLAG_RULE,
        "priority": _UNSIGNED,
        "nice": (
            _or_none(_is_integer(2 - _MAX_NUMBER, _MAX_NUMBER - 2)),
            "an integer within +/- 2147483645",
        ),
        "constraints": _OPTIONAL_NAME,
        "prefer": _OPTIONAL_NAME,
        "shared": (_or_none(lambda value: value in _SHARED), f"one of {', '.join(_SHARED)}"),
        "licenses": _OPTIONAL_NAME,
        "wckey": _OPTIONAL_NAME,
        "begin": _MOMENT_RULE,
        "deadline": _MOMENT_RULE,
        "dependency": (_or_none(_matches(_DEPENDENCY)), "'KIND:JOB' terms joined by commas"),
        "switches": (_or_none(_is_integer(1)), "an integer of at least 1"),
        "switch_wait_seconds": (_or_none(_is_integer(1)), "an integer of at least 1"),
        "threads_per_core": (_or_none(_is_integer(1, 2**16 - 3)), "an integer from 1 to 65533"),
        "contiguous": _FLAG_RULE,
        "segment_size": (_or_none(_is_integer(1, 2**16 - 3)), "an integer from 1 to 65533"),
    }
)
# Most fields of most jobs have their defaults, which need no check.
_DEFAULTS: Final = tuple(
    (it.name, it.default) for it in msgspec.structs.fields(JobSubmission) if it.name in _RULES
)
