from __future__ import annotations

from scheduler.state.exclusions import Exclusions


def test_each_further_failure_of_a_node_doubles_the_pause_up_to_an_hour():
    exclusions = Exclusions()
    pauses = [exclusions.add("n1", "why", now=0.0) for _ in range(8)]
    assert pauses == [60, 120, 240, 480, 960, 1920, 3600, 3600]


def test_node_is_excluded_until_its_pause_is_over():
    exclusions = Exclusions()
    exclusions.add("n1", "first", now=0.0)
    exclusions.add("n2", "second", now=30.0)
    assert exclusions.active(59.0) == {"n1": "first", "n2": "second"}
    assert exclusions.active(60.0) == {"n2": "second"}
    assert exclusions.active(90.0) == {}


def test_lifted_exclusions_end_at_once_and_are_remembered():
    exclusions = Exclusions()
    exclusions.add("n1", "why", now=0.0)
    exclusions.lift(1.0)
    assert exclusions.active(1.0) == {}
    assert exclusions.add("n1", "why", now=2.0) == 120


def test_only_so_many_nodes_are_remembered():
    exclusions = Exclusions()
    for number in range(100):
        exclusions.add(f"n{number}", "why", now=0.0)
    active = exclusions.active(1.0)
    assert len(active) == 64
    assert "n99" in active
    assert "n0" not in active
