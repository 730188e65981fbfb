"""The audit of dependencies says what is vulnerable, and plainly where nothing was audited."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

_SCRIPT = Path(__file__).parents[2] / ".ci" / "audit.py"
_FLAW = {"id": "PYSEC-2030-1", "fix_versions": ["2.0", "1.9.1"], "aliases": []}
_GOOD = {"name": "good", "version": "1.0", "vulns": []}
_BAD = {"name": "bad", "version": "1.0", "vulns": [_FLAW]}
_UNKNOWN = {"name": "unknown", "skip_reason": "not found"}


def _audited(folder: Path, *reports: str) -> tuple[int, list[str]]:
    """The script's status and lines, where pip-audit prints these reports for its lock files."""
    (folder / "pip_audit.py").write_text("import sys\nprint(open(sys.argv[-1]).read(), end='')\n")
    files = [folder / f"{n}.txt" for n in range(len(reports))]
    for file, report in zip(files, reports, strict=True):
        file.write_text(report)
    done = subprocess.run(
        [sys.executable, _SCRIPT, *files],
        env={"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.stdout
    return done.returncode, done.stderr.splitlines()


def _report(*packages: dict[str, Any]) -> str:
    return json.dumps({"dependencies": list(packages)})


def test_vulnerability_fails_with_what_mends_it(tmp_path: Path) -> None:
    status, lines = _audited(tmp_path, _report(_GOOD, _BAD))
    assert status == 1
    assert lines[0].endswith("bad 1.0 has PYSEC-2030-1, mended in 2.0, 1.9.1: make lock")
    assert lines[-1] == "audit of dependencies: 2 packages audited, 1 vulnerabilities"


def test_vulnerability_without_a_mend_fails(tmp_path: Path) -> None:
    bad = _BAD | {"vulns": [_FLAW | {"fix_versions": []}]}
    status, lines = _audited(tmp_path, _report(bad), _report(_GOOD))
    assert status == 1
    assert "mended in no version yet" in lines[0]


@pytest.mark.parametrize("report", ["", _report(_UNKNOWN, _UNKNOWN)], ids=["no index", "a mirror"])
def test_audit_of_nothing_says_so_in_its_last_line_and_fails_nobody(
    tmp_path: Path, report: str
) -> None:
    status, lines = _audited(tmp_path, report, report)
    assert status == 0
    assert lines[-1].startswith("audit of dependencies: NOT AUDITED: ")


def test_part_that_was_not_audited_is_counted(tmp_path: Path) -> None:
    status, lines = _audited(tmp_path, _report(_GOOD, _UNKNOWN))
    assert status == 0
    assert lines[-1].endswith(
        "1 packages audited, 0 vulnerabilities; NOT AUDITED: 1 packages without advisories"
    )
