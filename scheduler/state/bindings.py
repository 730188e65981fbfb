"""The bindings that this process has made for the pods of a unit."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Bindings:
    """Written by `execute`, which binds."""

    nodes: dict[str, str] = field(default_factory=dict)
    """Pod uid to Node of bindings that were made, until the watch shows them."""
    at: float = 0.0
    """When this process bound it, until its containers have started."""
    unfit_since: float | None = None
    """Since when the Node of its allocation does not suit it, as the pod was told."""

    def started(self) -> float | None:
        """When it was bound, at the first news that its containers have started; None afterwards,
        and where another process bound it.
        """
        at, self.at = self.at, 0.0
        return at or None
