"""Makes a history, of the lives of pods and jobs, from the records of both servers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from tests.audit.history import History, Owner
from tests.audit.job_lives import job_lives, strays
from tests.audit.pod_lives import pod_lives
from tests.audit.records import Records


@dataclass(frozen=True, slots=True)
class Scope:
    """Which owner tags and schedulerNames are ours, and which Slurm node is behind a Node if their
    names differ. Pods of the schedulers `elsewhere` belong to a Slurm that is not recorded.
    """

    owners: frozenset[Owner]
    schedulers: frozenset[str]
    slurm_nodes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    elsewhere: frozenset[str] = frozenset()


def assemble(records: Records, scope: Scope) -> History:
    """The history of what was recorded."""
    jobs = tuple(job_lives(records))
    return History(
        jobs=jobs,
        strays=tuple(strays(records, jobs)),
        pods=tuple(it for it in pod_lives(records) if it.scheduler not in scope.elsewhere),
        owners=scope.owners,
        schedulers=scope.schedulers,
        slurm_nodes=scope.slurm_nodes,
        closed=records.closed,
        opened=records.opened,
        looks=records.looks,
    )
