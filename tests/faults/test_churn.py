"""Calls that are made only after another fault."""

from __future__ import annotations

from tests.faults import faults
from tests.faults.churn import provoke
from tests.faults.play import Play, Rule


def test_what_leads_to_a_call_comes_again_until_the_fault_of_that_call_was_played() -> None:
    playing, provoking = Play(), dict[str, Rule]()
    rule = playing.add(faults.refused, call="list_apis")
    provoke(playing, [rule], provoking, times=3)
    first = playing.rules[0]
    assert first.call == "get_group"
    provoke(playing, [rule], provoking, times=3)
    assert playing.rules == [first, rule]
    assert first.times is not None
    first.played = first.times
    provoke(playing, [rule], provoking, times=3)
    second, *others = playing.rules
    assert (second.call, second.played, others) == ("get_group", 0, [first, rule])
    second.played, rule.played = first.times, 1
    provoke(playing, [rule], provoking, times=3)
    assert playing.rules == [second, first, rule]
