"""Reads a policy file; all that is wrong with it is told at once, in lines for people."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from scheduler import strictyaml
from scheduler.plain import expected, nearest, shown
from scheduler.policy.compiled import compiled
from scheduler.policy.document import Document, Expression, LabelSelector, RuleDocument
from scheduler.policy.rules import Policy
from slurmapi.files import Signature, read_if_changed

_MAX_BYTES: Final = 1024 * 1024  # what a ConfigMap can hold
# Keys that the file may have, for proposals.
_KEYS: Final = tuple(
    dict.fromkeys(
        field.alias or name
        for shape in (Document, RuleDocument, LabelSelector, Expression)
        for name, field in shape.model_fields.items()
    )
)


class PolicyError(Exception):
    """What is wrong with a policy file: one line a fault, each naming the file."""


def read(path: Path) -> Policy:
    """The policy of that file. Blocks; raises PolicyError."""
    found = changed(path, None)
    return understood(path, found[1] if found is not None else b"")


def changed(path: Path, known: Signature | None) -> tuple[Signature | None, bytes] | None:
    """As read_if_changed, whatever links lead to the file. Blocks; raises PolicyError."""
    try:
        found = read_if_changed(path, known, most_bytes=_MAX_BYTES)
    except OSError as error:
        raise PolicyError(f"{path}: {error.strerror or error}") from None
    if found is not None and len(found[1]) > _MAX_BYTES:
        raise PolicyError(f"{path}: expected at most {_MAX_BYTES} bytes")
    return found


def understood(path: Path, found: bytes) -> Policy:
    """The policy that is written there. Raises PolicyError."""
    try:
        return _understood(path, _parsed(path, found))
    except (ValueError, RecursionError) as error:  # a number or a nesting beyond all measure
        raise PolicyError(f"{path}: {error}") from None


def _understood(path: Path, raw: object) -> Policy:
    try:
        document = Document.model_validate(raw)
    except ValidationError as error:
        told = (f"{path}: {_fault(raw, part)}" for part in error.errors())
        raise PolicyError("\n".join(told)) from None
    policy, faults = compiled(document)
    if faults:
        raise PolicyError("\n".join(f"{path}: {fault}" for fault in faults))
    return policy


def _parsed(path: Path, found: bytes) -> object:
    try:
        return strictyaml.load(found)
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
    return f"{where}: {shown(error['input'])}: {expected(error)}"


def _where(raw: object, location: tuple[str | int, ...]) -> str:
    """The rule by its name where it has one, then the keys that lead to the fault."""
    keys = list(location)
    told = ""
    if len(keys) > 1 and keys[0] == "rules" and isinstance(keys[1], int):
        told = f"rule {_name(raw, keys[1])}"
        keys = keys[2:]
    path = "".join(f"[{it}]" if isinstance(it, int) else f".{_key(it)}" for it in keys).lstrip(".")
    return f"{told}: {path}" if told and path else told or path


def _key(text: str) -> str:
    return text if text.isprintable() else repr(text)


def _name(raw: Any, number: int) -> str:
    rules = raw.get("rules") if isinstance(raw, dict) else None
    rule = rules[number] if isinstance(rules, list) else None
    name = rule.get("name") if isinstance(rule, dict) else None
    return repr(name) if isinstance(name, str) and name else f"number {number + 1}"
