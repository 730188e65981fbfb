"""What may be done about a unit. Actions are data; `scheduler.execute` carries them out."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from annotations import JobRequest, Problem
from scheduler.core.evidence import Evidence
from scheduler.core.facts import PodFacts
from scheduler.core.reasons import Reason


@dataclass(frozen=True, slots=True)
class Submit:
    """Make the placeholder. `node` pins it to where the pod already runs, and `why` says what
    became of the former one; `replaces` is a job of ours that the new one takes the place of,
    cancelled once the new one is recorded. `excluded` are Slurm nodes it must not get, and why.
    `first` puts it before all others in the queue.
    """

    request: JobRequest
    node: str = ""
    first: bool = False
    why: str = field(default="", compare=False)  # is told, and changes nothing
    replaces: int | None = None
    excluded: tuple[tuple[str, str], ...] = ()
    minutes: int | None = None
    """Its time limit, where that is not what the request says."""
    until: int = 0
    """When the pod's time is over, in seconds of the epoch; 0 where that is not known."""
    tries: int = 0
    """How many jobs have been asked for in the place of lost ones, this one included."""
    grace_seconds: int | None = None
    """What its pods have to stop."""


@dataclass(frozen=True, slots=True)
class Weigh:
    """Read how much of that Slurm node is allocated."""

    node: str


@dataclass(frozen=True, slots=True)
class Update:
    """Have the pending job take these fields of the request, which were edited on the pod."""

    job_id: int
    request: JobRequest
    changed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Inspect:
    """Look at the whole job record once."""

    job_id: int


@dataclass(frozen=True, slots=True)
class Record:
    """Write on the pod which job is its own: it was found, or its record failed."""

    job_id: int


@dataclass(frozen=True, slots=True)
class LookForTwins:
    """Have Slurm's jobs looked through for placeholders that were never recorded. `tell` the pod
    where that cannot be done: not one that runs, or that says already why it waits.
    """

    tell: bool = False


@dataclass(frozen=True, slots=True)
class Locate:
    """Ask Slurm about these nodes, or for a list of all, to tell which Nodes are behind them."""

    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Bind:
    """Bind the pod to `target`, the Kubernetes Node behind the Slurm node its placeholder holds.

    `restarts` is how often the job had been requeued by then, which the job says before the pod can
    run.
    """

    pod: PodFacts
    node: str
    job_id: int
    target: str
    restarts: int = 0
    ends_at: str = ""
    """Until when the job may run, in RFC 3339; empty for as long as it likes."""


@dataclass(frozen=True, slots=True)
class NoteEnd:
    """Write on the pod until when its job may run, in RFC 3339; empty for as long as it likes."""

    pod: PodFacts
    ends_at: str


@dataclass(frozen=True, slots=True)
class Exclude:
    """Ask for other nodes than this one for a while: the pod could not use it."""

    node: str
    why: str


@dataclass(frozen=True, slots=True)
class Readmit:
    """The job waits, and the nodes it must not get are others now: have Slurm know."""

    job_id: int
    excluded: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Tells these nodes from others, in 16 bytes however many they are."""
        text = "\n".join(self.excluded).encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class Cancel:
    """End the placeholder, after noting on it how its pod ended, where that is known. `unseen`: no
    list or watch shows the pod, which is no proof that it is gone.
    """

    job_id: int
    why: str
    outcome: str = ""
    unseen: bool = False


@dataclass(frozen=True, slots=True)
class TakeBack:
    """End a job of our own submit that bears no owner tag, known by its id, its name and the time
    of its submit by Slurm's clock, in seconds of the epoch; tell the pod, and wait long before the
    next one. `unseen` as in Cancel.
    """

    job_id: int
    name: str
    submit_time: int
    unseen: bool = False


@dataclass(frozen=True, slots=True)
class DropJob:
    """The job is of no use to a pod that waits: have the pod let go of it. A new one follows."""

    job_id: int
    why: str


@dataclass(frozen=True, slots=True)
class Evict:
    """Delete the pod, after saying why: Slurm has taken its resources, or is about to.

    `grace_seconds` is what is left of the time Slurm gives; None leaves the pod its own grace.
    `needs` is what the pod has of its node.
    """

    pod: PodFacts
    reason: Reason
    message: str
    grace_seconds: int | None = None
    evidence: Evidence = Evidence.RECORD
    needs: JobRequest | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Hurry:
    """Delete a pod that is being deleted once more, with a shorter grace than it was given: its
    job no longer holds its node.
    """

    pod: PodFacts
    reason: Reason
    message: str
    grace_seconds: int


@dataclass(frozen=True, slots=True)
class Reject:
    """Tell the owner all that is wrong; final for this pod object."""

    pod: PodFacts
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Tell:
    """Mirror on the pod why it waits. `cause`, Slurm's own word for it, is worth an Event when it
    changes; the message holds numbers that change all the time.
    """

    pod: PodFacts
    reason: Reason
    message: str
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Warn:
    """Tell the owner of something that no condition is for: an Event, once for each message."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class Again:
    """Look again after so many seconds, if nothing else brings the unit up before."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Forget:
    """The unit has no pods and no job: drop what is remembered of it."""


Action = (
    Submit
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
