"""Each line of the log about a pod says of which namespace: names of pods repeat in others."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}


def _calls() -> Iterator[tuple[str, ast.Call]]:
    for path in sorted((_ROOT / "scheduler").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in _LEVELS
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id == "log"
            ):
                yield f"{path.name}:{node.lineno}", node


def test_line_that_names_a_pod_names_its_namespace() -> None:
    about_pods = [
        (where, {word.arg for word in call.keywords})
        for where, call in _calls()
        if any(word.arg == "pod" for word in call.keywords)
    ]
    assert len(about_pods) > 5
    assert [where for where, words in about_pods if "namespace" not in words] == []
