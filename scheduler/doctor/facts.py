"""What was read from both servers, as plain data. An `Unread` stands in place of what was not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.config.settings import Settings
from scheduler.doctor.rights import Right
from scheduler.kube.wire import Node
from slurmapi import ApiVersion, Ping, SlurmConfig, SlurmNode
from slurmapi.jwt import Lifetime


@dataclass(frozen=True, slots=True)
class Unread:
    """Why something could not be read. `cause` is a word: of `scheduler.slurm.causes` or of
    `scheduler.kube.causes`; "denied" without the right to read it; "" for anything else.
    """

    why: str
    cause: str = ""


NOT_ASKED = Unread("")
"""Stands for what is not asked, because something before it could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmFacts:
    """`token` names the source of the token, and `user` is the Slurm user whose token it is. A
    `config` of None is one that this Slurm, or a gateway before it, does not show.
    """

    where: str
    token: str
    user: str = ""
    lifetime: Lifetime = field(default_factory=Lifetime)
    cluster: str = ""
    version: ApiVersion | Unread = NOT_ASKED
    ping: Ping | Unread = NOT_ASKED
    config: SlurmConfig | Unread | None = NOT_ASKED
    nodes: tuple[SlurmNode, ...] | Unread = NOT_ASKED

    @property
    def conf(self) -> SlurmConfig | None:
        """The settings of slurm.conf; None if they are not known, whatever the reason."""
        return None if isinstance(self.config, Unread) else self.config


@dataclass(frozen=True, slots=True)
class AdmissionPolicy:
    """An admission policy for pods of our scheduler name, with the settings that are written in it.
    `bound` says that a binding puts it in force.
    """

    name: str
    settings: Mapping[str, str]
    bound: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeFacts:
    """`rights` says of each right whether these credentials have it. `seconds_off` is how far the
    API server's clock is ahead of ours. `absent` are served namespaces that do not exist.
    """

    server: str
    version: str | Unread = NOT_ASKED
    seconds_off: float | None = None
    own_namespace: str = ""
    rights: Mapping[Right, bool] | Unread = NOT_ASKED
    absent: tuple[str, ...] | Unread = NOT_ASKED
    policies: tuple[AdmissionPolicy, ...] | Unread = NOT_ASKED
    nodes: tuple[Node, ...] | Unread = NOT_ASKED


@dataclass(frozen=True, slots=True)
class Pair:
    """A Slurm node and the Kubernetes Node behind it; None with the reason `why`. `node` is None
    without a reason if Nodes may not be read.
    """

    slurm: SlurmNode
    target: str
    why: str = ""
    node: Node | None = None


@dataclass(frozen=True, slots=True)
class NodePods:
    """Some pods on one Node: how many, and what they request together."""

    pods: int
    requests: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class PodsOnNodes:
    """Some pods by Node, and by the name of their scheduler. `whole` is false if there were more
    pods than are read.
    """

    on: Mapping[str, NodePods]
    schedulers: Mapping[str, int]
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Running:
    """What the /readyz of a scheduler says: why it is not ready, or who leads."""

    url: str
    ready: bool
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All of it. `now` is this machine's time, and `slurm_seconds_off` is how far Slurm's clock is
    ahead of it. `policy` is why the policy file cannot be used; "" if it can, or if there is none.
    `running` is None if no scheduler listens here.
    """

    settings: Settings
    now: float
    slurm: SlurmFacts
    kube: KubeFacts
    pairs: tuple[Pair, ...] | Unread = NOT_ASKED
    crowd: PodsOnNodes | Unread = NOT_ASKED
    slurm_seconds_off: float | None = None
    policy: str = ""
    running: Running | Unread | None = None


def seconds_apart(theirs: float, *, before: float, after: float) -> float:
    """By how many seconds a clock is ahead of ours at least, negative if it is behind; 0 if both
    may agree. It showed `theirs`, which is cut to whole seconds, at a moment between `before` and
    `after`: an answer that takes long says little about clocks.
    """
    if theirs > after:
        return theirs - after
    return min(0.0, theirs + 1.0 - before)
