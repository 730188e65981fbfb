"""One pod of a unit, and what is remembered of this pod alone."""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.state.said import SaidOnPod
from scheduler.state.seen import SeenOfPod


@dataclass(slots=True)
class Member:
    """A pod in the unit's namespace. Each part is written by one room, as its docstring says."""

    uid: str
    name: str
    seen: SeenOfPod = field(default_factory=SeenOfPod)
    said: SaidOnPod = field(default_factory=SaidOnPod)
    rank: int = 0
    """Its place among the pods of its unit."""
