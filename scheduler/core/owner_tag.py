"""The owner tag: whose a placeholder is, and which tags are believed.

A job id alone identifies no job, because slurmctld reuses ids after a crash (measured). A
placeholder is ours if its `admin_comment`, which only Slurm administrators can write, says so.

`scheduler/execute/placeholder.py` gives a new job its name (`naming.py`) and its tag. `tagged.py`
decodes the tag of each record once; `scheduler/slurm/ownership.py` asks whose a job is before each
write.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

SINGLE = 1
"""The version of a tag of a single pod."""
SEVERAL: Final = 2
"""The version of a tag of a gang."""
PINNED_APART: Final = ","
"""Stands between nodes in a tag. No name of a Slurm node has it."""
MOST_RANKS: Final = 2**16
"""Ranks are below this. It also bounds the pods of a tag, because each has a rank of its own."""

NO_END: Final = 253_402_300_799
"""As `until`: the time of the pods is never over. It is the end of the year 9999, so that a version
that does not know this value takes it for a time far away.
"""

PACKED: Final = 0
"""As `per_node`: Slurm chooses how many pods each node has."""

MOST_COMPONENTS: Final = 128
"""Slurm allows no more components."""


class Owner(msgspec.Struct, frozen=True):
    """One scheduler of one Kubernetes cluster."""

    cluster: str
    scheduler: str


class TagPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """One component of a heterogeneous job: this many slots of one size, whose digest is `kind`
    (`core.shapes`), `per_node` on each of its nodes, or PACKED.
    """

    slots: int
    per_node: int = 1
    kind: str = ""


class OwnerTag(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content of a placeholder's `admin_comment`.

    `node` is set if the job was pinned to that node for a pod that already ran there; to several
    nodes, if they are written with commas between them. `outcome` is
    set when the pod has ended and the job is about to be cancelled. `restarts` is how often the job
    had been requeued when its pods were bound; a higher count shows that they have lost their
    nodes. (It is not kept on the pod, where its owner could write any number.) `given_back` is set
    when the unit has released the job, so that its end says nothing about the pod. `tries` and
    `until` belong to a job that replaces a lost one: how many such jobs there were, and when the
    pod's time is over, in Unix seconds (NO_END if never, 0 if not known). `grace` is how many
    seconds the pods have to stop. `asked` has a digest of each field of the job's last submit or
    update (`core.edits`). Tags of older versions have no `grace` and no `asked`.

    A tag of a gang also has its unit's key, the `group` of Kubernetes whose pods they are, and how
    many slots each node has (`per_node`, or PACKED). Its `ranks`, `uids` and `names` are in the
    order of the job's slots. A slot whose pod does not exist has a rank, and "" as uid and name.
    The names are for a process that finds the job without its pods, and must make sure that they
    are gone. Once the job has given nodes back, `at` has the node of each slot, those included that
    it has no more. The tag of a heterogeneous job has its `parts`, in the order of its components
    and slots. It is in the comment of the first component alone, whose id stands for all.
    """

    v: int
    cluster: str
    scheduler: str
    namespace: str
    unit: str
    uids: tuple[str, ...]
    node: str = ""
    outcome: str = ""
    restarts: int = 0
    given_back: bool = False
    tries: int = 0
    until: int = 0
    grace: int | None = None
    asked: dict[str, str] = msgspec.field(default_factory=dict)
    unit_key: str = msgspec.field(default="", name="key")
    group: str = ""
    ranks: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    per_node: int = 1
    at: tuple[str, ...] = ()
    parts: tuple[TagPart, ...] = ()

    @property
    def owner(self) -> Owner:
        """The scheduler that the job belongs to."""
        return Owner(self.cluster, self.scheduler)

    @property
    def key(self) -> str:
        """The key of the unit that the job is for. A single pod's key is its uid."""
        return self.unit_key or self.uids[0]

    @property
    def pinned(self) -> tuple[str, ...]:
        """The nodes to which the job was pinned."""
        return tuple(self.node.split(PINNED_APART)) if self.node else ()

    @property
    def adds_up(self) -> bool:
        """Whether it does not contradict itself. One that does is not believed when it is read."""
        return _is_of_one(self) or _is_of_several(self)

    def encode(self, **changes: Any) -> str:
        """The tag as compact JSON, with these fields changed."""
        return msgspec.json.encode(msgspec.structs.replace(self, **changes)).decode()


_decoder = msgspec.json.Decoder(OwnerTag)


def read_tag(admin_comment: str) -> OwnerTag | None:
    """The tag; None if the text is not a tag of a version that we know, or contradicts itself. The
    job of such a tag counts as a foreign one.
    """
    try:
        tag = _decoder.decode(admin_comment)
    except (msgspec.MsgspecError, RecursionError):  # the latter for deeply nested JSON of others
        return None
    return tag if tag.adds_up else None


def _is_of_one(tag: OwnerTag) -> bool:
    """Whether it is a tag of a single pod, which names that pod and no group."""
    several = tag.unit_key or tag.group or tag.ranks or tag.names or tag.per_node != 1 or tag.at
    return tag.v == SINGLE and len(tag.uids) == 1 and not several and not tag.parts


def _is_of_several(tag: OwnerTag) -> bool:
    """Whether it is a tag of a gang. Each slot has a rank of its own, each pod a uid of its own,
    and the key is not the one of a single pod among them.
    """
    if tag.v != SEVERAL or not tag.unit_key or not tag.group or tag.unit_key in tag.uids:
        return False
    ranks, uids = set(tag.ranks), [uid for uid in tag.uids if uid]
    alike = len(tag.uids) == len(tag.names) == len(tag.ranks) == len(ranks)
    alike = alike and len(tag.at) in {0, len(ranks)}
    alike = alike and len(uids) == len(set(uids)) > 0 and _adds_up(tag)
    return alike and min(ranks) >= 0 and max(ranks) < MOST_RANKS and 0 <= tag.per_node <= MOST_RANKS


def _adds_up(tag: OwnerTag) -> bool:
    """Whether the components have just the slots of the tag, and as many as fill their nodes."""
    if not tag.parts:
        return True
    full = all(_is_full(it) for it in tag.parts)
    several = 1 < len(tag.parts) <= MOST_COMPONENTS and tag.per_node == 1
    return full and several and sum(it.slots for it in tag.parts) == len(tag.ranks)


def _is_full(part: TagPart) -> bool:
    if part.per_node == PACKED:
        return part.slots > 0
    return 0 < part.per_node <= part.slots and not part.slots % part.per_node
