"""The audit of dependencies tells each known vulnerability, and where there was nobody to ask."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

_SCRIPT = Path(__file__).parents[2] / ".ci" / "audit.py"
_FLAW = {"id": "PYSEC-2030-1", "fix_versions": ["2.0", "1.9.1"], "aliases": []}


def _verdict(*packages: dict[str, Any]) -> tuple[list[str], int]:
    found: tuple[list[str], int] = runpy.run_path(str(_SCRIPT))["verdict"](
        {"dependencies": list(packages)}
    )
    return found


def test_vulnerability_is_told_with_what_mends_it() -> None:
    found, silent = _verdict(
        {"name": "good", "version": "1.0", "vulns": []},
        {"name": "bad", "version": "1.0", "vulns": [_FLAW]},
    )
    assert found == ["bad 1.0 has PYSEC-2030-1, mended in 2.0, 1.9.1: make lock"]
    assert silent == 0


def test_vulnerability_without_a_mend_is_told() -> None:
    found, _ = _verdict({"name": "bad", "version": "1.0", "vulns": [_FLAW | {"fix_versions": []}]})
    assert found == ["bad 1.0 has PYSEC-2030-1, mended in no version yet: make lock"]


def test_package_of_which_the_index_tells_nothing_is_no_fault() -> None:
    assert _verdict({"name": "unknown", "skip_reason": "not found"}) == ([], 1)
