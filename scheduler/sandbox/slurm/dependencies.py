"""What a job waits for: ``singleton`` and ``after*`` dependencies."""

from enum import Enum, auto

from .cluster import Cluster
from .errors import SlurmError
from .records import STARTED, Job, State

_KINDS = frozenset({"after", "afterany", "afterok", "afternotok"})


class Dependency(Enum):
    """How things stand with a job's dependencies."""

    FULFILLED = auto()
    WAITING = auto()
    NEVER = auto()


def check(cluster: Cluster, text: str) -> None:
    """Refuse a dependency that cannot be read or names an unknown job (2038)."""
    for term in filter(None, text.split(",")):
        kind, *ids = term.split(":")
        if kind == "singleton" and not ids:
            continue
        known = (i.isdigit() and int(i) in cluster.jobs for i in ids)
        if kind not in _KINDS or not ids or not all(known):
            raise SlurmError(2038)


def judge(cluster: Cluster, job: Job) -> Dependency:
    """Return how things stand; all terms must be fulfilled."""
    verdicts = {_term(cluster, job, term) for term in job.dependency.split(",")}
    if Dependency.NEVER in verdicts:
        return Dependency.NEVER
    return Dependency.WAITING if Dependency.WAITING in verdicts else Dependency.FULFILLED


def _term(cluster: Cluster, job: Job, term: str) -> Dependency:
    kind, *ids = term.split(":")
    if kind == "singleton":
        return _singleton(cluster, job)
    verdicts = {_after(kind, cluster.jobs.get(int(job_id))) for job_id in ids}
    if Dependency.NEVER in verdicts:
        return Dependency.NEVER
    return Dependency.WAITING if Dependency.WAITING in verdicts else Dependency.FULFILLED


def _singleton(cluster: Cluster, job: Job) -> Dependency:
    """Wait for the running and the older waiting jobs of the same name and user."""
    for other_id in cluster.namesakes[job.asked.user_id, job.name]:
        other = cluster.jobs[other_id]
        if other.state in STARTED or other_id < job.id:
            return Dependency.WAITING
    return Dependency.FULFILLED


def _after(kind: str, other: Job | None) -> Dependency:
    if other is None:
        return Dependency.FULFILLED
    if kind == "after":
        return Dependency.WAITING if other.state is State.PENDING else Dependency.FULFILLED
    if other.alive or other.completing:
        return Dependency.WAITING
    succeeded = other.state is State.COMPLETED
    if kind == "afterany" or succeeded == (kind == "afterok"):
        return Dependency.FULFILLED
    return Dependency.NEVER
