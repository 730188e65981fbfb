import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotations import JobRequest, Rules, parse
from tests.unit.annotations.pods import accepted, pod, the_problem


@pytest.mark.parametrize("grace", [0, 1, 24])
def test_grace_below_the_limit_is_accepted(grace):
    assert accepted(pod(termination_grace_period_seconds=grace)).cpus == 2


@pytest.mark.parametrize("grace", [25, 30, 3600])
def test_longer_grace_is_refused_with_the_largest_allowed_value(grace):
    problem = the_problem(pod(termination_grace_period_seconds=grace))
    assert problem.field == "spec.terminationGracePeriodSeconds"
    assert problem.value == str(grace)
    assert problem.expected.startswith("at most 24 ")
    # SUNK's words first: people search for them.
    assert problem.text.startswith("termination grace period must be less than Slurm KillWait - 5s")


def test_kill_wait_that_leaves_no_time_says_so():
    rules = Rules(kill_wait_seconds=5)
    problem = the_problem(pod(termination_grace_period_seconds=0), rules)
    assert "KillWait has to be raised" in problem.text


@given(st.integers(0, 200), st.integers(0, 200), st.integers(0, 50))
def test_grace_is_strictly_less_than_kill_wait_minus_offset(grace, kill_wait, offset):
    rules = Rules(kill_wait_seconds=kill_wait, termination_offset_seconds=offset)
    parsed = parse(pod(termination_grace_period_seconds=grace), rules)
    assert isinstance(parsed, JobRequest) == (grace + offset < kill_wait)


@pytest.mark.parametrize("grace", [0, 24, 25, 3600])
def test_guarded_nodes_leave_a_pod_its_grace(grace):
    rules = Rules(grace_policy="guarded")
    assert accepted(pod(termination_grace_period_seconds=grace), rules).cpus == 2
