"""Production code has no parameter that only tests use.

A parameter with a default is one that a caller may leave out. If all callers in production leave it
out, and tests pass it, then it is theirs. Calls are matched by the name of what is called.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

_ROOT: Final = Path(__file__).parents[2]
_PRODUCTION: Final = ("scheduler", "annotations", "slurmapi", "groundwork")
# A model of two clusters: tests set what a cluster does.
_MODEL: Final = _ROOT / "scheduler" / "sandbox"
_ALLOWED: Final = {
    "main.argv": "the entry point of a console script has no arguments; tests pass a command line",
}


class Parameter(NamedTuple):
    callable: str
    name: str
    position: int | None
    where: str


class Calls:
    """What is passed, by the name of what is called."""

    def __init__(self) -> None:
        self.keywords: defaultdict[str, set[str]] = defaultdict(set)
        self.positions: defaultdict[str, int] = defaultdict(int)

    def read(self, tree: ast.AST) -> None:
        for call in ast.walk(tree):
            if isinstance(call, ast.Call):
                name = _name(call.func)
                several = any(isinstance(it, ast.Starred) for it in call.args)
                self.positions[name] = max(self.positions[name], 99 if several else len(call.args))
                self.keywords[name] |= {it.arg or "**" for it in call.keywords}

    def passes(self, it: Parameter) -> bool:
        by_position = it.position is not None and self.positions[it.callable] > it.position
        return by_position or it.name in self.keywords[it.callable]

    def may_pass(self, it: Parameter, *, defined: set[str]) -> bool:
        """Also through a name that is bound to it, as in `partial(f, x=1)` or `cls(x=1)`."""
        calls = [words for name, words in self.keywords.items() if name not in defined]
        return (
            self.passes(it)
            or "**" in self.keywords[it.callable]
            or any(it.name in words for words in calls)
        )


def _name(called: ast.expr) -> str:
    match called:
        case ast.Subscript(value=value):
            return _name(value)
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return ""


def _parameters(tree: ast.AST, where: str, owner: str = "") -> Iterator[Parameter]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _of_function(node, where, owner)
        yield from _parameters(node, where, node.name if isinstance(node, ast.ClassDef) else "")


def _of_function(
    node: ast.FunctionDef | ast.AsyncFunctionDef, where: str, owner: str
) -> Iterator[Parameter]:
    name = owner if node.name == "__init__" else node.name
    bound = bool(owner) and "staticmethod" not in {_name(it) for it in node.decorator_list}
    positional = [*node.args.posonlyargs, *node.args.args]
    for position in range(len(positional) - len(node.args.defaults), len(positional)):
        yield Parameter(name, positional[position].arg, position - bound, where)
    for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
        if default is not None:
            yield Parameter(name, argument.arg, None, where)


def _of_tests(production: Iterable[tuple[str, str]], tests: Iterable[str]) -> list[str]:
    """The parameters of `production` (path and text) that only `tests` pass."""
    theirs, ours = Calls(), Calls()
    found: list[Parameter] = []
    defined: set[str] = set()
    for text in tests:
        theirs.read(ast.parse(text))
    for path, text in production:
        tree = ast.parse(text)
        ours.read(tree)
        defined |= {it.name for it in ast.walk(tree) if isinstance(it, ast.ClassDef)}
        defined |= {it.name for it in ast.walk(tree) if isinstance(it, ast.FunctionDef)}
        defined |= {it.name for it in ast.walk(tree) if isinstance(it, ast.AsyncFunctionDef)}
        if not Path(path).is_relative_to(_MODEL):
            found += _parameters(tree, path)
    return [
        f"{it.callable}.{it.name}"
        for it in found
        if theirs.passes(it) and not ours.may_pass(it, defined=defined)
    ]


def test_no_parameter_is_used_by_tests_alone() -> None:
    production = [
        (str(path), path.read_text())
        for root in _PRODUCTION
        for path in (_ROOT / root).rglob("*.py")
    ]
    tests = [path.read_text() for path in (_ROOT / "tests").rglob("*.py")]
    assert sorted(_of_tests(production, tests)) == sorted(_ALLOWED)


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("def f(a, b=1): ...\nf(1)", ["f.b"]),
        ("def f(a, *, b=1): ...\nf(1)", ["f.b"]),
        ("async def f(a, *, b=1): ...\nf(1)", ["f.b"]),
        ("class f:\n def __init__(self, a, *, b=1): ...\nf(1)", ["f.b"]),
        ("class f:\n def __init__(self, a, *, b=1): ...\nf(1, b=2)", []),
        ("def f(a, b=1): ...\nf(1, 2)", []),
        ("def f(a, b=1): ...\nf(*c)", []),
        ("def f(a, *, b=1): ...\nf(**c)", []),
        ("def f(a, *, b=1): ...\npartial(f, b=2)", []),
    ],
)
def test_such_a_parameter_is_found(code: str, found: list[str]) -> None:
    assert _of_tests([("x.py", code)], ["f(1, b=3)", "f(1, 3)"]) == found
