"""`make rig` leaves a person with an installed scheduler, and ends without a trace."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.rigs.chart import NAME
from tests.rigs.helm import said
from tests.support.chart import CHART

# The first of them has the image built within its time.
pytestmark = [pytest.mark.live_on("26.05"), pytest.mark.live, pytest.mark.timeout(900)]

_LAST_WORDS: Final = "Ctrl-C ends all of it."
# Each server may take 20 s to end.
_END_SECONDS: Final = 120.0


def test_rig_with_the_chart_takes_the_commands_that_it_prints(tmp_path: Path) -> None:
    place = tmp_path / "rig"
    with _rig("--chart", "--release", "26.05", "--folder", str(place)) as output:
        home = ("--namespace", NAME)
        assert f"export KUBECONFIG={place}/kubeconfig PATH={place}/bin:$PATH" in output
        assert "Phase:          Succeeded" in _call(place, "helm", "test", NAME, *home)
        assert "main*" in _call(place, "sinfo")
        assert yaml.safe_load((place / "pod.yaml").read_text())["spec"]["restartPolicy"] == "Never"
        _call(place, "helm", "uninstall", NAME, *home, "--wait")
        given = ("--values", f"{place}/values.yaml")
        # Somebody binds the pod of the Deployment.
        _call(place, "helm", "install", NAME, str(CHART), *home, *given, "--wait")
    assert not place.exists()


@contextmanager
def _rig(*arguments: str) -> Iterator[str]:
    """It, running; what it has printed."""
    process = subprocess.Popen(
        # As a shell starts what is to run in the background.
        ("env", "--ignore-signal=INT", sys.executable, "-m", "tests.rigs", *arguments),
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout is not None
    try:
        lines = []
        for line in process.stdout:
            lines.append(line)
            if _LAST_WORDS in line:
                break
        else:
            raise AssertionError("".join(lines))
        yield "".join(lines)
    finally:
        process.send_signal(signal.SIGINT)
        try:
            status = process.wait(_END_SECONDS)
        finally:
            process.kill()
            process.stdout.close()
    assert status == 0


def _call(place: Path, *command: str) -> str:
    """What a command prints to one who has typed the line with the export."""
    path = f"{place}/bin:{os.environ['PATH']}"
    places = {"HOME": str(place), "KUBECONFIG": str(place / "kubeconfig"), "PATH": path}
    return said((place / "bin" / command[0], *command[1:]), environment=places)
