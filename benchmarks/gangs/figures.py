"""The figures of a run, and their table for people."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Final

import msgspec

from benchmarks.main_path.figures import Stalls

_ROW: Final = "  {:>5} {:<8}{:>7}{:>8}{:>7}{:>7}{:>7}{:>7}{:>6}{:>7}{:>8}{:>8}{:>6}"
_HEADS: Final = (
    *("pods", "round", "all s", "submit", "start", "bind", "ratio"),
    *("Slurm", "Kube", "CPU s", "queued", "stalls", "RSS"),
)


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """One gang. Times in seconds; the first begins when the last pod has been created. What the
    process used and asked for is counted from then on, and of the scheduler from before the first
    pod on: it watches them come.
    """

    created_to_submitted: float
    submitted_to_allocated: float
    allocated_to_bound: float
    slurm_requests: float
    kube_requests: float
    cpu_seconds: float
    queued_seconds: float
    peak_rss_mib: float
    stalls: Stalls

    @property
    def seconds(self) -> float:
        """From the creation of the last pod to the binding of the last one."""
        return self.beyond_start + self.submitted_to_allocated

    @property
    def beyond_start(self) -> float:
        """The same without the time until a poll shows that Slurm has started the job."""
        return self.created_to_submitted + self.allocated_to_bound


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """All rounds with gangs of so many pods."""

    pods: int
    bare: list[Course]
    scheduler: list[Course]

    @property
    def ratios(self) -> list[float]:
        """The scheduler's time divided by the bare loop's, for each round."""
        pairs = zip(self.bare, self.scheduler, strict=True)
        return [full.seconds / bare.seconds for bare, full in pairs]


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run."""

    servers: str
    nodes: int
    sizes: list[Size]


def table(figures: Figures) -> str:
    """All of it."""
    head = f"\ngangs: one pod on each node, on {figures.servers}, {figures.nodes} nodes\n"
    lines = (line for size in figures.sizes for line in _size(size))
    return "\n".join((head, _ROW.format(*_HEADS), *lines))


def _size(size: Size) -> Iterator[str]:
    for number, (bare, full) in enumerate(zip(size.bare, size.scheduler, strict=True), 1):
        yield _line(size.pods, f"{number} bare", bare, "")
        yield _line(size.pods, f"{number} gang", full, f"{size.ratios[number - 1]:.2f}")
    middle, worst = median(size.ratios), max(size.ratios)
    least = median(it.beyond_start for it in size.bare)
    own = median(it.beyond_start for it in size.scheduler)
    yield (
        f"        ratio: median {middle:.2f}, worst {worst:.2f}; without the start, median: "
        f"bare loop {least:.2f} s, scheduler {own:.2f} s"
    )


def _line(pods: int, label: str, course: Course, ratio: str) -> str:
    return _ROW.format(
        *(pods, label, f"{course.seconds:.2f}", f"{course.created_to_submitted:.2f}"),
        *(f"{course.submitted_to_allocated:.2f}", f"{course.allocated_to_bound:.2f}", ratio),
        *(f"{course.slurm_requests:.0f}", f"{course.kube_requests:.0f}"),
        *(f"{course.cpu_seconds:.2f}", f"{course.queued_seconds:.2f}"),
        *(str(course.stalls), f"{course.peak_rss_mib:.0f}"),
    )
