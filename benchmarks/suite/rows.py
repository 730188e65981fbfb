"""The figures of all benchmarks in one form, so that two runs can be compared.

Ratios and counts can be compared between machines, seconds and pods per second cannot: they are
shown beside those, and never judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Final, Literal

import msgspec

from benchmarks import one_pod, scale
from benchmarks.main_path import figures as main_path

Better = Literal["less", "more"]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One figure. `better` says in which direction it improves, None if it is only shown. `goal`
    is the bound that this project has set itself, None without one.
    """

    value: float
    unit: str = ""
    better: Better | None = None
    goal: float | None = None

    @property
    def reached(self) -> bool | None:
        """Whether the goal is reached; None without one."""
        if self.goal is None:
            return None
        return self.value >= self.goal if self.better == "more" else self.value <= self.goal


Rows = Mapping[str, Row]


def of_main_path(path: Path) -> Rows:
    """Medians over the rounds of `benchmarks.main_path --json`."""
    found = msgspec.json.decode(path.read_bytes(), type=main_path.Figures)
    full, each = found.scheduler, f"{found.pods} pods"
    pairs = list(zip(found.bare, (it.burst for it in full), strict=True))
    rows = {
        "ratio of pods/s to the bare loop's": _more(found.ratios, goal=0.8),
        "the same until all pods run": _more(found.running_ratios),
        "CPU of the scheduler to the bare loop's": _less(
            (burst.cpu_seconds / bare.cpu_seconds for bare, burst in pairs), goal=2.0
        ),
        "requests to Slurm per pod": _less((it.slurm_requests / found.pods for it in full), 2.1),
        "requests to Kubernetes per pod": _less(
            (it.kube_requests / found.pods for it in full), goal=1.5
        ),
        "stalls by own computing": _less((it.burst.stalls.busy for it in full), goal=0.0),
        "pods/s of the bare loop": _shown(it.per_second for it in found.bare),
        "pods/s of the scheduler": _shown(it.burst.per_second for it in full),
        "CPU ms per pod": _shown(1000 * it.burst.cpu_seconds / found.pods for it in full),
        **_latencies([it.burst for it in full], ""),
        **_latencies(found.bare, ", bare loop"),
        "peak RSS": _less((it.burst.peak_rss_mib for it in full), unit="MiB"),
        "ratio with the guard to without": _more(found.guard_ratios, goal=0.7),
        "room for all at once, to the bare loop": _less(found.relief_ratios, goal=1.3),
    }
    return {f"burst of {each}: {name}": row for name, row in rows.items() if row is not None}


def _latencies(bursts: Sequence[main_path.Burst], whose: str) -> dict[str, Row | None]:
    """Medians over the rounds, in milliseconds."""
    return {
        f"submit to bound, p50{whose}": _milliseconds(it.submit_to_bound.p50 for it in bursts),
        f"submit to bound, p99{whose}": _milliseconds(it.submit_to_bound.p99 for it in bursts),
        f"allocated to bound, p50{whose}": _milliseconds(
            it.allocated_to_bound.p50 for it in bursts
        ),
    }


def of_one_pod(path: Path) -> Rows:
    """The medians of `benchmarks.one_pod --json`, one set for each kind of run."""
    rows: dict[str, Row] = {}
    for found in msgspec.json.decode(path.read_bytes(), type=list[one_pod.Figures]):
        kind = "with hooks" if found.hooks else "without hooks"
        for name, seconds in {
            "created to bound, beyond Slurm's own time": found.beyond_slurm.p50,
            "scancel to deletion asked": found.scancel_to_deletion.p50,
        }.items():
            rows[f"one pod, {kind}: {name}"] = Row(value=1000 * seconds, unit="ms")
    return rows


def of_scale(path: Path) -> Rows:
    """What `benchmarks.scale --json` shows."""
    found = msgspec.json.decode(path.read_bytes(), type=scale.Figures)
    rows: dict[str, Row] = {}
    for step in found.steps:
        pods, start = step.waiting.pods, step.start
        shown = {
            "requests to Slurm per second": _least(
                step.waiting.counted_on_the_wire, goal=8 + pods / 1000
            ),
            "RSS": _least(step.rss_mib, unit="MiB", goal=250 if pods <= 10_000 else None),
            "stalls by own computing": _least(step.waiting.stalls.busy, goal=0),
            "start: requests to Slurm per pod": _least(start.slurm_requests / pods),
            "start: requests to Kubernetes per pod": _least(start.kube_requests / pods),
            "start: stalls by own computing": _least(start.stalls.busy, goal=0),
            "start until a new pod has its job": Row(value=start.submitted_seconds, unit="s"),
            "CPU while they wait": Row(value=100 * step.waiting.cpu_share, unit="%"),
        }
        rows |= {f"{pods} pods wait: {name}": row for name, row in shown.items()}
    return rows


READERS: Final[Mapping[str, Callable[[Path], Rows]]] = {
    "main_path": of_main_path,
    "one_pod": of_one_pod,
    "scale": of_scale,
}


def table(rows: Rows, *, before: Rows) -> Iterator[str]:
    """A line for each figure: the value, the former one if there is one, and the goal."""
    width = max(map(len, rows), default=0)
    for name, row in rows.items():
        former = before.get(name)
        yield "  ".join(
            (
                f"  {name:<{width}}",
                f"{_number(row.value)} {row.unit}".rjust(12),
                "" if former is None else f"before {_number(former.value)}".ljust(14),
                _against_goal(row),
            )
        ).rstrip()


def worse(rows: Rows, *, before: Rows, tolerance: float) -> Iterator[str]:
    """What has become worse by more than this share of the former value: ratios and counts only."""
    for name, row in rows.items():
        former = before.get(name)
        if row.better is None or former is None:
            continue
        sign = 1 if row.better == "less" else -1
        if sign * (row.value - former.value) > tolerance * abs(former.value):
            yield f"{name}: {_number(row.value)}, before {_number(former.value)}"


def _against_goal(row: Row) -> str:
    if row.goal is None:
        return ""
    bound = ">=" if row.better == "more" else "<="
    return f"goal {bound} {_number(row.goal)}: {'reached' if row.reached else 'NOT reached'}"


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _more(values: Sequence[float], *, goal: float | None = None) -> Row | None:
    return Row(value=median(values), better="more", goal=goal) if values else None


def _less(values: Iterable[float], goal: float | None = None, *, unit: str = "") -> Row:
    return _least(median(values), unit=unit, goal=goal)


def _least(value: float, *, unit: str = "", goal: float | None = None) -> Row:
    return Row(value=value, unit=unit, better="less", goal=goal)


def _shown(values: Iterable[float]) -> Row:
    return Row(value=median(values))


def _milliseconds(seconds: Iterable[float]) -> Row:
    return Row(value=1000 * median(seconds), unit="ms")
