"""The state of slurmctld, with the indexes that the model needs, and its saved copy."""

import copy
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from .config import (
    AccountConfig,
    PartitionConfig,
    QosConfig,
    Release,
    ReservationConfig,
    SlurmConfig,
)
from .hostlist import order
from .journal import Journal
from .placement import eligible
from .records import STARTED, Job, Node, Request, State

_MOST_REQUESTS = 4096


@dataclass(slots=True)
class Counters:
    """The counters of diag/ since the controller's start."""

    submitted: int = 0
    started: int = 0
    completed: int = 0
    canceled: int = 0
    failed: int = 0
    cycles: int = 0


@dataclass(slots=True)
class Saved:
    """The content of StateSaveLocation: jobs as last saved, and the node settings of operators."""

    jobs: dict[int, Job] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    next_id: int = 1


class Cluster:
    """Jobs, nodes and partitions; every change of a job record must be followed by ``touch``."""

    def __init__(self, config: SlurmConfig, *, now: float) -> None:
        self.config = config
        self.partitions: dict[str, PartitionConfig] = {p.name: p for p in config.partitions}
        self.nodes = {node.config.name: node for node in _nodes(config)}
        self.jobs: dict[int, Job] = {}
        self.pending: set[int] = set()
        self.active: set[int] = set()
        self.namesakes: dict[tuple[int, str], set[int]] = defaultdict(set)
        self.het_ids: dict[int, list[int]] = {}
        self.next_id = 1
        self.boot_time = now
        self.jobs_changed = now
        self.nodes_changed = now
        self.counters = Counters()
        self.stirred = True
        self.stumbles = 0
        self.reservations = {r.name: r for r in config.reservations}
        self.accounts = _accounts(config)
        self.qos: dict[str, QosConfig] = {qos.name: qos for qos in config.qos}
        self.prologs: list[int] = []
        """The ids of the jobs whose PrologSlurmctld must be run."""
        self.journals: list[Journal] = []
        self._candidates: dict[Request, list[Node]] = {}
        self._judged: dict[Request, str] = {}
        self.gres_names = {gres.name for node in config.nodes for gres in node.gres}
        self.features: set[str] = set()
        self.forget_candidates()
        self._dirty: set[int] = set()
        self._saved = Saved()

    def add(self, job: Job) -> None:
        """Add a job record, new or restored, and mark the resources that it holds as used."""
        self.jobs[job.id] = job
        if job.het_id:
            self.het_ids.setdefault(job.het_id, []).append(job.id)
        for share in job.holding:
            self.nodes[share.node].hold(job.id, share)
        self.touch(job)

    def components(self, job: Job) -> list[Job]:
        """Return all components of a heterogeneous job, in order; of any other the job alone."""
        return [self.jobs[job_id] for job_id in self.het_ids.get(job.het_id, [job.id])]

    def touch(self, job: Job) -> None:
        """Update indexes and journals after a change of the job, and make a scheduling pass due."""
        self._dirty.add(job.id)
        self.stirred = True
        active = job.state in STARTED or job.completing
        _belongs(self.pending, job.id, member=job.state is State.PENDING)
        _belongs(self.active, job.id, member=active)
        _belongs(self.namesakes[job.asked.user_id, job.name], job.id, member=job.alive)
        for journal in self.journals:
            journal.changed(job)

    def rename(self, job: Job, name: str) -> None:
        """Change a job's name; the caller must call ``touch`` afterwards."""
        self.namesakes[job.asked.user_id, job.name].discard(job.id)
        job.name = name

    def forget(self, job: Job) -> None:
        """Remove the record of an ended job."""
        del self.jobs[job.id]
        self._dirty.add(job.id)
        if job.het_id:
            self.het_ids[job.het_id].remove(job.id)
        key = job.asked.user_id, job.name
        if not self.namesakes[key]:
            del self.namesakes[key]

    def candidates(self, request: Request) -> list[Node]:
        """Return the partition's nodes that suit the request, busy or not, by weight and name."""
        found = self._candidates.get(request)
        if found is None:
            if len(self._candidates) >= _MOST_REQUESTS:
                self._candidates.clear()
            found = [n for n in self.partition_nodes(request.partition) if eligible(n, request)]
            self._candidates[request] = found
        return found

    def forget_candidates(self) -> None:
        """Drop all cached answers about nodes, because their features have changed."""
        self._candidates.clear()
        self._judged.clear()
        self.features = {name for node in self.nodes.values() for name in node.features}

    def remembered(self, request: Request, judge: Callable[["Cluster", Request], str]) -> str:
        """Return the result of ``judge``, which runs only once for all equal requests."""
        verdict = self._judged.get(request)
        if verdict is None:
            if len(self._judged) >= _MOST_REQUESTS:
                self._judged.clear()
            verdict = self._judged[request] = judge(self, request)
        return verdict

    def partition_nodes(self, partition: str) -> Iterator[Node]:
        """Yield the nodes of a partition, sorted by weight and name."""
        return (node for node in self.nodes.values() if partition in node.partitions)

    def may_start(self, node: Node, request: Request, *, now: float) -> bool:
        """Whether the node takes new jobs, and reservations let this request use it."""
        if not node.available:
            return False
        held_for = [
            reservation.name
            for reservation in self.reservations.values()
            if reservation.active(now) and node.config.name in reservation.nodes
        ]
        return request.reservation in held_for if held_for else not request.reservation

    def reservation(self, name: str) -> ReservationConfig | None:
        """Return the reservation of that name, None if there is none."""
        return self.reservations.get(name)

    def save(self) -> None:
        """Copy what has changed since the last save to the state save location."""
        for job_id in self._dirty:
            job = self.jobs.get(job_id)
            if job is None:
                self._saved.jobs.pop(job_id, None)
            else:
                self._saved.jobs[job_id] = copy.copy(job)
        self._dirty.clear()
        self._saved.nodes = {name: replace(node) for name, node in self.nodes.items()}
        self._saved.next_id = self.next_id

    def forget_saved(self) -> None:
        """Empty the state save location.

        Reservations are lost too, and so is every change of a partition at run time.
        """
        self._saved = Saved()
        self.partitions = {it.name: it for it in self.config.partitions}
        self.reservations = {}

    def resume_prolog(self, job: Job) -> None:
        """Continue with a job whose PrologSlurmctld ran when the controller stopped.

        After the restart 24.11 runs it again; 26.05 treats it as done (measured).
        """
        if not job.configuring or job.state is not State.RUNNING:
            return
        job.configuring = self.config.release is Release.V24_11
        if job.configuring:
            self.prologs.append(job.id)

    def restored(self, *, now: float) -> "Cluster":
        """Return the cluster that a controller reads from its saved state when it starts now."""
        cluster = Cluster(self.config, now=now)
        cluster.partitions = dict(self.partitions)
        cluster.reservations = dict(self.reservations)
        cluster.accounts = None if self.accounts is None else dict(self.accounts)
        cluster.qos = dict(self.qos)
        for name, saved in self._saved.nodes.items():
            _operator_settings(cluster.nodes[name], saved)
        for job in self._saved.jobs.values():
            cluster.add(copy.copy(job))
            cluster.resume_prolog(cluster.jobs[job.id])
        cluster.next_id = self._saved.next_id
        cluster.save()
        cluster.journals = self.journals
        for journal in cluster.journals:
            journal.restored(cluster.jobs)
        return cluster


def _accounts(config: SlurmConfig) -> dict[str, AccountConfig] | None:
    """Return the accounts by name, None for a cluster without slurmdbd."""
    if config.accounts is None:
        return None
    return {account.name: account for account in config.accounts}


def _nodes(config: SlurmConfig) -> Iterator[Node]:
    table = sorted(config.nodes, key=lambda node: (node.weight, order(node.name)))
    for position, node in enumerate(table):
        partitions = tuple(
            p.name for p in config.partitions if p.nodes is None or node.name in p.nodes
        )
        yield Node.of(node, partitions, position)


def _operator_settings(node: Node, saved: Node) -> None:
    node.down, node.drain, node.features = saved.down, saved.drain, saved.features
    node.reason, node.reason_user = saved.reason, saved.reason_user
    node.reason_time = saved.reason_time
    node.comment, node.extra = saved.comment, saved.extra


def _belongs(ids: set[int], job_id: int, *, member: bool) -> None:
    if member:
        ids.add(job_id)
    else:
        ids.discard(job_id)
