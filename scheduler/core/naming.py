"""Who owns a placeholder, and what it is called.

A job id alone is no identity, since slurmctld gives ids out again after a crash (measured). A
placeholder is ours when its `admin_comment`, which only Slurm administrators can write, says so.
"""

from __future__ import annotations

from typing import Any

import msgspec

# Annotations that we write ourselves.
OWN_PREFIX = "slurm-pod-scheduler/"
JOB_ID = f"{OWN_PREFIX}job-id"
NODES = f"{OWN_PREFIX}nodes"
ENDS_AT = f"{OWN_PREFIX}ends-at"

VERSION = 1


class Owner(msgspec.Struct, frozen=True):
    """One scheduler of one Kubernetes cluster."""

    cluster: str
    scheduler: str


class OwnerTag(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content of a placeholder's `admin_comment`.

    `node` is set when the job was asked for on that very node, for a pod that already runs there,
    `outcome` when the pod has ended and the job is about to. `restarts` counts how often the job
    had been requeued when its pods were bound: any more of them have taken the nodes away. It
    stands here and not on the pod, whose owner could write anything. `given_back` is set when its
    unit has let go of the job, which is about to be cancelled: its end says nothing about the pod.
    `tries` and `until` are of a job that was asked for in the
    place of a lost one: how many there were, and when the pod's time is over.
    `grace` is what the pods have to stop, in seconds; None in a tag of an older version.
    `asked` has a digest of each
    field that the job was last asked for (`core.edits`); none in a tag of an older version.
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

    @property
    def owner(self) -> Owner:
        """Whose it is."""
        return Owner(self.cluster, self.scheduler)

    def encode(self, **changes: Any) -> str:
        """Compact JSON, with these fields changed."""
        return msgspec.json.encode(msgspec.structs.replace(self, **changes)).decode()


_decoder = msgspec.json.Decoder(OwnerTag)


def read_tag(admin_comment: str) -> OwnerTag | None:
    """The tag, or None for anything that is not one of this version."""
    try:
        tag = _decoder.decode(admin_comment)
    except msgspec.MsgspecError:
        return None
    return tag if tag.v == VERSION and tag.uids else None


def job_name(namespace: str, name: str, uid: str) -> str:
    """Readable in squeue and unique per pod uid: `<namespace>.<name>.<first 8 of uid>`."""
    return f"{namespace}.{name}.{uid[:8]}"
