"""Builds Grafana dashboards from rows, panels and queries, as the JSON that Grafana imports."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

_SCHEMA: Final = 39  # of Grafana 11; newer ones migrate it when they load it
_WIDTH: Final = 24
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}

Json = dict[str, Any]


@dataclass(frozen=True)
class Query:
    """A PromQL expression, and the legend of its series."""

    expr: str
    legend: str = "__auto"


@dataclass(frozen=True)
class Panel:
    """One panel; `kind` is Grafana's name for its type."""

    title: str
    queries: tuple[Query, ...]
    kind: str = "timeseries"
    unit: str = "short"
    info: str = ""
    width: int = 8
    height: int = 8
    stacked: bool = False
    limits: tuple[tuple[float | None, str], ...] = ((None, "green"),)


@dataclass(frozen=True)
class Row:
    """Panels under one heading."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Dashboard:
    """One file of the chart; `variables` has the name and the query of each template variable."""

    name: str
    title: str
    info: str
    rows: tuple[Row, ...]
    variables: tuple[tuple[str, str], ...]


def stat(title: str, expr: str, *, unit: str = "short", info: str = "", **more: Any) -> Panel:
    """A panel with one number: the present value of `expr`."""
    return Panel(
        title, (Query(expr),), kind="stat", unit=unit, info=info, width=4, height=4, **more
    )


def quantiles(title: str, histogram: str, by: str, *, selector: str) -> Panel:
    """A panel with the median and the 99th percentile of a histogram, by the values of a label."""
    rate = f"sum by (le, {by}) (rate({histogram}_bucket{{{selector}}}[$__rate_interval]))"
    queries = tuple(
        Query(f"histogram_quantile({q}, {rate})", f"p{round(q * 100)} {{{{{by}}}}}")
        for q in (0.5, 0.99)
    )
    return Panel(title, queries, unit="s")


def rate(title: str, counter: str, by: str, *, selector: str = "", info: str = "") -> Panel:
    """A panel with the increase of a counter per second, by the values of one or more labels."""
    expr = f"sum by ({by}) (rate({counter}{{{selector}}}[$__rate_interval]))"
    legend = " ".join(f"{{{{{label}}}}}" for label in by.split(", "))
    return Panel(title, (Query(expr, legend),), unit="ops", info=info)


def rendered(dashboard: Dashboard) -> str:
    """The file as Grafana imports it."""
    return json.dumps(_dashboard(dashboard), indent=1) + "\n"


def _dashboard(it: Dashboard) -> Json:
    return {
        "uid": f"slurm-pod-scheduler-{it.name}",
        "title": it.title,
        "description": it.info,
        "tags": ["slurm-pod-scheduler"],
        "schemaVersion": _SCHEMA,
        "editable": True,
        "graphTooltip": 1,
        "time": {"from": "now-3h", "to": "now"},
        "refresh": "30s",
        "templating": {"list": [_source(), *(_variable(*each) for each in it.variables)]},
        "annotations": {"list": []},
        "links": [
            {
                "type": "dashboards",
                "title": "slurm-pod-scheduler",
                "tags": ["slurm-pod-scheduler"],
                "asDropdown": True,
                "keepTime": True,
            }
        ],
        "panels": list(_panels(it.rows)),
    }


def _source() -> Json:
    return {
        "name": "datasource",
        "label": "Prometheus",
        "type": "datasource",
        "query": "prometheus",
    }


def _variable(name: str, query: str) -> Json:
    return {
        "name": name,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".+",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }


def _panels(rows: Sequence[Row]) -> Iterator[Json]:
    number, top = 0, 0
    for row in rows:
        number += 1
        yield {
            "id": number,
            "type": "row",
            "title": row.title,
            "collapsed": False,
            "gridPos": {"x": 0, "y": top, "w": _WIDTH, "h": 1},
            "panels": [],
        }
        top, left, tallest = top + 1, 0, 0
        for panel in row.panels:
            if left + panel.width > _WIDTH:
                top, left, tallest = top + tallest, 0, 0
            number += 1
            place = {"x": left, "y": top, "w": panel.width, "h": panel.height}
            yield _panel(panel, number, place)
            left, tallest = left + panel.width, max(tallest, panel.height)
        top += tallest


def _panel(it: Panel, number: int, place: Json) -> Json:
    return {
        "id": number,
        "type": it.kind,
        "title": it.title,
        "description": it.info,
        "datasource": _SOURCE,
        "gridPos": place,
        "targets": [_target(it, query, chr(ord("A") + n)) for n, query in enumerate(it.queries)],
        "fieldConfig": {"defaults": _field(it), "overrides": []},
        "options": _OPTIONS[it.kind],
    } | ({"transformations": _TABLE} if it.kind == "table" else {})


def _target(panel: Panel, query: Query, name: str) -> Json:
    now = panel.kind in {"stat", "table"}
    formats = {"table": "table", "heatmap": "heatmap"}
    return {
        "refId": name,
        "datasource": _SOURCE,
        "expr": query.expr,
        "legendFormat": query.legend,
        "format": formats.get(panel.kind, "time_series"),
        "instant": now,
        "range": not now,
    }


def _field(it: Panel) -> Json:
    field: Json = {
        "unit": it.unit,
        "min": 0,
        "thresholds": {
            "mode": "absolute",
            "steps": [{"value": value, "color": color} for value, color in it.limits],
        },
    }
    if it.kind == "timeseries":
        field["custom"] = {
            "drawStyle": "line",
            "fillOpacity": 20 if it.stacked else 0,
            "showPoints": "never",
            "stacking": {"group": "A", "mode": "normal" if it.stacked else "none"},
        }
    return field


_TABLE: Final = [
    {"id": "organize", "options": {"excludeByName": {"Time": True}, "renameByName": {}}}
]
_OPTIONS: Final[dict[str, Json]] = {
    "timeseries": {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "stat": {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "colorMode": "value",
        "graphMode": "none",
        "textMode": "auto",
    },
    "table": {"showHeader": True, "cellHeight": "sm"},
    "heatmap": {
        "calculate": False,
        "color": {"mode": "scheme", "scheme": "Spectral", "steps": 64},
        "yAxis": {"unit": "s"},
        "cellGap": 1,
    },
}
