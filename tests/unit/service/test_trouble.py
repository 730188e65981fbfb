"""The log has few lines of an outage however often it is noticed, and the metric has its cause."""

from __future__ import annotations

import pytest
import structlog

from scheduler.observe.metrics import Metrics
from scheduler.observe.trouble import Cause, Trouble

_REFUSED = Cause("refused", "nothing listens")
_EXPIRED = Cause("token_expired", "the token expired")


class _Time:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> _Time:
    return _Time()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def trouble(time: _Time, metrics: Metrics) -> Trouble:
    return Trouble("slurm", clock=time, metrics=metrics)


def _shown(metrics: Metrics, cause: str) -> float | None:
    labels = {"server": "slurm", "cause": cause}
    return metrics.registry.get_sample_value("slurm_pod_scheduler_trouble", labels)


def test_one_line_when_it_begins_one_a_minute_and_one_when_it_is_over(
    trouble: Trouble, time: _Time
) -> None:
    with structlog.testing.capture_logs() as lines:
        for _ in range(1800):
            trouble.saw(_REFUSED)
            time.now += 0.1
        trouble.over()
        trouble.over()
    assert [it["event"] for it in lines] == ["slurm does not answer"] * 3 + ["slurm answers again"]
    assert [it["for_s"] for it in lines[:3]] == [0, 60, 120]
    assert lines[-1]["after_s"] == 180.0
    assert lines[0]["why"] == "nothing listens"


def test_another_cause_is_told_at_once(trouble: Trouble, time: _Time) -> None:
    trouble.saw(_REFUSED)
    time.now += 11
    with structlog.testing.capture_logs() as lines:
        trouble.saw(_EXPIRED)
    assert [it["cause"] for it in lines] == ["token_expired"]


def test_what_comes_and_goes_does_not_fill_the_log(trouble: Trouble, time: _Time) -> None:
    with structlog.testing.capture_logs() as lines:
        for number in range(6000):
            trouble.saw((_REFUSED, _EXPIRED)[number // 2 % 2])
            if number % 2:
                trouble.over()
            time.now += 0.01
    assert 1 <= len(lines) <= 2 * 6 + 2


def test_metric_names_the_cause_while_there_is_one(trouble: Trouble, metrics: Metrics) -> None:
    assert _shown(metrics, "refused") is None
    trouble.saw(_REFUSED)
    trouble.saw(_EXPIRED)
    assert (_shown(metrics, "refused"), _shown(metrics, "token_expired")) == (0, 1)
    trouble.over()
    assert (_shown(metrics, "refused"), _shown(metrics, "token_expired")) == (0, 0)
    assert (trouble.text, trouble.seconds) == ("", 0.0)
