"""The dashboards are those of their source, fit on Grafana's grid, and ask for what exists."""

from __future__ import annotations

import json
import re
from itertools import combinations
from typing import Any

import pytest

from deploy.helm.dashboards import DASHBOARDS, FOLDER
from deploy.helm.grafana import Dashboard, rendered
from tests.unit.deploy.test_alert_rules import series

_NAME = re.compile(r"\bslurm_pod_scheduler_[a-z_]*[a-z]\b")


@pytest.fixture(params=DASHBOARDS, ids=lambda it: it.name)
def dashboard(request: pytest.FixtureRequest) -> Dashboard:
    found: Dashboard = request.param
    return found


def panels(dashboard: Dashboard) -> list[dict[str, Any]]:
    return list(json.loads(rendered(dashboard))["panels"])


def test_file_is_what_its_source_says(dashboard: Dashboard) -> None:
    text = (FOLDER / f"{dashboard.name}.json").read_text(encoding="utf-8")
    assert text == rendered(dashboard), "run: make docs"


def test_every_dashboard_has_a_source() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == {it.name for it in DASHBOARDS}


def test_every_query_asks_for_metrics_that_exist(dashboard: Dashboard) -> None:
    for panel in panels(dashboard):
        for target in panel.get("targets", ()):
            assert set(_NAME.findall(target["expr"])) <= series(), panel["title"]


def test_panels_lie_side_by_side_within_the_grid(dashboard: Dashboard) -> None:
    places = [panel["gridPos"] for panel in panels(dashboard)]
    assert all(it["x"] >= 0 and it["x"] + it["w"] <= 24 for it in places)
    for one, other in combinations(places, 2):
        apart = (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
        assert apart, (one, other)


def test_panels_have_ids_and_titles_of_their_own(dashboard: Dashboard) -> None:
    found = panels(dashboard)
    assert len({it["id"] for it in found}) == len(found)
    assert all(it["title"] for it in found)


def test_variables_that_are_used_can_be_chosen(dashboard: Dashboard) -> None:
    made = json.loads(rendered(dashboard))
    chosen = {it["name"] for it in made["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(made["panels"])))
    assert used <= chosen | {"__rate_interval"}
