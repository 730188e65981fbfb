"""What a job waits for: ``singleton`` and ``after*`` dependencies, as measured on both releases."""

import re
from collections.abc import Iterator
from enum import Enum, auto
from typing import Final

from .cluster import Cluster
from .errors import SlurmError
from .records import STARTED, Job, State

_TERM: Final = re.compile(r"(?P<kind>[a-z]+)(?P<jobs>(?::[0-9]+(?:\+[0-9]+)?)*)")
# For these kinds a job that slurmctld does not know counts as started and ended.
_ENDED_WILL_DO: Final = frozenset({"after", "afterany", "aftercorr"})
_KINDS: Final = _ENDED_WILL_DO | {"afterok", "afternotok"}


class Dependency(Enum):
    """The status of a job's dependency."""

    FULFILLED = auto()
    WAITING = auto()
    NEVER = auto()


def check(cluster: Cluster, text: str) -> None:
    """Refuse a dependency that Slurm does not accept.

    Raises SlurmError 2038 if it cannot be parsed or needs an unknown job, 2036 for ``expand``.
    """
    for term in filter(None, re.split("[,?]", text)):
        match = _TERM.fullmatch(term)
        kind = match["kind"] if match else ""
        ids = [int(job.partition("+")[0]) for job in term.split(":")[1:]] if match else []
        if kind == "expand":
            raise SlurmError(2036)
        if kind == "singleton" and not ids:
            continue
        unknown = not cluster.jobs.keys() >= set(ids)
        if kind not in _KINDS or not ids or (unknown and kind not in _ENDED_WILL_DO):
            raise SlurmError(2038)


def judge(cluster: Cluster, job: Job, *, now: float) -> Dependency:
    """Return the status of the job's dependency.

    All terms must be fulfilled; with "?" between the terms, any one of them is enough.
    """
    verdicts = {verdict for _, verdict in terms(cluster, job, now=now)}
    if "?" in job.dependency and Dependency.FULFILLED in verdicts:
        return Dependency.FULFILLED
    if Dependency.NEVER in verdicts:
        return Dependency.NEVER
    return Dependency.WAITING if Dependency.WAITING in verdicts else Dependency.FULFILLED


def terms(cluster: Cluster, job: Job, *, now: float) -> Iterator[tuple[str, Dependency]]:
    """Yield each single term of the job's dependency and its status."""
    for term in filter(None, re.split("[,?]", job.dependency)):
        kind, *others = term.split(":")
        if not others:
            yield term, _singleton(cluster, job)
        for other in others:
            yield f"{kind}:{other}", _after(kind, cluster, other, now=now)


def _singleton(cluster: Cluster, job: Job) -> Dependency:
    """Wait for the running and the older pending jobs of the same name and user."""
    for other_id in cluster.namesakes[job.asked.user_id, job.name]:
        other = cluster.jobs[other_id]
        if job.het_id and other.het_id == job.het_id:
            continue
        if other.state in STARTED or other_id < job.id:
            return Dependency.WAITING
    return Dependency.FULFILLED


def _after(kind: str, cluster: Cluster, text: str, *, now: float) -> Dependency:
    number, _, minutes = text.partition("+")
    other = cluster.jobs.get(int(number))
    if other is None:
        return Dependency.FULFILLED
    if kind == "after":
        since = other.start_time + 60 * int(minutes or 0)
        waiting = other.state is State.PENDING or (other.alive and since > now)
        return Dependency.WAITING if waiting else Dependency.FULFILLED
    if other.alive or other.completing:
        return Dependency.WAITING
    succeeded = other.state is State.COMPLETED
    if kind == "afterany" or succeeded == (kind == "afterok"):
        return Dependency.FULFILLED
    return Dependency.NEVER
