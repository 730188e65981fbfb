"""The write operations that the clients of both servers have, as their source says."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import slurmapi
from scheduler import kube

_PACKAGES: Final = (kube, slurmapi)
_REQUESTS: Final = frozenset({"request", "_write", "_write_again", "_ask"})
_READS: Final = frozenset({"GET"})


@cache
def write_operations() -> frozenset[str]:
    """The names that their calls are observed by. AssertionError for a write without a name."""
    found: set[str] = set()
    for package in _PACKAGES:
        for path in sorted(Path(package.__path__[0]).glob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call):
                    found |= set(_named(node, path))
    return frozenset(found)


def _named(call: ast.Call, path: Path) -> Iterator[str]:
    method: ast.expr | None
    match call.func:
        case ast.Attribute(attr=called) if called in _REQUESTS:
            method, word = (call.args[0] if call.args else None), "operation"
        case ast.Name(id="Operation"):
            method, word = _keyword(call, "method"), "name"
        case _:
            return
    if not isinstance(method, ast.Constant) or method.value in _READS:
        return  # what is passed on is named where it comes from
    name = _keyword(call, word)
    assert isinstance(name, ast.Constant), f"{path.name}:{call.lineno}: a write without a name"
    yield str(name.value)


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((it.value for it in call.keywords if it.arg == name), None)
