"""Tests of one group, whose servers are dear to start, share a worker."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_TESTS = """
import pytest

@pytest.mark.xdist_group("dear")
@pytest.mark.parametrize("number", range(6))
def test_in_the_group(number, worker_id):
    print("in", worker_id)

@pytest.mark.parametrize("number", range(6))
def test_outside(number, worker_id):
    print("outside", worker_id)
"""


def test_tests_of_a_group_run_in_one_worker(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(_TESTS)
    plugins = ("tests.support.groups", "no:cacheprovider", "no:hypothesispytest", "no:randomly")
    command = (sys.executable, "-m", "pytest", "-rP", "-n", "2", "--dist", "loadgroup")
    done = subprocess.run(
        (*command, *(f"-p{it}" for it in plugins), "test_it.py"),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert "12 passed" in done.stdout, done.stdout
    told = [it for it in done.stdout.splitlines() if it.startswith(("in gw", "outside gw"))]
    assert len(told) == 12
    assert len({it for it in told if it.startswith("in ")}) == 1
