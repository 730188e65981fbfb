"""promtool checks the alert rules and the metrics that the scheduler serves."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest
from prometheus_client import generate_latest

from scheduler.observe.metrics import Metrics
from tests.rigs.prometheus import PrometheusBinaries
from tests.support.alerts import RULES

pytestmark = pytest.mark.live

_TESTS: Final = Path(__file__).parent / "alerts.test.yaml"


def promtool(binaries: PrometheusBinaries, *words: object, given: bytes = b"") -> str:
    """The output of promtool. Raises AssertionError if it reports a fault."""
    command = [str(binaries.promtool), *map(str, words)]
    done = subprocess.run(command, input=given, capture_output=True, timeout=60, check=False)
    said = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, said
    return said


def test_rules_are_good(prometheus_binaries: PrometheusBinaries) -> None:
    assert "SUCCESS" in promtool(prometheus_binaries, "check", "rules", "--lint=all", RULES)


def test_each_alert_fires_and_ends(prometheus_binaries: PrometheusBinaries) -> None:
    assert "SUCCESS" in promtool(prometheus_binaries, "test", "rules", _TESTS)


def test_metrics_are_named_by_the_rules(prometheus_binaries: PrometheusBinaries) -> None:
    served = generate_latest(Metrics().registry)
    assert promtool(prometheus_binaries, "check", "metrics", given=served) == ""
