"""Reads a policy file, and reports all of its faults at once, as text for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from groundwork.files import Signature, read_at_rest, read_bounded
from scheduler.config import strict_yaml
from scheduler.config.wrong_values import abridged, expected, nearest
from scheduler.core.gang_sources import ALL_SOURCES, Source
from scheduler.kube.clip import clipped
from scheduler.policy.compiled import compiled
from scheduler.policy.document import Document, Expression, RuleDocument, SelectorDocument
from scheduler.policy.rules import Policy, Subject

MOST_POLICY_BYTES: Final = 1024 * 1024  # what a ConfigMap can hold
MOST_RULES: Final = 5000
"""The most rules of a file: one for each namespace of a large cluster. The first pod of each
namespace is compared with all of them.
"""
MOST_FAULTS: Final = 10
"""How many faults of a file are reported at once. The next ones show when these are corrected."""
_FAULT_BYTES: Final = 180
# Keys that the file may have, to propose one for a misspelt key.
_KEYS: Final = tuple(
    dict.fromkeys(
        field.alias or name
        for shape in (Document, RuleDocument, SelectorDocument, Expression)
        for name, field in shape.model_fields.items()
    )
)


class PolicyError(Exception):
    """A policy file is wrong. The text has a line for each fault, which names the file."""


def read_policy(path: Path, *, gangs: Sequence[Source] = ALL_SOURCES) -> Policy:
    """The policy of that file. `gangs` are the site's sources of gangs. Blocks; raises
    PolicyError.
    """
    try:
        content = read_bounded(path, most_bytes=MOST_POLICY_BYTES)
    except OSError as error:
        raise _unreadable(path, error) from None
    return understood(path, content, gangs=gangs)


def changed(path: Path, known: Signature | None) -> tuple[Signature, bytes] | None:
    """The content of the file, as from read_at_rest, through any links. Blocks; raises
    PolicyError.
    """
    try:
        return read_at_rest(path, known, most_bytes=MOST_POLICY_BYTES)
    except OSError as error:
        raise _unreadable(path, error) from None


def understood(path: Path, content: bytes, *, gangs: Sequence[Source] = ALL_SOURCES) -> Policy:
    """The policy in a file with this content; `path` is for messages. Raises PolicyError."""
    if len(content) > MOST_POLICY_BYTES:
        raise PolicyError(f"{path}: expected at most {MOST_POLICY_BYTES} bytes")
    try:
        return _understood(path, _parsed(path, content), gangs)
    except (ValueError, RecursionError) as error:  # too long a number, or nested too deeply
        raise PolicyError(f"{path}: {error}") from None


def _unreadable(path: Path, error: OSError) -> PolicyError:
    return PolicyError(f"{path}: {error.strerror or error}")


def _understood(path: Path, raw: object, gangs: Sequence[Source]) -> Policy:
    count = _rules_in(raw)
    if count > MOST_RULES:
        raise PolicyError(f"{path}: rules: {count} of them: expected at most {MOST_RULES}")
    try:
        document = Document.model_validate(raw)
    except ValidationError as error:
        first = (_fault(raw, part) for part in error.errors(include_url=False))
        raise PolicyError(_report(path, first, count=error.error_count())) from None
    policy, faults = compiled(document, gangs)
    if faults:
        raise PolicyError(_report(path, faults, count=len(faults)))
    policy.about(Subject(namespace=""))  # compiles the patterns now, not at the first pod
    return policy


def _rules_in(raw: object) -> int:
    rules = raw.get("rules") if isinstance(raw, dict) else None
    return len(rules) if isinstance(rules, list) else 0


def _report(path: Path, faults: Iterable[str], *, count: int) -> str:
    """The first faults, one a line, and how many more there are."""
    lines = [f"{path}: {clipped(fault, _FAULT_BYTES)}" for fault in islice(faults, MOST_FAULTS)]
    if count > MOST_FAULTS:
        lines.append(f"{path}: and {count - MOST_FAULTS} more faults")
    return "\n".join(lines)


def _parsed(path: Path, found: bytes) -> object:
    try:
        return strict_yaml.load(found)
    except ValueError as error:
        raise PolicyError(f"{path}{error}") from None


def _fault(raw: object, error: Any) -> str:
    location: tuple[str | int, ...] = error["loc"]
    if not location:
        return "expected the key rules, with a list of rules"
    where = _where(raw, location)
    if error["type"] in {"extra_forbidden", "invalid_key"}:
        return f"{where}: there is no such key{nearest(str(location[-1]), _KEYS)}"
    if error["type"] == "missing":
        return f"{where}: expected a value: it is missing"
    if error["type"] == "value_error" and isinstance(error["input"], Mapping):
        return f"{where}: {expected(error)}"
    return f"{where}: {abridged(error['input'])}: {expected(error)}"


def _where(raw: object, location: tuple[str | int, ...]) -> str:
    """The rule by its name where it has one, then the keys that lead to the fault."""
    keys = list(location)
    rule = ""
    if len(keys) > 1 and keys[0] == "rules" and isinstance(keys[1], int):
        rule = f"rule {_name(raw, keys[1])}"
        keys = keys[2:]
    path = "".join(f"[{it}]" if isinstance(it, int) else f".{_key(it)}" for it in keys).lstrip(".")
    return f"{rule}: {path}" if rule and path else rule or path


def _key(text: str) -> str:
    return text if text.isprintable() else repr(text)


def _name(raw: Any, index: int) -> str:
    rules = raw.get("rules") if isinstance(raw, dict) else None
    rule = rules[index] if isinstance(rules, list) else None
    name = rule.get("name") if isinstance(rule, dict) else None
    return repr(name) if isinstance(name, str) and name else f"number {index + 1}"
