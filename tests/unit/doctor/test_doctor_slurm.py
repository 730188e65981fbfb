"""The doctor's checks of Slurm."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from scheduler.doctor.facts import Unread
from scheduler.doctor.of_slurm_conf import FAST, slow_parameters
from slurmapi import ApiVersion, Ping
from slurmapi.jwt import Lifetime
from tests.unit.doctor.facts import (
    DAY,
    NOW,
    healthy,
    only,
    slurm_node,
    told,
    with_config,
    with_slurm,
)

ROOT = Path(__file__).parents[3]


def test_slurm_that_answers_is_named_with_release_version_and_cluster() -> None:
    found = only(healthy(), "slurm-api")
    assert found.severity.word == "ok"
    assert "Slurm 26.05.5 with version v0.0.45" in found.what
    assert "ClusterName is lab" in found.what


def test_slurm_without_an_answer_is_one_error_and_nothing_else_is_said() -> None:
    facts = with_slurm(
        healthy(),
        version=Unread("no answer within 15 s", "timeout"),
        ping=Unread(""),
        config=Unread(""),
        nodes=Unread(""),
    )
    assert told(facts, "slurm-api") == [("error", "no answer within 15 s")]
    for silent in ("kill-wait", "min-job-age", "fast-starts", "preemption", "guard", "gres"):
        assert told(facts, silent) == []


def test_version_without_external_jobs_is_noted() -> None:
    found = told(with_slurm(healthy(), version=ApiVersion(42)), "slurm-api")
    assert [severity for severity, _ in found] == ["ok", "note"]
    assert "v0.0.42" in found[1][1]


def test_slurmctld_that_does_not_answer_is_an_error() -> None:
    facts = with_slurm(
        healthy(),
        ping=Ping(responding=False, status="DOWN"),
        nodes=Unread("slurmctld does not answer", "controller_away"),
    )
    assert ("error", "slurmctld does not answer") in told(facts, "slurm-api")


@pytest.mark.parametrize(
    ("left", "severity", "words"),
    [
        (DAY / 2, "ok", "expires in 12 hours"),
        (600.0, "warning", "expires in 10 minutes"),
        (-1.0, "error", "expired at 2027-01-15 07:59:59 UTC"),
    ],
)
def test_token_is_judged_by_what_is_left_of_it(left: float, severity: str, words: str) -> None:
    facts = with_slurm(healthy(), lifetime=Lifetime(NOW - DAY, NOW + left))
    found = only(facts, "token")
    assert found.severity.word == severity
    assert words in found.what


def test_token_without_an_end_is_noted() -> None:
    facts = with_slurm(healthy(), lifetime=Lifetime(math.nan, math.nan))
    assert only(facts, "token").severity.word == "note"


def test_token_as_a_setting_is_noted_and_never_shown() -> None:
    facts = healthy(slurm_auth_token="secret.jwt.token")
    found = told(facts, "token")
    assert [severity for severity, _ in found] == ["ok", "note"]
    assert "secret" not in str(found)


@pytest.mark.parametrize(("user", "severity"), [("root", "ok"), ("slurm", "ok"), ("eve", "note")])
def test_right_of_the_token_is_known_of_root_and_slurm_user(user: str, severity: str) -> None:
    assert only(with_slurm(healthy(), user=user), "token-rights").severity.word == severity


def test_kill_wait_that_is_not_the_setting_is_a_warning_with_both_values() -> None:
    found = only(with_config(healthy(), kill_wait=90), "kill-wait")
    assert found.severity.word == "warning"
    assert "KillWait is 90 s, --slurm-kill-wait says 60 s" in found.what
    assert "--slurm-kill-wait=90s" in found.remedy


def test_kill_wait_that_slurm_does_not_show_is_noted() -> None:
    found = only(with_slurm(healthy(), config=None), "kill-wait")
    assert found.severity.word == "note"
    assert "60s is believed" in found.what


@pytest.mark.parametrize(
    ("policy", "guard", "words"),
    [
        ("strict", True, "at most 24 s"),
        ("guarded", False, "as --slurm-kill-wait says"),
        ("auto", False, "at most 24 s"),
        ("auto", True, "the handover guard keeps their nodes"),
    ],
)
def test_refusal_of_the_usual_grace_period_is_noted(
    policy: str, guard: bool, words: str, tmp_path: Path
) -> None:
    facts = healthy(
        slurm_kill_wait=30, grace_policy=policy, hooks_api_token_file=tmp_path / "token"
    )
    prolog = "/etc/slurm/slurm-pod-scheduler/prolog-slurmctld.sh" if guard else ""
    found = told(with_config(facts, kill_wait=30, prolog_slurmctld=prolog), "kill-wait")
    assert words in found[-1][1]


def test_without_the_hooks_api_a_guard_makes_no_grace_period_longer() -> None:
    prolog = "/etc/slurm/slurm-pod-scheduler/prolog-slurmctld.sh"
    facts = with_config(healthy(slurm_kill_wait=30), kill_wait=30, prolog_slurmctld=prolog)
    assert "at most 24 s" in told(facts, "kill-wait")[-1][1]


@pytest.mark.parametrize(("seconds", "severity"), [(60, "ok"), (59, "warning"), (0, "warning")])
def test_min_job_age_is_long_enough(seconds: int, severity: str) -> None:
    assert (
        only(with_config(healthy(), min_job_age=seconds), "min-job-age").severity.word == severity
    )


def test_min_job_age_of_zero_is_not_taken_for_a_short_one() -> None:
    words = told(with_config(healthy(), min_job_age=0), "min-job-age")[-1][1]
    assert "forgets no job that has ended" in words


def test_recommended_parameters_are_fast_and_those_of_the_documentation() -> None:
    assert slow_parameters(FAST.split(",")) == []
    assert f"SchedulerParameters={FAST}\n" in (ROOT / "docs/operations.md").read_text()


@pytest.mark.parametrize(
    ("given", "slow"),
    [
        ("", ["batch_sched_delay", "sched_interval", "default_queue_depth"]),
        (f"{FAST},defer", ["defer"]),
        (FAST.replace("=1000", "=100"), ["default_queue_depth=100"]),
        (FAST.replace("sched_interval=1,", "sched_interval=x,"), ["sched_interval=x"]),
        (f"{FAST},{'9' * 5000}={'9' * 5000}", []),
    ],
)
def test_parameters_that_delay_starts_are_named(given: str, slow: list[str]) -> None:
    found = slow_parameters(given.split(","))
    assert [it.partition(" is not set")[0] for it in found] == slow


def test_slow_parameters_are_a_warning_with_the_line_to_use() -> None:
    found = only(with_config(healthy(), scheduler_parameters=()), "fast-starts")
    assert found.severity.word == "warning"
    assert FAST in found.remedy


@pytest.mark.parametrize(
    ("kind", "modes", "policy", "severity"),
    [
        ("preempt/none", ("OFF",), "evict", "ok"),
        ("preempt/qos", ("REQUEUE",), "evict", "ok"),
        ("preempt/qos", ("SUSPEND", "GANG"), "evict", "note"),
        ("preempt/qos", ("SUSPEND", "GANG"), "keep", "warning"),
    ],
)
def test_preemption_is_told(kind: str, modes: tuple[str, ...], policy: str, severity: str) -> None:
    facts = with_config(healthy(suspend_policy=policy), preempt_type=kind, preempt_modes=modes)
    assert only(facts, "preemption").severity.word == severity


OURS = "/etc/slurm/slurm-pod-scheduler/prolog-slurmctld.sh"
SLURMD = (slurm_node("a", states=frozenset({"IDLE"})),)


@pytest.mark.parametrize(
    ("prolog", "hooks", "mode", "nodes", "severity"),
    [
        ("", False, "auto", (slurm_node("a"),), "ok"),
        ("", False, "auto", SLURMD, "note"),
        ("", False, "external", SLURMD, "warning"),
        (OURS, True, "auto", SLURMD, "ok"),
        (OURS, False, "auto", SLURMD, "warning"),
        ("/site/prolog", True, "auto", SLURMD, "note"),
    ],
)
def test_guard_is_there_where_nodes_have_a_slurmd(
    prolog: str, hooks: bool, mode: str, nodes: Any, severity: str, tmp_path: Path
) -> None:
    more = {"hooks_api_token_file": tmp_path / "token"} if hooks else {}
    facts = with_config(healthy(placeholder_mode=mode, **more), prolog_slurmctld=prolog)
    assert only(with_slurm(facts, nodes=nodes), "guard").severity.word == severity


def test_gres_of_a_device_is_counted_on_all_nodes() -> None:
    assert "Slurm has 16" in only(healthy(), "gres").what
    without = with_slurm(healthy(), nodes=(slurm_node("a", gres=""),))
    assert only(without, "gres").severity.word == "note"


def test_type_that_no_node_has_is_a_warning() -> None:
    found = told(healthy(gpu_types={"A": "a100", "H": "h100"}), "gres")
    assert found[1][0] == "warning"
    assert "a100" in found[1][1]


@pytest.mark.parametrize(
    ("storage", "enforced", "severity"),
    [
        ("", (), "note"),
        ("accounting_storage/slurmdbd", ("associations",), "note"),
        ("accounting_storage/slurmdbd", ("associations", "limits", "qos", "safe"), "ok"),
    ],
)
def test_accounting_is_told(storage: str, enforced: tuple[str, ...], severity: str) -> None:
    facts = with_config(healthy(), accounting_storage=storage, accounting_enforce=enforced)
    assert only(facts, "accounting").severity.word == severity


@pytest.mark.parametrize(
    ("states", "severity"),
    [
        ((), "error"),
        (("IDLE", "DOWN"), "note"),
        (("DOWN", "DRAIN"), "warning"),
        (("IDLE",), "ok"),
        (("POWERED_DOWN",), "ok"),
    ],
)
def test_nodes_that_start_no_job_are_named(states: tuple[str, ...], severity: str) -> None:
    nodes = tuple(slurm_node(it, states=frozenset({it})) for it in states)
    assert only(with_slurm(healthy(), nodes=nodes), "slurm-nodes").severity.word == severity
