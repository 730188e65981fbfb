"""The alerts lead to runbooks, and stand on metrics and reasons that exist; so do the documents."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from prometheus_client.metrics import MetricWrapperBase

from scheduler.core.event_reasons import Reason
from scheduler.core.pending_reasons import STUCK
from scheduler.observe.metrics import Metrics
from scheduler.service.unit_counts import UNIT_STATES
from tests.support.alerts import RULES, hastened, rules

ROOT: Final = Path(__file__).parents[3]
RUNBOOKS: Final = ROOT / "docs" / "runbooks.md"
PROMTOOL_TESTS: Final = ROOT / "tests" / "stories" / "monitoring" / "alerts.test.yaml"
ALERTS: Final = {rule["alert"]: rule for rule in rules()}
_NAME: Final = re.compile(r"\bslurm_pod_scheduler_[a-z_]*[a-z]\b")
_SUFFIXES: Final = {
    "histogram": ("_bucket", "_sum", "_count", ""),
    "summary": ("_sum", "_count", ""),
}
# Names of files and folders, not of metrics.
_FILES: Final = re.compile(r"slurm_pod_scheduler/")
DOCUMENTS: Final = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("**/*.md")])


def series() -> set[str]:
    """Everything that /metrics may show of ours, and the bare names of histograms and
    summaries.
    """
    found = set()
    for metric in vars(Metrics()).values():
        if isinstance(metric, MetricWrapperBase):
            (family,) = metric.describe()
            own = {"counter": ("_total",), "info": ("_info",)}.get(family.type, ("",))
            found |= {family.name + it for it in _SUFFIXES.get(family.type, own)}
    return found


def section(alert: str) -> str:
    """The runbook of an alert."""
    text = RUNBOOKS.read_text(encoding="utf-8")
    return text.partition(f"\n## {alert}\n")[2].partition("\n## ")[0]


def listed(expression: str, label: str) -> set[str]:
    """What a rule takes of a label."""
    (values,) = re.findall(rf'\b{label}=~"([^"]+)"', expression)
    return set(values.split("|"))


@pytest.mark.parametrize("name", ALERTS)
def test_alert_says_what_is_wrong_and_leads_to_its_runbook(name: str) -> None:
    rule = ALERTS[name]
    told: dict[str, Any] = rule["annotations"]
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert told["summary"].endswith(".")
    assert told["description"].endswith(".")
    assert told["runbook_url"] == f"docs/runbooks.md#{name.lower()}"
    parts = ("**Meaning.**", "**Look.**", "**Fix.**")
    assert all(part in section(name) for part in parts), f"runbook of {name}"


def test_every_runbook_is_that_of_an_alert() -> None:
    headings = re.findall(r"^## (\w+)$", RUNBOOKS.read_text(encoding="utf-8"), re.MULTILINE)
    assert headings == list(ALERTS)


@pytest.mark.parametrize("name", ALERTS)
def test_alert_stands_on_metrics_that_exist(name: str) -> None:
    used = set(_NAME.findall(ALERTS[name]["expr"]))
    assert used
    assert used <= series()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_metric_that_is_named_in_a_document_exists(document: Path) -> None:
    text = _FILES.sub("", document.read_text(encoding="utf-8"))
    assert set(_NAME.findall(text)) <= series()


def test_no_metric_bears_the_name_of_another_exporters() -> None:
    """SUNK's Syncer, and the exporters before it, call slurmctld's scheduler slurm_scheduler_."""
    assert all(name.startswith("slurm_pod_scheduler_") for name in series())


def test_stuck_pods_are_those_for_whom_waiting_is_no_help() -> None:
    assert listed(ALERTS["SlurmPodSchedulerPodsStuck"]["expr"], "reason") == STUCK


def test_refused_pods_are_refused_for_reasons_that_exist() -> None:
    reasons = listed(ALERTS["SlurmPodSchedulerPodsRefused"]["expr"], "reason")
    assert reasons <= set(Reason)


def test_states_in_doubt_exist() -> None:
    assert listed(ALERTS["SlurmPodSchedulerPodsInDoubt"]["expr"], "state") < set(UNIT_STATES)


def test_each_alert_has_a_test_for_promtool() -> None:
    tests = yaml.safe_load(PROMTOOL_TESTS.read_text(encoding="utf-8"))["tests"]
    assert [it["name"].split()[0] for it in tests] == list(ALERTS)


def test_hastened_rules_differ_in_times_only() -> None:
    hasty = yaml.safe_load(hastened(RULES.read_text(encoding="utf-8")))
    for quick in (rule for group in hasty["groups"] for rule in group["rules"]):
        shipped = ALERTS[quick["alert"]]
        assert quick["for"] in {"1s", "6s"}
        assert _timeless(quick["expr"]) == _timeless(shipped["expr"])
        assert {**quick, "for": 0, "expr": 0} == {**shipped, "for": 0, "expr": 0}


def _timeless(expression: str) -> str:
    return re.sub(r"\[\d+[ms]\]|(?<=_seconds > )\d+$", "T", expression.strip())
