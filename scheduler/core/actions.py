"""What can be done about a unit. Actions are data; `scheduler.execute` carries them out."""

from __future__ import annotations

import hashlib

import msgspec

from annotations import JobRequest, Problem
from groundwork.aside import WithAside
from scheduler.core.event_reasons import Reason
from scheduler.core.evidence import Evidence
from scheduler.core.facts import MissingPod, PodFacts
from scheduler.core.group_said import GroupWord
from scheduler.core.shapes import PodShape
from scheduler.core.slot_choice import Seat


class Submit(WithAside, frozen=True):
    """Submit the placeholder with these slots, at most `per_node` on each node. `nodes` pins it to
    the nodes where its pods already run, and `why` says what happened to the former job. `replaces`
    is our job that the new one replaces; it is cancelled once the new one is recorded. `excluded`
    are Slurm nodes that the job must not get, with reasons. `first` puts it ahead of all others in
    the queue. The pods of a gang may have several `shapes`, which have all the seats; otherwise
    there are none.
    """

    ASIDE = frozenset({"why"})

    request: JobRequest
    seats: tuple[Seat, ...]
    per_node: int = 1
    shapes: tuple[PodShape, ...] = ()
    nodes: tuple[str, ...] = ()
    first: bool = False
    why: str = ""
    replaces: int | None = None
    excluded: tuple[tuple[str, str], ...] = ()
    minutes: int | None = None
    """Its time limit, if it differs from the request's."""
    until: int = 0
    """When the pod's time is over, in Unix seconds; NO_END if never, 0 if not known."""
    tries: int = 0
    """How many jobs have been submitted in place of lost ones, including this one."""
    grace_seconds: int | None = None
    """How many seconds its pods have to stop."""

    @property
    def where(self) -> str:
        """The nodes, for people."""
        return ", ".join(self.nodes)


class ReadGang(msgspec.Struct, frozen=True):
    """Read the object that says how many pods the gang has."""


class Reseat(msgspec.Struct, frozen=True):
    """Write on the job which pod has which slot, and how often the job has been requeued so far,
    before any of these pods can run.
    """

    job_id: int
    seats: tuple[Seat, ...]
    restarts: int = 0


class GiveBack(msgspec.Struct, frozen=True):
    """Leave a running job only the nodes `keep`. `at` has the node of each slot, as it was."""

    job_id: int
    keep: tuple[str, ...]
    at: tuple[str, ...]


class PartWith(msgspec.Struct, frozen=True):
    """Forget these pods of a gang, after the API server has said that they are gone."""

    pods: tuple[MissingPod, ...]


class ServeBeside(msgspec.Struct, frozen=True):
    """Serve each of these pods alone: its gang runs, and can do without it."""

    pods: tuple[PodFacts, ...]


class TellGroup(msgspec.Struct, frozen=True):
    """Say this on the gang's PodGroup."""

    word: GroupWord


class Weigh(msgspec.Struct, frozen=True):
    """Read how much of this Slurm node is allocated."""

    node: str


class Update(msgspec.Struct, frozen=True):
    """Change these fields of the pending job to the request's values, because the pod was
    edited.
    """

    job_id: int
    request: JobRequest
    changed: tuple[str, ...]


class Inspect(msgspec.Struct, frozen=True):
    """Look at the full record of the job once."""

    job_id: int


class Record(msgspec.Struct, frozen=True):
    """Write the job's id on the pod: the job was found, or writing its id failed before."""

    job_id: int


class LookForTwins(msgspec.Struct, frozen=True):
    """Search Slurm's jobs for placeholders that were never recorded. With `tell`, the pod's
    condition says so if the search is not possible. The caller does not set it for pods that run or
    already show why they wait.
    """

    tell: bool = False


class Locate(msgspec.Struct, frozen=True):
    """Ask Slurm about these nodes, or for a list of all, to find the Nodes behind them."""

    nodes: tuple[str, ...] = ()


class Bind(msgspec.Struct, frozen=True):
    """Bind the pod to `target`, the Kubernetes Node behind the Slurm node that its placeholder
    holds.
    """

    pod: PodFacts
    node: str
    job_id: int
    target: str
    partition: str = ""
    """Where Slurm has started the job, or the pod's component of it."""
    ends_at: str = ""
    """When the job reaches its time limit, in RFC 3339; "" if it has none."""
    first_node: str = ""
    """The Kubernetes Node of a gang's first slot."""
    gang_size: int = 0
    """How many pods the gang has; 0 for a single pod."""


class NoteEnd(msgspec.Struct, frozen=True):
    """Write on the pod when its job reaches its time limit, in RFC 3339; "" if it has none."""

    pod: PodFacts
    ends_at: str


class Exclude(msgspec.Struct, frozen=True):
    """Have the unit's jobs avoid this node for a while, because the pod could not use it."""

    node: str
    why: str


class Readmit(msgspec.Struct, frozen=True):
    """Change the excluded nodes of a waiting job, because other nodes suit the pod now. `others`
    has those of its further components by id, if it is heterogeneous.
    """

    job_id: int
    excluded: tuple[str, ...]
    others: tuple[tuple[int, tuple[str, ...]], ...] = ()

    @property
    def by_id(self) -> dict[int, tuple[str, ...]]:
        """The excluded nodes by the id of each component."""
        return {self.job_id: self.excluded, **dict(self.others)}

    @property
    def digest(self) -> str:
        """Identifies these sets of nodes by 8 bytes, however many there are."""
        sets = (self.excluded, *(excluded for _, excluded in self.others))
        text = "\n\n".join(map("\n".join, sets)).encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, digest_size=8).hexdigest()


class Cancel(msgspec.Struct, frozen=True):
    """Cancel the placeholder, after writing the pod's outcome into it if that is known. `unseen`
    are the uids of pods that no list or watch shows, which does not prove that they are gone.
    """

    job_id: int
    why: str
    outcome: str = ""
    unseen: tuple[str, ...] = ()


class TakeBack(msgspec.Struct, frozen=True):
    """Cancel a job that this process submitted and that has no owner tag. It is recognised by its
    id, its name and its submit time by Slurm's clock, in Unix seconds. The pod's condition says so,
    and the next submit waits for a long time. For `unseen` see Cancel.
    """

    job_id: int
    name: str
    submit_time: int
    unseen: tuple[str, ...] = ()


class DropJob(msgspec.Struct, frozen=True):
    """Remove the job from a waiting pod that cannot use it. A new job follows; if this one was
    `miscounted`, Slurm packs none of the unit's pods any more.
    """

    job_id: int
    why: str
    miscounted: bool = False


class Evict(WithAside, frozen=True):
    """Delete the pod, after saying why: Slurm has taken its resources, or is about to.

    `grace_seconds` is what is left of the time that Slurm gives; None leaves the pod its own grace
    period. `needs` are the resources that the pod uses on its node.
    """

    ASIDE = frozenset({"needs"})

    pod: PodFacts
    reason: Reason
    message: str
    grace_seconds: int | None = None
    evidence: Evidence = Evidence.RECORD
    needs: JobRequest | None = None


class Hurry(msgspec.Struct, frozen=True):
    """Shorten the grace period of a pod that is being deleted, because its job no longer holds its
    node. This takes a second deletion.
    """

    pod: PodFacts
    reason: Reason
    message: str
    grace_seconds: int


class Reject(msgspec.Struct, frozen=True):
    """Tell the owner all problems of the pod. This is final unless the pod is edited."""

    pod: PodFacts
    problems: tuple[Problem, ...]


class Tell(msgspec.Struct, frozen=True):
    """Show on the pod why it waits. `cause` is Slurm's own word; an Event is recorded when it
    changes, but not when numbers in the message change.
    """

    pod: PodFacts
    reason: Reason
    message: str
    cause: str = ""


class Warn(msgspec.Struct, frozen=True):
    """Record an Event about something that no condition covers, once for each message."""

    reason: Reason
    message: str


class Again(msgspec.Struct, frozen=True):
    """The next pass is due after this many seconds, if nothing else wakes the unit before."""

    seconds: float


class Forget(msgspec.Struct, frozen=True):
    """The unit has no pods and no job: forget it."""


Action = (
    Submit
    | ReadGang
    | Reseat
    | GiveBack
    | PartWith
    | ServeBeside
    | TellGroup
    | Weigh
    | Update
    | Inspect
    | Record
    | LookForTwins
    | Locate
    | Bind
    | NoteEnd
    | Cancel
    | TakeBack
    | DropJob
    | Exclude
    | Readmit
    | Evict
    | Hurry
    | Reject
    | Tell
    | Warn
    | Again
    | Forget
)
