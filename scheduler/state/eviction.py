"""How far the ending of a unit's pods has come, if Slurm has taken their resources."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Eviction:
    """Written by `execute`, which evicts."""

    sent_at: dict[str, float] = field(default_factory=dict)
    """When the deletion of each pod was last sent, by uid."""
    hurried_at: dict[str, float] = field(default_factory=dict)
    """When the grace period of each departing pod was last shortened, by uid."""
    held_since: dict[str, float] = field(default_factory=dict)
    """Since when the Eviction API has been tried for each pod, by uid."""
    held_at: dict[str, float] = field(default_factory=dict)
    """When the Eviction API last refused to end each pod, by uid."""
    marked_since: dict[str, float] = field(default_factory=dict)
    """Since when it has been tried to set the condition on each pod, by uid."""
    disrupted: dict[str, str] = field(default_factory=dict)
    """The message of the condition that was written on each pod, by uid."""
    refused: dict[str, str] = field(default_factory=dict)
    """Why the API server has refused to delete each pod, as its owner was told, by uid."""
    logged: str = ""
    """Why its pods end, as last logged. The pods of a gang have one line together."""

    def forget(self, uid: str) -> None:
        """Forget the pod, which is gone."""
        for times in (
            self.sent_at,
            self.hurried_at,
            self.held_since,
            self.held_at,
            self.marked_since,
        ):
            times.pop(uid, None)
        for texts in (self.disrupted, self.refused):
            texts.pop(uid, None)
