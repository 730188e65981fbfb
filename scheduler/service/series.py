"""The series of a gauge whose labels come and go."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import Gauge


class Series:
    """Sets a gauge by its labels. With `stays`, a series that once existed falls to 0 instead of
    disappearing, for rates and alerts.
    """

    def __init__(self, gauge: Gauge, *, stays: bool = False) -> None:
        self._gauge = gauge
        self._stays = stays
        # Finding a series by its labels takes longer than setting it.
        self._shown: dict[tuple[str, ...], Gauge] = {}

    def show(self, values: Mapping[tuple[str, ...], float]) -> None:
        """Show these values, and no others."""
        for key in self._shown.keys() - values.keys():
            if self._stays:
                self._shown[key].set(0)
            else:
                self._gauge.remove(*key)
                del self._shown[key]
        for key, value in values.items():
            if key not in self._shown:
                self._shown[key] = self._gauge.labels(*key)
            self._shown[key].set(value)
