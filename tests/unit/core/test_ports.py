"""Ports of a Node, by kube-scheduler's rules."""

from __future__ import annotations

import pytest

from scheduler.core.ports import HostPort, host_port, taken
from tests.support.costs import calls


@pytest.mark.parametrize(
    ("wanted", "used", "excluded"),
    [
        ((80, "TCP", ""), (80, "TCP", ""), True),
        ((80, "", ""), (80, "TCP", "0.0.0.0"), True),
        ((80, "TCP", "127.0.0.1"), (80, "TCP", ""), True),
        ((80, "TCP", ""), (80, "TCP", "127.0.0.1"), True),
        ((80, "TCP", "127.0.0.1"), (80, "TCP", "127.0.0.1"), True),
        ((80, "TCP", "127.0.0.1"), (80, "TCP", "127.0.0.2"), False),
        ((80, "UDP", ""), (80, "TCP", ""), False),
        ((81, "TCP", ""), (80, "TCP", ""), False),
    ],
)
def test_which_ports_exclude_each_other(wanted, used, excluded):
    found = taken([host_port(*wanted)], [host_port(*used)])
    assert found == (host_port(*wanted) if excluded else None)


def test_port_is_shown_with_what_tells_it_from_others():
    assert str(host_port(80, "", "")) == "80/TCP"
    assert str(host_port(53, "UDP", "127.0.0.1")) == "53/UDP of 127.0.0.1"


def _cost(count: int) -> int:
    with calls() as made:
        taken([HostPort(it) for it in range(64)], [HostPort(100 + it) for it in range(count)])
    return made[0]


def test_long_lists_of_ports_are_not_compared_one_with_another() -> None:
    """A pod that runs has up to 1024, one that waits up to 64."""
    assert _cost(1024) - _cost(128) < 4 * 1024
