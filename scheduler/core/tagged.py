"""A job's record as the scheduler reads it: with its owner tag, decoded once."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields
from typing import Final, Self

from scheduler.core.naming import Owner, OwnerTag, read_tag
from slurmapi.model import Job

_COPIED: Final = tuple(it.name for it in fields(Job))


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggedJob(Job):
    """A record and the tag in its `admin_comment`. The tag is always decoded from the comment, even
    after `dataclasses.replace`, so the two never disagree.
    """

    tag: OwnerTag | None = field(init=False, compare=False, repr=False)
    """None if the comment is not a tag of this version."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "tag", read_tag(self.admin_comment))

    @classmethod
    def of(cls, job: Job) -> Self:
        """A record that has just arrived, with its tag."""
        return cls(**{name: getattr(job, name) for name in _COPIED})

    def stands_for(self, uids: AbstractSet[str], *, owner: Owner) -> bool:
        """Whether the job is the owner's, for any of these pods (I8). `Unit.owns` and
        `UnitFacts.owns` say whether it is a unit's own.
        """
        tag = self.tag
        if tag is None or (tag.cluster, tag.scheduler) != (owner.cluster, owner.scheduler):
            return False
        return not uids.isdisjoint(tag.uids)
