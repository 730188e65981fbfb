"""One pod of a unit, and what is remembered of this pod alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from scheduler.core.gang_sources import Membership
from scheduler.state.said import SaidOnPod
from scheduler.state.seen import SeenOfPod


@dataclass(slots=True)
class Member:
    """A pod in the unit's namespace. Each part is written by one room, as its docstring says."""

    uid: str
    name: str
    seen: SeenOfPod = field(default_factory=SeenOfPod)
    said: SaidOnPod = field(default_factory=SaidOnPod)
    membership: Membership | None = None
    """To which gang it belongs; None for a single pod."""


def by_uid(members: Iterable[Member]) -> dict[str, Member]:
    """These pods by uid, as a unit keeps them."""
    return {member.uid: member for member in members}
