"""The figures of a stored run as pictures: Mermaid charts, which forges and the docs' site draw."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from benchmarks.suite.rows import Rows

_OF_SCALE: Final = re.compile(r"^(?P<pods>\d+) pods wait: (?P<name>.+)$")
_OF_BURST: Final = re.compile(r"^burst of (?P<pods>\d+) pods: (?P<name>.+)$")
# By what is shown: the title, and the unit of the vertical axis.
_SCALES: Final[Mapping[str, tuple[str, str]]] = {
    "RSS": ("Memory of the scheduler, by pods that wait", "MiB"),
    "requests to Slurm per second": ("Requests to Slurm, by pods that wait", "requests a second"),
    "CPU while they wait": ("CPU of the scheduler, by pods that wait", "% of a core"),
    "start until a new pod has its job": (
        "From the start of the scheduler to the first new job, by pods that wait",
        "seconds",
    ),
}
_STAGES: Final[Mapping[str, str]] = {
    "submit to bound, p50, bare loop": "submit to bound, bare",
    "submit to bound, p50": "submit to bound",
    "submit to bound, p99, bare loop": "p99, bare",
    "submit to bound, p99": "p99",
    "allocated to bound, p50, bare loop": "allocated to bound, bare",
    "allocated to bound, p50": "allocated to bound",
}
_HEADROOM: Final = 1.1


def charts(rows: Rows) -> Iterator[str]:
    """A Mermaid block for each chart that these figures have enough values for."""
    for name, (title, unit) in _SCALES.items():
        points = sorted(_by_pods(rows, name).items())
        if len(points) > 1:
            labels, values = zip(*points, strict=True)
            yield _chart(title, [str(it) for it in labels], values, unit=unit, kind="line")
    for pods in sorted(_bursts(rows)):
        found = [
            (label, row.value)
            for name, label in _STAGES.items()
            if (row := rows.get(f"burst of {pods} pods: {name}")) is not None
        ]
        if found:
            labels, values = zip(*found, strict=True)
            title = f"A burst of {pods} pods, by stage"
            yield _chart(title, labels, values, unit="ms", kind="bar")


def _by_pods(rows: Rows, name: str) -> dict[int, float]:
    found = ((_OF_SCALE.match(key), row) for key, row in rows.items())
    return {int(it["pods"]): row.value for it, row in found if it and it["name"] == name}


def _bursts(rows: Rows) -> set[int]:
    return {int(found["pods"]) for key in rows if (found := _OF_BURST.match(key))}


def _chart(
    title: str, labels: Sequence[str], values: Sequence[float], *, unit: str, kind: str
) -> str:
    top = max(*values, 0.001) * _HEADROOM
    quoted = ", ".join(f'"{it}"' for it in labels)
    return "\n".join(
        (
            "```mermaid",
            "xychart-beta",
            f'  title "{title}"',
            f"  x-axis [{quoted}]",
            f'  y-axis "{unit}" 0 --> {_number(top)}',
            f"  {kind} [{', '.join(map(_number, values))}]",
            "```",
        )
    )


def _number(value: float) -> str:
    """Without an exponent, which the charts do not know."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
