"""A Slurm in a few lines, without a will of its own: tests start and end its jobs, and say what
fails. `test_tiny_slurm.py` holds its answers to those of the sandbox's Slurm.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, cast

from msgspec.structs import replace

from scheduler.observe.metrics import Metrics
from scheduler.slurm.grace_times import GraceTimes
from scheduler.slurm.running_looks import RunningLooks
from slurmapi import (
    KNOWN_VERSIONS,
    ApiVersion,
    BaseState,
    Job,
    JobState,
    JobSubmission,
    Partition,
    Ping,
    SlurmBusy,
    SlurmClient,
    SlurmConfig,
    SlurmError,
    SlurmInterrupted,
    SlurmInvalid,
    SlurmNode,
    SlurmNoSuchJob,
    SlurmRefused,
    SlurmUnreachable,
    SlurmUnreadable,
    Submitted,
)
from slurmapi.components import joint_job
from slurmapi.errors import leaves_open, refusal

NODES: Final = ("n1", "n2")
WITHOUT_CONF: Final = KNOWN_VERSIONS[1]
"""The newest version of the API that tells nothing of slurm.conf."""
_RELEASE: Final = "26.05.5"
_NO_CONTROLLER: Final = "Unable to contact slurm controller (connect failure)"
_PENDING_ONLY: Final = frozenset({"excluded_nodes", "partition", "reservation"})


class TinySlurm:
    """Jobs by id. Each call takes a moment; the next ones can be made to fail, or to be lost."""

    CPUS: Final = 64

    def __init__(self) -> None:
        self.jobs: dict[int, Job] = {}
        self.comments = dict.fromkeys(NODES, "")
        self.gres = ""
        self.with_slurmd: set[str] = set()
        """Nodes that have one; the others are EXTERNAL."""
        self.prolog_slurmctld = ""
        self.version = KNOWN_VERSIONS[0]
        self.allocated = dict.fromkeys(NODES, 0)
        self.counted = dict(self.allocated)
        """What was allocated when all nodes were last asked about: a record of one tells that."""
        self.nodes_in: dict[str, tuple[str, ...]] = {"main": NODES}
        self.of_node: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        """What the record of a node has instead of the usual."""
        self.of_partition: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        self.whole_nodes: set[str] = set()
        """Partitions whose jobs get whole nodes."""
        self.defaults: dict[str, str] = {}
        self.submissions: dict[int, JobSubmission] = {}
        self.components: dict[int, tuple[JobSubmission, ...]] = {}
        """What was submitted for each component of a heterogeneous job, by the id of the first."""
        self.next_id = 1
        self.calls: Counter[str] = Counter()
        self.asked: list[tuple[str, tuple[int, ...]]] = []
        self.fail: defaultdict[str, deque[SlurmError]] = defaultdict(deque)
        self.refuses: set[str] = set()
        self.no_ids: set[int] = set()
        """Ids that slurmrestd takes for none, and with them all that it is asked about at once."""
        self.tagging: Callable[[str], str] = lambda admin_comment: admin_comment
        """What a job_submit plugin makes of it."""
        self.job_submit: Callable[[JobSubmission], SlurmError | None] = lambda _submission: None
        self.lose_next_submit = False
        self.responding = True
        self.boot_time = 1000
        self.ahead = 0
        """By so many seconds its clock goes before ours."""
        self._began = int(time.time())
        self.min_job_age = 300
        self.accounting_storage: str | None = None
        self.preempt_type = "preempt/partition_prio"
        self.grace_seconds: dict[str, int] = {}
        """GraceTime of each partition that has one."""
        self.seconds: defaultdict[str, float] = defaultdict(lambda: 0.002)
        self.waits: defaultdict[str, float] = defaultdict(float)
        """Seconds until there is a connection for a call."""
        self.bytes_of: defaultdict[int, int] = defaultdict(lambda: 8192)
        """Bytes of the answer about each job."""
        self.on_cancel: Callable[[Job], None] = lambda _job: None
        self.shows: Callable[[Job], Job] = lambda job: job
        """What the answer to a look says of a job, right or wrong."""

    # --- the client's face

    async def negotiate(self) -> ApiVersion:
        return self.version

    async def ping(self) -> Ping:
        await self._call("ping")
        return Ping(
            responding=self.responding,
            status="No error" if self.responding else _NO_CONTROLLER,
            release=_RELEASE,
        )

    async def config(self) -> SlurmConfig | None:
        if not self.version.supports_conf:
            return None
        await self._call("config")
        return SlurmConfig(
            answered_at=self.now(),
            boot_time=self.boot_time,
            min_job_age=self.min_job_age,
            prolog_slurmctld=self.prolog_slurmctld,
            accounting_storage=self.accounting_storage,
            preempt_type=self.preempt_type,
        )

    async def submit(
        self, submission: JobSubmission, *, others: Sequence[JobSubmission] = ()
    ) -> Submitted:
        await self._call("submit")
        refused = self.job_submit(submission)
        if refused is not None:
            _check_possible(refused, "submit")
            raise refused
        job_id = self.add(
            name=submission.name,
            admin_comment=self.tagging(submission.admin_comment),
            submit_time=self.now(),
            partition=submission.partition or "main",
            account=submission.account or self.defaults.get("account", ""),
            qos=submission.qos or self.defaults.get("qos", ""),
            priority=submission.priority,
            submission=submission,
            tasks=submission.tasks or 1,
            cpus_per_task=submission.cpus,
            gres=submission.gres or "",
            excluded_nodes=submission.excluded_nodes,
        )
        self._joined(job_id, (submission, *others))
        if self.lose_next_submit:
            self.lose_next_submit = False
            raise SlurmInterrupted("the answer was lost")
        return Submitted(job_id)

    async def partitions(self) -> tuple[Partition, ...]:
        await self._call("partitions")
        return tuple(
            Partition(
                name=name,
                is_default=name == "main",
                flags=frozenset({"DEFAULT"} if name == "main" else ()),
                states=("UP",),
                grace_seconds=self.grace_seconds.get(name, 0),
                whole_nodes=name in self.whole_nodes,
                **self.of_partition[name],
            )
            for name in self.nodes_in
        )

    async def nodes(self) -> tuple[SlurmNode, ...]:
        await self._call("nodes")
        self.counted = dict(self.allocated)
        return tuple(map(self._node, self.comments))

    async def node(self, name: str) -> SlurmNode | None:
        await self._call("node")
        return self._node(name) if name in self.comments else None

    async def counted_node(self, name: str) -> SlurmNode | None:
        self.counted = dict(self.allocated)
        return await self.node(name)

    def _node(self, name: str) -> SlurmNode:
        states = frozenset({"IDLE"} if name in self.with_slurmd else {"IDLE", "EXTERNAL"})
        usual = SlurmNode(
            name=name,
            states=states,
            comment=self.comments[name],
            gres=self.gres,
            cpus=self.CPUS,
            job_cpus=self.CPUS,
            memory_mib=1024 * 1024,
            allocated_cpus=self.counted[name],
            partitions=tuple(it for it, nodes in self.nodes_in.items() if name in nodes),
        )
        return replace(usual, **self.of_node[name])

    async def job(self, job_id: int, *, longest: int | None = None) -> Job:
        await self._call("job", job_id)
        if longest is not None and self.bytes_of[job_id] > longest:
            raise SlurmUnreadable("the answer is too large")
        self._must_be_ids(job_id)
        if job_id not in self.jobs:
            raise _no_such_job()
        job = replace(self.jobs[job_id], answered_at=self.now())
        return self.shows(_without_cores(job) if job.cpus_by_node or job.parts else job)

    async def laid_out(self, job: Job) -> Job:
        await self._call("laid_out", job.job_id)
        return self.jobs[job.job_id]

    async def job_states(self, job_ids: Iterable[int] | None = None) -> dict[int, JobState]:
        wanted = None if job_ids is None else set(job_ids)
        await self._call("all_states" if wanted is None else "states", *(wanted or ()))
        self._must_be_ids(*(wanted or ()))
        return {
            job_id: job.state
            for job_id, job in self.jobs.items()
            if wanted is None or job_id in wanted
        }

    async def update_job(
        self, job_id: int, *, send_by: float | None = None, **changes: Any
    ) -> None:
        await self._call("update", job_id, send_by=send_by)
        first = self._of_component(job_id)
        if first is not None:
            self._update_component(first, job_id, **changes)
            return
        if job_id not in self.jobs:
            raise _no_such_job()
        if not self.live(job_id):
            raise SlurmRefused("Job has already finished", error_number=2084, status=422)
        if self.jobs[job_id].state.base is not BaseState.PENDING and _PENDING_ONLY & changes.keys():
            raise SlurmInvalid("Job is no longer pending", error_number=2073, status=422)
        for name in self.refuses & changes.keys():
            raise SlurmInvalid(f"Invalid {name}", error_number=2000, status=422)
        if self.jobs[job_id].parts:
            self._update_component(job_id, job_id, **changes)
        else:
            self.jobs[job_id] = _changed(self.jobs[job_id], **changes)

    def _update_component(self, first: int, job_id: int, **changes: Any) -> None:
        """Change one component of the job whose first one has the id `first`."""
        before = self.jobs[first].parts
        parts = (_changed(it, **changes) if it.job_id == job_id else it for it in before)
        self.jobs[first] = joint_job(tuple(parts))

    async def cancel(
        self, job_ids: Sequence[int], *, send_by: float | None = None
    ) -> Mapping[int, SlurmError]:
        try:
            await self._call("cancel", *job_ids, send_by=send_by)
        except SlurmError as error:
            return dict.fromkeys(job_ids, error)
        for job_id in job_ids:
            if self.live(job_id) or (job_id in self.jobs and self.jobs[job_id].state.partial):
                self.on_cancel(self.jobs[job_id])
                self.end(job_id, BaseState.CANCELLED)
        return {}

    def _joined(self, job_id: int, submitted: Sequence[JobSubmission]) -> None:
        """Make the job the first component of a heterogeneous one, whose others follow it."""
        if len(submitted) < 2:
            return
        first = self.jobs[job_id]
        parts = tuple(
            replace(
                first,
                job_id=job_id + number,
                admin_comment=it.admin_comment,
                excluded_nodes=it.excluded_nodes,
                tasks=it.tasks or 1,
                cpus_per_task=it.cpus,
            )
            for number, it in enumerate(submitted)
        )
        self.next_id += len(parts) - 1
        self.jobs[job_id] = replace(first, parts=parts)
        self.components[job_id] = tuple(submitted)

    def _of_component(self, job_id: int) -> int | None:
        """The id of the first component of the job that has this one."""
        found = (
            first
            for first, submitted in self.components.items()
            if first < job_id < first + len(submitted)
        )
        return next(found, None)

    def _must_be_ids(self, *job_ids: int) -> None:
        if not self.no_ids.isdisjoint(job_ids):
            raise SlurmInvalid("Unable to parse query.", error_number=9000, status=422)

    async def _call(self, operation: str, *job_ids: int, send_by: float | None = None) -> None:
        if self.waits[operation]:
            await asyncio.sleep(self.waits[operation])
        if send_by is not None and asyncio.get_running_loop().time() >= send_by:
            raise SlurmUnreachable("too late to be sent")
        self.calls[operation] += 1
        self.asked.append((operation, job_ids))
        await asyncio.sleep(self.seconds[operation])
        if self.fail[operation]:
            error = self.fail[operation].popleft()
            _check_possible(error, operation)
            raise error

    # --- the test's hands

    def now(self) -> int:
        """By its clock, in seconds of the epoch; it goes on as the event loop's time does."""
        return self._began + self.ahead + int(asyncio.get_running_loop().time())

    def add(
        self,
        *,
        name: str = "",
        admin_comment: str = "",
        submission: JobSubmission | None = None,
        **more: Any,
    ) -> int:
        """A new pending job; ids go up, and may be given out again once forgotten."""
        job_id, self.next_id = self.next_id, self.next_id + 1
        fields: dict[str, Any] = {
            "state": JobState(BaseState.PENDING),
            "state_reason": "Resources",
        } | more
        self.jobs[job_id] = Job(
            job_id=job_id, name=name or f"job-{job_id}", admin_comment=admin_comment, **fields
        )
        if submission is not None:
            self.submissions[job_id] = submission
        return job_id

    def add_node(self, name: str) -> None:
        """Another node, beside those of `NODES`."""
        self.comments[name], self.allocated[name], self.counted[name] = "", 0, 0

    def start_parts(self, job_id: int, *nodes: tuple[str, ...]) -> None:
        """Slurm starts a heterogeneous job, each component on these nodes."""
        job, state = self.jobs[job_id], JobState(BaseState.RUNNING)
        parts = tuple(
            replace(part, state=state, nodes=held, start_time=1)
            for part, held in zip(job.parts, nodes, strict=True)
        )
        self.jobs[job_id] = joint_job(parts)

    def pack(self, job_id: int, **tasks: int) -> None:
        """Slurm starts a packed job with so many tasks on each of these nodes."""
        cpus = self.jobs[job_id].cpus_per_task
        held = {node: count * cpus for node, count in tasks.items()}
        self.change(
            job_id, BaseState.RUNNING, nodes=tuple(tasks), cpus_by_node=held, start_time=self.now()
        )

    def live(self, job_id: int) -> bool:
        return job_id in self.jobs and not self.jobs[job_id].state.ended

    def change(self, job_id: int, base: BaseState, *flags: str, **more: Any) -> None:
        job = self.jobs[job_id]
        self.jobs[job_id] = replace(job, state=JobState(base, frozenset(flags)), **more)

    def may_start(self, job_id: int) -> str | None:
        """The node it would get: none while an older job of its name lives, or all are taken."""
        job, asked = self.jobs[job_id], self.submissions.get(job_id)
        if job.state.base is not BaseState.PENDING:
            return None
        if any(it.name == job.name and self.live(it.job_id) for it in self._before(job_id)):
            return None
        wanted = asked.required_nodes if asked is not None and asked.required_nodes else NODES
        wanted = tuple(node for node in wanted if node not in job.excluded_nodes)
        taken = {it.nodes[0] for it in self.jobs.values() if it.nodes and not it.state.ended}
        return next((node for node in wanted if node not in taken), None)

    def start(self, job_id: int, *flags: str, node: str | None = None) -> None:
        """Have it run where it may, or on `node`."""
        where = node or self.may_start(job_id)
        assert where is not None, f"job {job_id} may not start"
        got = _allocated(self.submissions.get(job_id))
        self.change(job_id, BaseState.RUNNING, *flags, nodes=(where,), state_reason="None", **got)

    def end(self, job_id: int, base: BaseState) -> None:
        self.change(job_id, base)

    def requeue(self, job_id: int) -> None:
        count = self.jobs[job_id].restart_count + 1
        self.change(job_id, BaseState.PENDING, nodes=(), restart_count=count)

    def forget(self, job_id: int) -> None:
        del self.jobs[job_id]
        self.submissions.pop(job_id, None)

    def _before(self, job_id: int) -> list[Job]:
        return [job for job in self.jobs.values() if job.job_id < job_id]


def _changed(job: Job, **changes: Any) -> Job:
    if "required_nodes" in changes:  # a running job gives the others back
        kept = changes.pop("required_nodes")
        changes["nodes"] = tuple(it for it in job.nodes if it in kept)
    return replace(job, **changes)


def _allocated(asked: JobSubmission | None) -> dict[str, str]:
    """What a job has got that runs on one node."""
    if asked is None:
        return {}
    tasks = asked.tasks or 1
    return {"tres_allocated": f"cpu={asked.cpus * tasks},mem={asked.memory_mib * tasks}M,node=1"}


def _without_cores(job: Job) -> Job:
    """The record as the short request has it."""
    parts = tuple(map(_without_cores, job.parts))
    known = job.cpus_by_node if len(job.nodes) == 1 else {}
    return replace(job, cpus_by_node=known, parts=parts)


def _no_such_job() -> SlurmNoSuchJob:
    return SlurmNoSuchJob("Invalid job id specified", error_number=2017, status=404)


def _check_possible(error: SlurmError, operation: str) -> None:
    """AssertionError for what `SlurmClient` never raises: an error of another class than its number
    has, or a write's that would be SlurmInterrupted, for nobody knows what became of it.
    """
    if isinstance(error, SlurmRefused | SlurmBusy) and error.error_number:
        number, status = error.error_number, error.status
        of_write = operation in {"submit", "update"}
        true = refusal(number, status=status, description="", of_write=of_write)
        assert type(error) is type(true), f"error {number} of Slurm is {type(true).__name__}"
    if operation in {"submit", "update", "cancel"}:
        assert not leaves_open(error), f"{operation}: {error!r} is SlurmInterrupted"


def running_looks(slurm: TinySlurm, *, per_second: float = 2.0) -> RunningLooks:
    """Looks at running jobs, of which nobody has read whether Slurm warns them."""
    grace_times = GraceTimes(cast("SlurmClient", slurm))
    return RunningLooks(grace_times, per_second=per_second, metrics=Metrics())
