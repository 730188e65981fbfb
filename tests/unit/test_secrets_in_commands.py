"""What we have people run: secrets come through pipes and files, and tokens live for a day."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

_ROOT: Final = Path(__file__).parents[2]
_A_DAY: Final = 24 * 3600
_SUFFIXES: Final = frozenset({".md", ".txt", ".yaml", ".sh"})
_PLACES: Final = ("README.md", "docs", "deploy")


def _pages() -> Iterator[Path]:
    for name in _PLACES:
        place = _ROOT / name
        found = [place] if place.is_file() else sorted(place.rglob("*"))
        yield from (it for it in found if it.suffix in _SUFFIXES and it.is_file())


_PAGES: Final = {str(it.relative_to(_ROOT)): it for it in _pages()}


@pytest.mark.parametrize("name", _PAGES)
def test_no_secret_is_an_argument(name: str) -> None:
    text = _PAGES[name].read_text(encoding="utf-8")
    assert "--from-literal" not in text
    assert not re.search(r"--patch[= ].*\$\(", text)
    assert not re.search(r"[-=\"']\"?\$\(scontrol token", text)


@pytest.mark.parametrize("name", _PAGES)
def test_token_lives_for_a_day_at_most(name: str) -> None:
    text = _PAGES[name].read_text(encoding="utf-8")
    assert all(int(it) <= _A_DAY for it in re.findall(r"lifespan=(\d+)", text))


def test_such_commands_are_found() -> None:
    texts = [it.read_text(encoding="utf-8") for it in _PAGES.values()]
    assert sum("lifespan=" in it for it in texts) >= 6
    assert sum("=/dev/stdin" in it for it in texts) >= 4
