"""One scheduling pass: which jobs start, where, which jobs they preempt, and why others wait.

The queue is sorted by the partition's PriorityTier, the job's priority and its age (its id). A job
that does not fit does not hold back later jobs that do; sched/backfill has the same effect when no
job has a time limit. Preemption works as preempt/partition_prio.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from . import lifecycle
from .accounting import over_limit
from .cluster import Cluster
from .config import PartitionConfig
from .dependencies import Dependency, judge
from .placement import Room, place, share_of
from .records import STARTED, Job, Node, Request, Share, State

_UNAVAILABLE = (
    "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"
)

_YEAR = 365 * 24 * 3600


class Pass:
    """One pass over the queue; it remembers which requests fit nowhere."""

    def __init__(self, cluster: Cluster, *, now: float) -> None:
        self._cluster = cluster
        self._now = now
        self._full: dict[Request, tuple[str, str, float]] = {}
        self._first: dict[Request, int] = {}
        self._blocked: set[str] = set()
        self._lowest_tier = min(
            (p.priority_tier for p in cluster.partitions.values() if p.preempt_mode != "OFF"),
            default=0,
        )

    def run(self) -> None:
        """Start the jobs that fit, and set the reason of every other pending job."""
        cluster = self._cluster
        cluster.counters.cycles += 1
        for job in sorted((cluster.jobs[i] for i in cluster.pending), key=self._rank):
            if job.het_id:
                self._try_together(job)
            elif self._ready(job):
                self._try(job)

    def _rank(self, job: Job) -> tuple[int, int, int]:
        tier = self._cluster.partitions[job.asked.request.partition].priority_tier
        return -tier, -job.priority, job.id

    def _ready(self, job: Job) -> bool:
        """Whether the job waits for nothing but resources; otherwise set its reason."""
        job.last_evaluation, job.expected_start = self._now, 0.0
        if job.priority == 0:
            return False
        partition = self._cluster.partitions[job.asked.request.partition]
        reason = self._waits_for(job) or self._unreserved(job) or limit(partition, job)
        reason = reason or over_limit(self._cluster, job)
        if reason == "DeadLine":
            lifecycle.end(self._cluster, job, State.DEADLINE, now=self._now, reason=reason)
        elif reason:
            self._wait(job, reason)
        if reason == "BadConstraints":
            job.priority = 0
        return not reason

    def _waits_for(self, job: Job) -> str:
        if job.begin_time > self._now:
            return "BeginTime"
        if job.dependency:
            verdict = judge(self._cluster, job, now=self._now)
            if verdict is not Dependency.FULFILLED:
                return "Dependency" if verdict is Dependency.WAITING else "DependencyNeverSatisfied"
            job.dependency = ""
        if not job.eligible_time:
            job.eligible_time = self._now
        if job.asked.deadline and not _in_time(job, now=self._now):
            return "DeadLine"
        return ""

    def _unreserved(self, job: Job) -> str:
        name = job.asked.request.reservation
        reservation = self._cluster.reservation(name) if name else None
        active = reservation is not None and reservation.active(self._now)
        return "Reservation" if name and not active else ""

    def _try(self, job: Job) -> None:
        request = job.asked.request
        if not self._licensed(job):
            self._wait(job, "Licenses")
            return
        if job.asked.prefer:
            shares = self._place(replace(request, constraint=job.asked.prefer))
            if shares is not None:
                job.preferred = True
                lifecycle.start(self._cluster, job, shares, now=self._now)
                return
        full = self._full.get(request)
        shares = None if full else self._place(request) or self._take_places(job)
        if shares is not None:
            lifecycle.start(self._cluster, job, shares, now=self._now)
            return
        reason, text, start = full or self._full.setdefault(request, self._why_full(request))
        if reason == "Resources" and request.partition in self._blocked:
            reason = "Priority"
        self._blocked.add(request.partition)
        self._wait(job, reason, text)
        job.expected_start = start

    def _try_together(self, first: Job) -> None:
        """Start all components of a heterogeneous job, each on nodes of its own, or none.

        One that was cancelled by itself holds the others back for good (measured).
        """
        if first.het_offset:
            return
        parts = self._cluster.components(first)
        pending = [part for part in parts if part.state is State.PENDING]
        ready = [part for part in pending if self._ready(part)]
        if len(ready) < len(pending):
            for part in ready:
                self._wait(part, "None")
            return
        found = self._places_for(pending) if len(pending) == len(parts) else None
        for part in pending:
            if found is None:
                self._wait(part, "Resources")
            else:
                lifecycle.start(self._cluster, part, found[part.id], now=self._now)

    def _places_for(self, parts: Sequence[Job]) -> dict[int, Sequence[Share]] | None:
        found: dict[int, Sequence[Share]] = {}
        taken: set[str] = set()
        for part in parts:
            request = part.asked.request
            free = [it for it in self._open_to(request) if it.config.name not in taken]
            shares = place(request, free)
            if shares is None:
                return None
            found[part.id] = shares
            taken |= {share.node for share in shares}
        return found

    def _open_to(self, request: Request) -> list[Node]:
        nodes = self._cluster.candidates(request)
        return [node for node in nodes if self._admits(node, request)]

    def _place(self, request: Request) -> Sequence[Share] | None:
        """Return the shares for a request, None if it does not fit.

        Within one pass no node gets emptier, so nodes that were full are not tried again.
        """
        nodes = self._cluster.candidates(request)
        if request.min_nodes != 1 or request.max_nodes != 1 or request.required:
            return place(request, self._open_to(request))
        for index in range(self._first.get(request, 0), len(nodes)):
            if self._admits(nodes[index], request):
                share = share_of(request, nodes[index], request.cpus_per_node)
                if share is not None:
                    self._first[request] = index
                    return (share,)
        return None

    def _open(self, node: Node, request: Request) -> bool:
        return self._cluster.may_start(node, request, now=self._now)

    def _admits(self, node: Node, request: Request) -> bool:
        """Whether the node takes new jobs, and its present jobs may share it with this one."""
        if not self._open(node, request):
            return False
        if any(user != request.user_id for user in node.sole_users.values()):
            return False
        jobs = self._cluster.jobs
        return not request.sole_user or all(
            jobs[job_id].asked.user_id == request.user_id for job_id in node.jobs
        )

    def _take_places(self, job: Job) -> Sequence[Share] | None:
        """Preempt the fewest jobs of lower tiers that make room for the job.

        Returns the job's shares, None if no room is free yet.
        """
        request = job.asked.request
        tier = self._cluster.partitions[request.partition].priority_tier
        if tier <= self._lowest_tier:
            return None
        offers = sorted(self._offers(request, tier), key=lambda offer: len(offer[1]))
        shares = place(request, [room for room, _ in offers])
        if shares is None:
            return None
        chosen = {share.node for share in shares}
        for room, victims in offers:
            if room.config.name in chosen:
                self._preempt(victims)
        self._full.clear()
        self._first.clear()
        return self._place(request)

    def _preempt(self, victims: Sequence[Job]) -> None:
        for victim in victims:
            if victim.state in STARTED:
                lifecycle.preempt(self._cluster, victim, now=self._now)

    def _offers(self, request: Request, tier: int) -> Iterator[tuple[Room, list[Job]]]:
        """Yield each node as it would be after preemption, with the jobs to preempt there."""
        for node in self._cluster.candidates(request):
            if not self._open(node, request):
                continue
            leaving, victims = self._lower(node, tier)
            room = Room.without(node, (_share(job, node) for job in leaving))
            taken: list[Job] = []
            while victims and share_of(request, room, request.cpus_per_node) is None:
                taken.append(victims.pop())
                room = Room.without(room, [_share(taken[-1], node)])
            yield room, taken

    def _lower(self, node: Node, tier: int) -> tuple[list[Job], list[Job]]:
        """Return the jobs that leave the node anyway, and those that may be preempted.

        The second list ends with the job to preempt first: lowest tier, then youngest.
        """
        leaving: list[Job] = []
        victims: list[tuple[int, float, int, Job]] = []
        for job in (self._cluster.jobs[job_id] for job_id in node.jobs):
            partition = self._cluster.partitions[job.asked.request.partition]
            if job.completing or job.preempt_time:
                leaving.append(job)
            elif partition.priority_tier < tier and partition.preempt_mode != "OFF":
                victims.append((-partition.priority_tier, job.start_time, job.id, job))
        return leaving, [job for *_, job in sorted(victims, key=lambda victim: victim[:3])]

    def _why_full(self, request: Request) -> tuple[str, str, float]:
        """Return why a request does not fit: reason, description and expected start."""
        nodes = self._cluster.candidates(request)
        away = [n for n in nodes if not self._open(n, request)]
        if request.required:
            missing = [n for n in away if n.config.name in request.required]
            if len(missing) > len(request.required) - request.min_nodes:
                return "ReqNodeNotAvail", _not_available(missing), 0.0
        elif len(away) == len(nodes):
            return "Resources", _UNAVAILABLE, 0.0
        return "Resources", "", self._first_end(nodes)

    def _first_end(self, nodes: Sequence[Node]) -> float:
        """Return when the first job on these nodes ends: after a year if it has no time limit."""
        running = {job_id for node in nodes for job_id in node.jobs}
        ends = [self._end(self._cluster.jobs[job_id]) for job_id in running]
        return min(ends, default=0.0)

    def _end(self, job: Job) -> float:
        limit = _YEAR if job.time_limit_minutes is None else 60 * job.time_limit_minutes
        return job.start_time + limit

    def _licensed(self, job: Job) -> bool:
        if not job.asked.licenses:
            return True
        held = licenses_held(self._cluster)
        total = self._cluster.config.licenses
        return all(held.get(name, 0) + n <= total[name] for name, n in job.asked.licenses)

    def _wait(self, job: Job, reason: str, text: str = "") -> None:
        job.reason, job.reason_text = reason, text


def _in_time(job: Job, *, now: float) -> bool:
    """Whether the job would end by its deadline if started now; it needs at least a minute."""
    return now + 60 * (job.time_limit_minutes or 1) <= job.asked.deadline


def limit(partition: PartitionConfig, job: Job) -> str:
    """Return the reason if the partition, as it is now, does not admit the job."""
    if partition.state != "UP":
        return f"Partition{partition.state.capitalize()}"
    most = partition.max_time_minutes
    if most is not None and job.time_limit_minutes is not None and job.time_limit_minutes > most:
        return "PartitionTimeLimit"
    return job.misfit


def _not_available(missing: Sequence[Node]) -> str:
    """Return the text about unavailable required nodes; Slurm does not name drained, idle ones."""
    down = ",".join(node.config.name for node in missing if node.down or node.jobs)
    said = f"UnavailableNodes:{down}" if down else "May be reserved for other job"
    return f"ReqNodeNotAvail, {said}"


def licenses_held(cluster: Cluster) -> dict[str, int]:
    """Return how many licenses running jobs hold, by name."""
    held: dict[str, int] = {}
    for job_id in cluster.active:
        for name, count in cluster.jobs[job_id].asked.licenses:
            held[name] = held.get(name, 0) + count
    return held


def _share(job: Job, node: Node) -> Share:
    return next(share for share in job.shares if share.node == node.config.name)
