"""Reads the settings from flags, environment variables and a file. Also writes their help.

A flag wins over a variable, and a variable wins over the file. For `--slurm-api-base` the variable
is `SLURM_POD_SCHEDULER_SLURM_API_BASE` and the key in the file is `slurm-api-base`. An error names
the place where the wrong value was given: flag, variable, or file and key.

The settings themselves are the fields of `Settings` (`settings.py`), in the groups of `groups.py`.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any, Final, Literal, NamedTuple, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic import SecretStr, ValidationError
from pydantic.fields import FieldInfo

from scheduler.config import strict_yaml
from scheduler.config.groups import GROUPS
from scheduler.config.settings import DURATION, ENV_PREFIX, Metavar, Settings, SettingsError
from scheduler.config.wrong_values import expected, nearest
from scheduler.observe.redacted import redacted

# Kubernetes sets such variables in every pod for each Service of its namespace. If a Service has
# our own name, they begin with our prefix.
_SERVICE_VARIABLE: Final = re.compile(
    r"(?:\w+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT(?:_\d+_(?:TCP|UDP|SCTP)(?:_\w+)?)?)"
)
_WORDS: Final[Mapping[Any, str]] = {
    bool: "true|false",
    int: "NUMBER",
    float: "NUMBER",
    Path: "FILE",
}
# For a flag that may be given without a value, as Go's boolean flags may.
_BARE: Final[Mapping[str, Any]] = {"nargs": "?", "const": "true"}
# Forms that say which values are accepted. All other forms only name the value.
_SAID: Final = {
    "NUMBER": "number",
    "DURATION": "duration",
    "FILE": "file",
    "HOST:PORT": "HOST:PORT",
}


class _Given(NamedTuple):
    """A value, and what people call the place where they gave it."""

    value: Any
    name: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add a flag for every field, by group, and `--config` for the file."""
    parser.add_argument(
        "--config", metavar="FILE", help="YAML file of settings, flag names as keys"
    )
    for title, names in GROUPS.items():
        group = parser.add_argument_group(title)
        for name in names:
            add_argument(group, name)


def add_argument(group: argparse._ActionsContainer, name: str) -> None:
    """Add the flag of one field, to a group or to the parser of another command."""
    field = Settings.model_fields[name]
    group.add_argument(
        f"--{_flag_name(name)}",
        dest=name,
        default=argparse.SUPPRESS,
        metavar=_form(name, field),
        **_BARE if _value_type(field) is bool else {},
        help=_help(field).replace("%", "%%"),
    )


def load_settings(
    arguments: argparse.Namespace, environ: Mapping[str, str] = os.environ
) -> Settings:
    """The settings. Raises SettingsError, which names each fault, its value and what is
    accepted.
    """
    flags = vars(arguments)
    given = {
        **_from_file(flags.get("config")),
        **_from_environment(environ),
        **_from_flags(flags),
    }
    try:
        return Settings.model_validate({key: it.value for key, it in given.items()})
    except ValidationError as error:
        raise SettingsError("\n".join(_problem(part, given) for part in error.errors())) from None


def describe() -> Mapping[str, Sequence[tuple[str, str, str, str]]]:
    """Flag, accepted values, default and meaning of each setting by group, for the
    documentation.
    """
    return {title: [_described(name) for name in names] for title, names in GROUPS.items()}


def _described(name: str) -> tuple[str, str, str, str]:
    field = Settings.model_fields[name]
    return (
        f"--{_flag_name(name)}",
        _accepted_values(name, field),
        _default(field),
        field.description or "",
    )


def near(word: str) -> str:
    """For an unknown flag: the flag that may have been meant, as the ending of a message."""
    known = [f"--{_flag_name(name)}" for name in Settings.model_fields]
    return nearest(word.partition("=")[0], known, show=str) if word.startswith("--") else ""


def _flag_name(name: str) -> str:
    return name.replace("_", "-")


# --- the help -------------------------------------------------------------------------------------


def _help(field: FieldInfo) -> str:
    default = _default(field)
    notes = [_bounds(field), "" if default == "none" else f"default: {default}"]
    remarks = "; ".join(filter(None, notes))
    return f"{field.description} ({remarks})" if remarks else field.description or ""


def _form(name: str, field: FieldInfo) -> str:
    """One word for how a value is written, or its choices if there are any."""
    written = [it.word for it in field.metadata if isinstance(it, Metavar)]
    kind = _value_type(field)
    if written:
        return written[0]
    if get_origin(kind) is Literal:
        return "|".join(map(str, get_args(kind)))
    return _WORDS.get(kind, name.rsplit("_", 1)[-1].upper())


def _accepted_values(name: str, field: FieldInfo) -> str:
    """The accepted values, for the documentation."""
    form = _form(name, field)
    if "|" in form:
        return ", ".join(f"`{it}`" for it in form.split("|"))
    return ", ".join(filter(None, (_SAID.get(form, ""), _bounds(field))))


def _value_type(field: FieldInfo) -> Any:
    """The type of one value: the inner type of an optional field or of a tuple."""
    kinds = [it for it in get_args(field.annotation) if it not in {NoneType, Ellipsis}]
    is_literal = get_origin(field.annotation) is Literal
    return kinds[0] if kinds and not is_literal else field.annotation


def _bounds(field: FieldInfo) -> str:
    """`1 to 64` or `at least 0s`; "" if there are no limits."""
    shown = {
        type(it): _value_text(_limit_value(it), field)
        for it in field.metadata
        if _limit_value(it) is not None
    }
    if Ge in shown and Le in shown:
        return f"{shown[Ge]} to {shown[Le]}"
    if Gt in shown:
        return f"above {shown[Gt]}"
    words = {Ge: "at least", Le: "at most"}
    return "".join(f"{word} {shown[kind]}" for kind, word in words.items() if kind in shown)


def _limit_value(limit: object) -> Any:
    match limit:
        case Ge(ge=bound) | Gt(gt=bound) | Le(le=bound):
            return bound
        case _:
            return None


def _default(field: FieldInfo) -> str:
    return _value_text(field.default, field)


def _value_text(value: object, field: FieldInfo) -> str:
    """The value as the help shows it, in the form in which a flag takes it."""
    if isinstance(value, dict):
        value = tuple(f"{key}={item}" for key, item in value.items())
    if isinstance(value, tuple):
        return ",".join(value) or "none"
    if DURATION in field.metadata and isinstance(value, int | float):
        return _duration(value)
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value is None else str(value) or "none"


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:g}ms" if 0 < seconds < 1 else f"{seconds:g}s"


# --- the three sources ----------------------------------------------------------------------------


def _from_flags(flags: Mapping[str, Any]) -> dict[str, _Given]:
    return {
        _flag_name(name): _Given(flags[name], f"--{_flag_name(name)}")
        for name in Settings.model_fields
        if flags.get(name) is not None
    }


def _from_file(path: str | None) -> dict[str, _Given]:
    if path is None:
        return {}
    try:
        content = strict_yaml.load(Path(path).read_bytes())
    except OSError as error:
        raise SettingsError(f"--config {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise SettingsError(f"--config {path}{error}") from None
    if not isinstance(content, dict | None):
        raise SettingsError(f"--config {path}: expected keys and values, such as scheduler-name: x")
    # YAML reads some keys as something else: `null:` as None.
    return {str(key): _Given(it, f"--config {path}: {key}") for key, it in (content or {}).items()}


def _from_environment(environ: Mapping[str, str]) -> dict[str, _Given]:
    known = {ENV_PREFIX + name.upper(): _flag_name(name) for name in Settings.model_fields}
    ours = [name for name in environ if name.startswith(ENV_PREFIX)]
    unknown = [name for name in ours if name not in known and not _of_a_service(name)]
    if unknown:
        raise SettingsError("\n".join(_no_such(name, name, known) for name in sorted(unknown)))
    return {known[name]: _Given(environ[name], name) for name in ours if name in known}


def _of_a_service(name: str) -> bool:
    """Whether Kubernetes has set this variable, for a Service that has the scheduler's name."""
    return _SERVICE_VARIABLE.fullmatch(name.removeprefix(ENV_PREFIX)) is not None


# --- what is wrong --------------------------------------------------------------------------------


def _problem(error: Any, given: Mapping[str, _Given]) -> str:
    key = error["loc"][0]
    if key not in given:  # a default has the name of its field
        key = _flag_name(key)
    where = given[key].name if key in given else f"--{key}"
    if error["type"] in {"extra_forbidden", "invalid_key"}:
        return _no_such(where, str(key), map(_flag_name, Settings.model_fields))
    value = given[key].value if key in given else error["input"]
    shown = "" if _secret(key) else f"{redacted(repr(value))}: "
    return f"{where}: {shown}{_accepted(error, key)}"


def _secret(key: str) -> bool:
    return isinstance(Settings.model_fields[key.replace("-", "_")].default, SecretStr)


def _no_such(where: str, name: str, known: Iterable[str]) -> str:
    return f"{redacted(where)}: there is no such setting{nearest(name, known)}"


def _accepted(error: Any, key: str) -> str:
    """What would be accepted. Limits of a duration get the unit s."""
    field = Settings.model_fields.get(str(key).replace("-", "_"))
    accepted = expected(error)
    limited = error["type"].startswith(("greater_than", "less_than"))
    return (
        f"{accepted}s" if limited and field is not None and DURATION in field.metadata else accepted
    )
