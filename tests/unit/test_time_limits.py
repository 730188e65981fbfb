"""No test hangs for ever, and neither does what is cleaned up after it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]

_HANGS_AFTER_A_FAILURE = """
import threading
import pytest

@pytest.fixture
def hangs():
    yield
    threading.Event().wait()

@pytest.mark.timeout(1)
def test_that_fails(hangs):
    assert False
"""

_STRUCK_IN_THE_BACKGROUND = """
import asyncio
import time
import pytest
from tests.support import time_limits

time_limits._AGAIN_SECONDS = 0.5

@pytest.mark.timeout(1)
def test_that_waits_for_ever():
    async def waits() -> None:
        async def busy() -> None:
            time.sleep(2)

        task = asyncio.create_task(busy())
        await asyncio.Event().wait()

    asyncio.run(waits())
"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param(_HANGS_AFTER_A_FAILURE, "1 failed, 1 error", id="cleaning up"),
        pytest.param(_STRUCK_IN_THE_BACKGROUND, "1 failed", id="a task in the background"),
    ],
)
def test_what_hangs_is_ended(text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(text)
    # pytest's own plugins are enough, and on 3.11 hypothesis' may fail here while it is imported.
    plugins = ("tests.support.time_limits", "no:cacheprovider", "no:hypothesispytest")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *(f"-p{it}" for it in plugins), "test_it.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert told in done.stdout, done.stdout
    assert "Timeout (>1.0s)" in done.stdout


_LIMITS = """
def pytest_collection_finish(session):
    for item in session.items:
        said = item.get_closest_marker("timeout")
        print("limit", item.path.name, said and said.args[0])
"""


def test_stories_and_live_tests_have_a_longer_limit_unless_they_say_it(tmp_path: Path) -> None:
    (tmp_path / "limits.py").write_text(_LIMITS)
    command = (sys.executable, "-m", "pytest", "-p", "limits", "--collect-only", "-q")
    asked = ("tests/stories/soak", "tests/stories/test_many.py", "tests/stories/test_ready.py")
    done = subprocess.run(
        (*command, *asked, "tests/rigs", "tests/unit/test_order.py"),
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=150,
        check=True,
    )
    assert {it for it in done.stdout.splitlines() if it.startswith("limit")} == {
        "limit test_soak.py 0",  # none: it lasts for as long as it is asked to
        "limit test_many.py 1200",
        "limit test_ready.py 300.0",
        "limit test_browser.py 300.0",
        "limit test_by_hand.py 900",
        "limit test_faketime.py 300.0",
        "limit test_kube_rig.py 300.0",
        "limit test_slurm_rig.py 300.0",
        "limit test_order.py None",  # that of all tests, in pyproject.toml
    }
