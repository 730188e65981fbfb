"""The bindings that this process has made for the pods of a unit."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Bindings:
    """Written by `execute`, which binds."""

    nodes: dict[str, str] = field(default_factory=dict)
    """Pod uid to Node of bindings that were made, also once the watch shows them."""
    sent: set[str] = field(default_factory=set)
    """The uids of pods for which a binding was ever sent, whatever became of it."""
    at: float = 0.0
    """When this process bound the pod; 0 once its containers have started."""
    unfit_since: float | None = None
    """Since when the allocated Node does not suit the pod, as its condition says; None if
    it does.
    """

    def started(self) -> float | None:
        """When the pod was bound, if this is the first news that its containers have started. None
        later, or if another process bound it.
        """
        at, self.at = self.at, 0.0
        return at or None

    def forget(self, uid: str) -> None:
        """Forget the pod, which is gone."""
        self.nodes.pop(uid, None)
        self.sent.discard(uid)
