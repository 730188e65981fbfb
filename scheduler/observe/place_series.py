"""Observations by namespace and partition, of which only a bounded number has a series.

A place is a namespace and a partition. Whoever may create namespaces could make any number of them,
so that the metrics would grow without end.
"""

from __future__ import annotations

from typing import Final

from prometheus_client import Summary

PlaceLabels = tuple[str, str]
"""A namespace and a partition."""

# The name of a namespace cannot begin with "_".
OTHER: Final = "_other"
NO_PARTITION: Final = "_none"
SEVERAL_PARTITIONS: Final = "_several"
REST: Final[PlaceLabels] = (OTHER, OTHER)
MOST_PLACES: Final = 400
SERIES_KEPT_SECONDS: Final = 3600.0
"""A place that was not used for this long gives its series to the next one."""


def partition_label(partition: str) -> str:
    """The partition of a job's record as a label. NO_PARTITION until Slurm has named it, and
    SEVERAL_PARTITIONS while the job waits in more than one.
    """
    if not partition:
        return NO_PARTITION
    return SEVERAL_PARTITIONS if "," in partition else partition


class PlaceSummary:
    """A summary with the labels of a place. Beyond MOST_PLACES, new places share the series REST.
    Times are those of one monotonic clock, in seconds.
    """

    def __init__(self, summary: Summary) -> None:
        self._summary = summary
        self._rest = summary.labels(*REST)
        # In the order of their last use.
        self._used: dict[PlaceLabels, tuple[float, Summary]] = {}

    def begin(self, place: PlaceLabels, *, now: float) -> None:
        """Show the place with what was observed there, 0 at first, so that rates see the first
        increase.
        """
        self._series(place, now)

    def observe(self, place: PlaceLabels, seconds: float, *, now: float) -> None:
        """Observe a time at the place."""
        self._series(place, now).observe(seconds)

    def _series(self, place: PlaceLabels, now: float) -> Summary:
        known = self._used.pop(place, None)
        if known is None and len(self._used) >= MOST_PLACES:
            longest = next(iter(self._used))
            if now - self._used[longest][0] < SERIES_KEPT_SECONDS:
                return self._rest
            del self._used[longest]
            self._summary.remove(*longest)
        series = self._summary.labels(*place) if known is None else known[1]
        self._used[place] = (now, series)
        return series
