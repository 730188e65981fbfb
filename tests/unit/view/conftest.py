"""The scripted API server of the tests of `kube`, without settings from outside."""

from __future__ import annotations

import pytest

from scheduler.observe import logs
from tests.unit.kube.conftest import _no_outside_settings, stub

__all__ = ["_no_outside_settings", "stub"]


@pytest.fixture(autouse=True)
def _log_of_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command configures the log of its process. In the process of the tests it must not: later
    tests would write to the standard error of this one, which is closed by then.
    """
    monkeypatch.setattr(logs, "set_up", lambda _level, _form: None)
