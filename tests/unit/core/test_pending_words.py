"""What `pending_text` writes can be read back, and nothing else is taken for it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.pending_reasons import REASONS, pending_text
from scheduler.core.pending_words import PendingWords, read_back
from tests.unit.core.test_pending import SUBMITTED, pending
from tests.unit.core.things import JOB

MINUTE = 60
DESCRIPTIONS = ("", "ReqNodeNotAvail, UnavailableNodes:n[1-3]", "Nodes required (n1) are DOWN")


@given(
    reason=st.sampled_from([*REASONS, "SomethingNew", "QOSMaxCpuPerUserLimit"]),
    said=st.sampled_from(DESCRIPTIONS),
    priority=st.none() | st.integers(0, 2**32 - 1),
    partition=st.sampled_from(("", "gpu", "gpu,main", "a.b-c_d")),
    start=st.none() | st.integers(1, 10_000),
)
def test_all_that_is_told_is_read_back(
    reason: str, said: str, priority: int | None, partition: str, start: int | None
) -> None:
    begin = 0 if start is None else SUBMITTED // MINUTE * MINUTE + start * MINUTE
    start_time = {} if start is None else {"start_time": begin}
    more = {"priority": priority, "partition": partition, "state_description": said} | start_time
    expected = None if start is None else datetime.fromtimestamp(begin, UTC)
    if start is not None and begin <= SUBMITTED:
        expected = None  # such a forecast is not told
    assert read_back(pending_text(JOB, pending(reason, **more))) == PendingWords(
        reason, priority, partition, expected
    )


@pytest.mark.parametrize(
    "message",
    [
        "",
        "Slurm job 5 is pending",
        "Slurm job 5 is SUSPENDED",
        "0/4 nodes are available (priority 7)",
        "Slurm job x is pending: Resources",
        f"Slurm job {'9' * 11} is pending: Resources",
    ],
)
def test_other_words_say_nothing(message: str) -> None:
    assert read_back(message) == PendingWords()


def test_forged_words_are_bounded() -> None:
    long = "x" * 100_000
    assert read_back(f"Slurm job 5 is pending: {long}").reason == "x" * 64
    forged = f"Slurm job 5 is pending: R (priority {'9' * 99}, partition {long})"
    assert read_back(forged) == PendingWords("R")
    assert read_back(
        "Slurm job 5 is pending: R (expected start 2026-06-31 25:61 UTC)"
    ) == PendingWords("R")
