"""Stories told on one release only: the table in tests/README.md has each of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.support.releases import BOTH_MODELS, NEITHER, RELEASES, is_left_out, marked
from tests.unit.test_threat_model import rows

_ROOT: Final = Path(__file__).parents[2]
_HEADING: Final = "Stories that are told on one release"
_PAGE: Final = (_ROOT / "tests/README.md").read_text(encoding="utf-8")


def _table() -> dict[tuple[str, str], str]:
    """The release by file and test, as the page says."""
    table = rows(re.split(r"\n## ", _PAGE.partition(f"\n## {_HEADING}\n")[2])[0])
    return {
        (path.strip("`"), test): release
        for path, tests, release, shown in table
        for test in (re.findall(r"`(test_\w+)`", tests) or ["*"])
        if shown
    }


def test_table_has_each_story_with_the_mark() -> None:
    files = sorted((_ROOT / "tests").glob("**/test_*.py"))
    found = {
        (str(path.relative_to(_ROOT)), test): release
        for path in files
        for test, release in marked(path).items()
    }
    assert found
    assert {it.removesuffix(BOTH_MODELS) for it in found.values()} <= RELEASES | {NEITHER}
    assert _table() == found


def test_mark_is_found_wherever_a_story_has_it(tmp_path: Path) -> None:
    file = tmp_path / "test_it.py"
    file.write_text(
        'pytestmark = [pytest.mark.slow, pytest.mark.live_on("26.05")]\n'
        "class TestIt:\n"
        '    @pytest.mark.live_on("24.11")\n'
        "    async def test_one(self): ...\n"
        "    async def test_two(self): ...\n"
        '    @pytest.mark.live_on("neither", models="both")\n'
        "    async def test_three(self): ...\n"
    )
    assert marked(file) == {
        "*": "26.05",
        "test_one": "24.11",
        "test_three": "neither, both models",
    }


@pytest.mark.parametrize(
    ("only", "models", "run_on"),
    [
        ("26.05", "", {"live-26.05", "sandbox-26.05"}),
        ("24.11", "", {"live-24.11", "sandbox-24.11", "sandbox-24.11-wide"}),
        ("neither", "", {"sandbox-26.05"}),
        ("neither", "both", {"sandbox-26.05", "sandbox-24.11", "sandbox-24.11-wide"}),
        ("26.05", "both", {"live-26.05", "sandbox-26.05", "sandbox-24.11", "sandbox-24.11-wide"}),
    ],
)
def test_story_is_left_out_on_the_other_release(only: str, models: str, run_on: set[str]) -> None:
    clusters = ("live-26.05", "live-24.11", "sandbox-26.05", "sandbox-24.11", "sandbox-24.11-wide")
    kept = {
        it
        for it in clusters
        if not is_left_out(f"test_it[{it}-x]", it.startswith("live"), only, models)
    }
    assert kept == run_on
