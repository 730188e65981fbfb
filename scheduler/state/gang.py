"""What is remembered of a gang as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field

from annotations import Problem
from scheduler.core.gang_shape import GangShape
from scheduler.core.gang_sources import TOLD_BY_PHASE, Membership
from scheduler.core.group_said import GroupSaid
from scheduler.core.shapes import Expected


@dataclass(slots=True)
class Gang:
    """`member` is the membership of the pod that was seen first: it has the gang's name and source.
    If all pods that can run say another size, it is that of one of them. Written by `execute`,
    which reads the object; `facts` follows the pods.
    """

    member: Membership
    shape: GangShape | None = None
    """What the object says; None until it has been read."""
    templates: tuple[Expected, ...] = ()
    """The sizes of its templates, if its pods come in steps."""
    problem: Problem | None = None
    """Why the gang cannot be served, by its object."""
    disbanded: str = ""
    """Why it is no gang any more, by its object, although it was one before."""
    asked: bool = False
    """Whether its object has been asked for."""
    read_at: float | None = None
    absent_since: float | None = None
    """Since when it is known that the object does not exist yet; None if that is not so."""
    quiet_since: float | None = None
    """Since when none of its pods can run; None while one can."""
    came_at: float | None = None
    """Since when this process knows a pod of it."""
    most_pods: int = 0
    """How many pods it had at most, and since when (`grew_at`)."""
    grew_at: float | None = None
    said: GroupSaid | None = field(init=False)
    """What was said on its PodGroup; None if it has none."""

    def __post_init__(self) -> None:
        by_phase = TOLD_BY_PHASE.get(self.member.source)
        self.said = None if by_phase is None else GroupSaid(by_phase=by_phase)

    def go_on_as(self, member: Membership) -> None:
        """Go on with pods that say another size than the former ones."""
        self.member = member

    def follow(self, *, lives: bool, pods: int, now: float) -> None:
        """Note whether any of its pods can run now, or may be started, and how many there are."""
        if pods > self.most_pods:
            self.most_pods, self.grew_at = pods, now
            self.came_at = now if self.came_at is None else self.came_at
        if lives:
            self.quiet_since = None
        elif self.quiet_since is None:
            self.quiet_since = now
