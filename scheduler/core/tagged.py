"""A job's record as the scheduler reads it: with its owner tag, decoded once.

The tag's format, and which tags are believed: `owner_tag.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from msgspec.structs import asdict, force_setattr

from scheduler.core.owner_tag import PACKED, Owner, OwnerTag, read_tag
from scheduler.core.slot_choice import slots_of
from slurmapi.model import PARTIAL, BaseState, Job, JobState


class TaggedJob(Job, frozen=True, kw_only=True):
    """A record and the tag in its `admin_comment`. The tag is always decoded from the comment, even
    after `msgspec.structs.replace`, so the two never disagree.
    """

    ASIDE = Job.ASIDE | {"tag"}

    tag: OwnerTag | None = None
    """None if the comment is not a tag, or one that `read_tag` does not believe. Never passed."""

    def __post_init__(self) -> None:
        tag = read_tag(self.admin_comment)
        force_setattr(self, "tag", tag)
        if tag is None or not tag.parts or len(tag.parts) == len(self.parts):
            return
        if not self.state.ended:
            # A component has ended so long ago that Slurm has forgotten it.
            partial = JobState(BaseState.CANCELLED, self.state.flags | {PARTIAL})
            force_setattr(self, "state", partial)

    @property
    def rooms(self) -> tuple[Mapping[str, int], ...]:
        """How many slots each node has, in rank order: of each component."""
        tag = self.tag
        if tag is None or not tag.parts:
            return (_rooms(self, 1 if tag is None else tag.per_node),)
        pairs = zip(self.parts, tag.parts, strict=False)
        return tuple(_rooms(record, part.per_node) for record, part in pairs)

    @property
    def slots(self) -> tuple[str, ...]:
        """The node of each slot, in rank order."""
        tag = self.tag
        if tag is None or (tag.per_node == 1 and not tag.parts):
            return self.nodes
        return tuple(slot for rooms in self.rooms for slot in slots_of(rooms))

    @property
    def packed(self) -> bool:
        """Whether Slurm has chosen how many slots each node has, at least in one component."""
        tag = self.tag
        if tag is None or (tag.per_node != PACKED and not tag.parts):
            return False
        return PACKED in {tag.per_node, *(it.per_node for it in tag.parts)}

    @classmethod
    def of(cls, job: Job) -> Self:
        """A record that has just arrived, with its tag."""
        return cls(**asdict(job))

    def is_of(self, key: str, *, owner: Owner) -> bool:
        """Whether the job is the placeholder of the owner's unit with this key (I8): only then it
        may be changed or cancelled for the unit.
        """
        tag = self.tag
        if tag is None or tag.key != key:
            return False
        return (tag.cluster, tag.scheduler) == (owner.cluster, owner.scheduler)

    def seats(self, uid: str, *, owner: Owner) -> bool:
        """Whether the job is the owner's and holds, or will hold, a place for this pod. It may be
        the job of a unit of several pods that does not exist in this process.
        """
        tag = self.tag  # not by `_tag_of`: a bind asks this about each pod on its Node
        if tag is None or uid not in tag.uids:
            return False
        return (tag.cluster, tag.scheduler) == (owner.cluster, owner.scheduler)

    def seated(self, *, owner: Owner) -> frozenset[str]:
        """All pods that it seats, by uid."""
        tag = self._tag_of(owner)
        return frozenset(() if tag is None else tag.uids)

    def _tag_of(self, owner: Owner) -> OwnerTag | None:
        """The tag if it is this owner's."""
        tag = self.tag
        if tag is None or (tag.cluster, tag.scheduler) != (owner.cluster, owner.scheduler):
            return None
        return tag


def _rooms(record: Job, per_node: int) -> Mapping[str, int]:
    if per_node == PACKED:
        return record.tasks_by_node
    return dict.fromkeys(record.nodes, per_node)
