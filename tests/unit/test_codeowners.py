"""CODEOWNERS names owners for all files, and only files that exist."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parents[2]


def rules() -> list[tuple[str, list[str]]]:
    """The patterns with their owners, in order."""
    lines = (_ROOT / "CODEOWNERS").read_text(encoding="utf-8").splitlines()
    words = (line.split() for line in lines if line and not line.startswith("#"))
    return [(pattern, owners) for pattern, *owners in words]


def test_every_file_has_an_owner() -> None:
    pattern, owners = rules()[0]
    assert pattern == "*"
    assert owners


def test_patterns_are_paths_that_exist_and_have_owners() -> None:
    for pattern, owners in rules()[1:]:
        path = _ROOT / pattern.removeprefix("/")
        assert path.is_dir() if pattern.endswith("/") else path.is_file(), pattern
        assert all(it.startswith("@") for it in owners), pattern
        assert owners, pattern
