"""Lets deadlines of a test pass without waiting for them, and none before the test says so."""

from __future__ import annotations

import asyncio

import pytest


def pass_time(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Set the clock of the running loop ahead: what is due by then is done in its next turn.

    Deadlines that are much longer than any test leave each step before them the time that a busy
    machine takes for it.
    """
    loop = asyncio.get_running_loop()
    before = loop.time
    monkeypatch.setattr(loop, "time", lambda: before() + seconds)
