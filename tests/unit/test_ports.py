"""Ports of tests that run at the same time, in one process and in several."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.ports import free_ports

# As long as its input is open, the process lives and its ports are its own.
_OTHER = "from tests.support.ports import free_ports; print(*free_ports(90), flush=True); input()"


def test_port_is_not_handed_out_twice_in_a_row() -> None:
    first, second = free_ports(20), free_ports(20)
    assert len({*first, *second}) == 40


def test_processes_that_live_at_the_same_time_have_different_ports() -> None:
    others = [_other(), _other()]
    taken = [set(other.stdout.readline().split()) for other in others if other.stdout]
    for other in others:
        other.communicate("\n", timeout=150)
    assert [len(ports) for ports in taken] == [90, 90]
    assert not taken[0] & taken[1]
    assert not (taken[0] | taken[1]) & {str(port) for port in free_ports(90)}


def test_more_ports_than_there_are_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="1000 ports wanted"):
        free_ports(1000)


def _other() -> subprocess.Popen[str]:
    return subprocess.Popen(
        (sys.executable, "-c", _OTHER),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
