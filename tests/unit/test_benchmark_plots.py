"""The pictures of a run of the benchmarks. Nothing is drawn of one point alone."""

from __future__ import annotations

from benchmarks.suite.plots import charts
from benchmarks.suite.rows import Row

ROWS = {
    "9000 pods wait: RSS": Row(value=185.4, unit="MiB"),
    "100 pods wait: RSS": Row(value=110.0, unit="MiB"),
    "100 pods wait: requests to Slurm per second": Row(value=7.9),
    "burst of 1000 pods: submit to bound, p50": Row(value=6529.0, unit="ms"),
    "burst of 1000 pods: submit to bound, p50, bare loop": Row(value=400.0, unit="ms"),
    "burst of 1000 pods: pods/s of the bare loop": Row(value=1345.0),
}


def test_course_over_the_number_of_pods_is_drawn_in_their_order() -> None:
    memory, stages = charts(ROWS)
    assert memory.splitlines() == [
        "```mermaid",
        "xychart-beta",
        '  title "Memory of the scheduler, by pods that wait"',
        '  x-axis ["100", "9000"]',
        '  y-axis "MiB" 0 --> 204',
        "  line [110, 185]",
        "```",
    ]
    assert '  x-axis ["submit to bound, bare", "submit to bound"]' in stages
    assert '  y-axis "ms" 0 --> 7182' in stages
    assert "  bar [400, 6529]" in stages


def test_nothing_is_drawn_of_what_was_not_measured() -> None:
    assert list(charts({"one pod: scancel to deletion asked": Row(value=500.0)})) == []
