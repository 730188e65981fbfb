"""The answer to each call: the fields that are read, translated into the data of `model`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Final, TypeVar

import msgspec

from groundwork.hostlist import HostlistError
from slurmapi import hostlist
from slurmapi.components import joint_job, joint_states
from slurmapi.errors import SlurmError, SlurmGarbled, SlurmUnreadable, refusal
from slurmapi.model import (
    BaseState,
    Job,
    JobState,
    ListedJob,
    Partition,
    Ping,
    SlurmConfig,
    SlurmNode,
)
from slurmapi.wire import MAX_SHOWN, Answer, ApiError, Number, Words, integer, part, time_of

T = TypeVar("T")

# If the backfill scheduler starts a job without a limit, the job sometimes shows a limit of 365
# days (seen on 26.05.5) and an end to match.
_BACKFILL_YEAR: Final = 365 * 24 * 60
_LEADING_ID: Final = re.compile(
    r"(?P<id>[0-9]{1,10})(?:\+(?P<component>[0-9]{1,5})|(?P<task>[_.].*))?"
)


class _SubmitResult(msgspec.Struct, frozen=True):
    job_id: Number = None


class SubmitAnswer(Answer, frozen=True):
    """The answer to `POST job/submit`; v0.0.40 and v0.0.41 repeat the id in `result`."""

    of_write: ClassVar[bool] = True

    job_id: Number = None
    result: _SubmitResult | None = None
    job_submit_user_msg: str | None = None

    @property
    def said(self) -> tuple[str, ...]:
        """The warnings, and the message of the site's job_submit plugin."""
        user_message = self.job_submit_user_msg
        return (*self.remarks, user_message[:MAX_SHOWN]) if user_message else self.remarks

    def explained(self, error: ApiError) -> str:
        """The errors, with the message of the plugin. slurmrestd 24.11 and 26.05 leave out what it
        says about a refused job (measured), but there is a field for it.
        """
        words = (self.job_submit_user_msg or "")[:MAX_SHOWN]
        return f"{error.text}: {words}" if words else error.text

    @property
    def id(self) -> int | None:
        """The id of the job that was made, if one was."""
        nested = self.result.job_id if self.result else None
        return integer(self.job_id) or integer(nested) or None


class _Cpus(msgspec.Struct, frozen=True):
    count: Number = None


class _Allocation(msgspec.Struct, frozen=True):
    name: str | None = None
    cpus: _Cpus | None = None


class _AllocatedNodes(msgspec.Struct, frozen=True):
    allocation: list[_Allocation] | None = None


class _Resources(msgspec.Struct, frozen=True):
    """What a job holds; v0.0.40 has a list of names in `nodes`, and tells no CPUs."""

    nodes: _AllocatedNodes | str | list[str] | None = None


class JobRecord(msgspec.Struct, frozen=True):
    """One job of `GET job/{id}`."""

    job_id: Number = None
    name: str | None = None
    job_state: Words = None
    state_reason: str | None = None
    state_description: str | None = None
    nodes: str | list[str] | None = None
    excluded_nodes: str | list[str] | None = None
    admin_comment: str | None = None
    comment: str | None = None
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    dependency: str | None = None
    hold: bool | None = None
    priority: Number = None
    nice: Number = None
    resv_name: str | None = None
    restart_cnt: Number = None
    batch_flag: bool | None = None
    submit_time: Number = None
    start_time: Number = None
    end_time: Number = None
    preempt_time: Number = None
    time_limit: Number = None
    tres_per_node: str | None = None
    tres_alloc_str: str | None = None
    cpus: Number = None
    tasks: Number = None
    cpus_per_task: Number = None
    tasks_per_node: Number = None
    job_resources: _Resources | None = None
    het_job_id: Number = None
    het_job_offset: Number = None
    array_job_id: Number = None


class JobsAnswer(Answer, frozen=True):
    """The answer to `GET job/{id}`."""

    jobs: list[JobRecord] | None = None
    last_update: Number = None

    def job(self, job_id: int) -> Job:
        """The record with this id, with those of the components if it is the first of a
        heterogeneous job. Raises SlurmUnreadable if there are only records of other jobs, and
        SlurmGarbled if there is none.
        """
        answered_at = time_of(self.last_update)
        found = [record for record in self.jobs or () if integer(record.job_id) == job_id]
        if not found:
            kind = SlurmUnreadable if self.jobs else SlurmGarbled
            raise kind(f"the answer about job {job_id} does not hold it")
        first = _job(found[0], job_id, answered_at=answered_at)
        others = self._components(job_id) if len(self.jobs or ()) > 1 else []
        if not others:
            return first
        return joint_job([first, *(_job(it, its, answered_at=answered_at) for its, it in others)])

    def _components(self, job_id: int) -> list[tuple[int, JobRecord]]:
        """Id and record of each component of this job but the first, in their order."""
        of_it = (it for it in self.jobs or () if integer(it.het_job_id) == job_id)
        known = ((integer(it.het_job_offset) or 0, integer(it.job_id), it) for it in of_it)
        found = {its: (number, it) for number, its, it in known if its and its != job_id}
        ordered = sorted(found.items(), key=lambda entry: entry[1][0])
        return [(its, it) for its, (_, it) in ordered]


class _ListedRecord(JobRecord, frozen=True):
    user_name: str | None = None
    tres_req_str: str | None = None


class ListedAnswer(Answer, frozen=True):
    """The answer to `GET job/{id}` with all its records, for people."""

    jobs: list[_ListedRecord] | None = None
    last_update: Number = None

    def of(self, job_id: int) -> tuple[ListedJob, ...]:
        """The record with this id, and those of the other components if it is the first of a
        heterogeneous job. Raises SlurmGarbled if there is none.
        """
        at = time_of(self.last_update)
        numbered = ((integer(it.job_id), integer(it.het_job_id), it) for it in self.jobs or ())
        found = tuple(
            ListedJob(_job(it, its, answered_at=at), it.user_name or "", it.tres_req_str or "")
            for its, leader, it in numbered
            if its and job_id in {its, leader}
        )
        if not found:
            raise SlurmGarbled(f"the answer about job {job_id} does not hold it")
        return found


class RecordsAnswer(Answer, frozen=True):
    """The answer to `GET job/{id}` with records of any shape, to see whether it has any."""

    jobs: list[dict[str, Any]] | None = None


class _StateRecord(msgspec.Struct, frozen=True):
    job_id: Number = None
    state: Words = None
    job_state: Words = None


class StatesAnswer(Answer, frozen=True):
    """The answer to `GET jobs/state/`."""

    jobs: list[_StateRecord] | None = None

    @property
    def listed(self) -> list[_StateRecord]:
        """The records for a `StateReader`. Raises SlurmGarbled if the list is missing, which does
        not mean that it is empty.
        """
        if self.jobs is None:
            raise SlurmGarbled("the answer about job states holds no list of jobs")
        return self.jobs


class StateReader:
    """Reads the records of `StatesAnswer`, a part at a time: each record takes 1 µs.

    A task of an array is listed by its own id ("14_3"), and all that wait by that of the array
    ("12_4"; measured on 26.05.5 and 24.11.5). So no job in the answer seems to be absent. The
    components of a heterogeneous job ("12+0", "13+1") count as one with the first.
    """

    def __init__(self) -> None:
        self._alone: dict[int, JobState] = {}
        self._tasks: dict[int, JobState] = {}
        self._components: list[tuple[int, int, JobState]] = []
        # A thousand jobs have a few states between them.
        self._parsed: dict[str | tuple[str, ...], JobState] = {}

    def read(self, records: Iterable[_StateRecord]) -> None:
        """Read these. Raises SlurmGarbled if the id of one is none."""
        for record in records:
            job_id, component, task = _split_id(record.job_id)
            said = record.state or record.job_state or ""
            words = said if isinstance(said, str) else tuple(said)
            if (known := self._parsed.get(words)) is None:
                known = self._parsed[words] = JobState.parse(said)
            if component is not None:
                self._components.append((job_id, component, known))
            else:
                (self._tasks if task else self._alone)[job_id] = known

    def states(self) -> dict[int, JobState]:
        """State by job id of all that were read."""
        return self._tasks | joint_states(self._components) | self._alone


class _KillError(msgspec.Struct, frozen=True):
    code: Number = None
    string: str | None = None
    message: str | None = None


class _KillRecord(msgspec.Struct, frozen=True):
    job_id: Number = None
    step_id: Number = None
    error: _KillError | None = None


class KillAnswer(Answer, frozen=True):
    """The answer to `DELETE jobs/`: one entry for each requested job. The status is 200 whatever
    became of them.
    """

    status: list[_KillRecord] | None = None

    def numbers(self) -> dict[int, tuple[int, str]]:
        """Slurm's error number (0 for success) and text, by job id."""
        return {_killed_id(record): _kill_error(record.error) for record in self.status or ()}


class _UpdateResult(msgspec.Struct, frozen=True):
    error_code: Number = None
    error: str | None = None
    why: str | None = None


class UpdateAnswer(Answer, frozen=True):
    """The answer to `POST job/{id}`."""

    of_write: ClassVar[bool] = True

    results: list[_UpdateResult] | None = None

    def failure(self, status: int) -> SlurmError | None:
        """The first result that is an error."""
        for result in self.results or ():
            number = integer(result.error_code) or 0
            if number:
                text = result.why or result.error or "the update failed"
                shown = text[:MAX_SHOWN]
                return refusal(number, status=status, description=shown, of_write=True)
        return None


class _PingRecord(msgspec.Struct, frozen=True):
    responding: bool | None = None
    pinged: str | None = None
    status: str | None = None


class _Release(msgspec.Struct, frozen=True):
    release: str | None = None


class _PingMeta(msgspec.Struct, frozen=True):
    slurm: _Release | None = None


class PingAnswer(Answer, frozen=True):
    """The answer to `GET ping/`: one entry for each controller; v0.0.40 has only `pinged`. Like
    every answer it says which release slurmrestd has (24.11 and 26.05).
    """

    pings: list[_PingRecord] | None = None
    meta: _PingMeta | None = None

    def ping(self) -> Ping:
        """The ping of a controller that responds, else of the first. Raises SlurmGarbled if there
        is no controller.
        """
        if not self.pings:
            raise SlurmGarbled("the answer to a ping holds no controller")
        slurm = None if self.meta is None else self.meta.slurm
        release = "" if slurm is None else (slurm.release or "")[:MAX_SHOWN]
        pings = [
            Ping(_responding(record), record.status or record.pinged or "", release)
            for record in self.pings
        ]
        return next((ping for ping in pings if ping.responding), pings[0])


class _ConfRecord(msgspec.Struct, frozen=True):
    KillWait: Number = None
    MinJobAge: Number = None
    AccountingStorageType: str | None = None
    AccountingStorageEnforce: Words = None
    PrologSlurmctld: Words = None
    SchedulerParameters: Words = None
    PreemptType: str | None = None
    PreemptMode: Words = None
    SlurmUser: str | None = None


class _ConfMeta(msgspec.Struct, frozen=True):
    LastUpdate: Number = None
    BOOT_TIME: Number = None


class ConfAnswer(Answer, frozen=True):
    """The answer to `GET conf` (v0.0.45)."""

    slurm_conf: _ConfRecord | None = None
    slurm_conf_meta: _ConfMeta | None = None

    def config(self) -> SlurmConfig:
        """The configuration. Raises SlurmGarbled if it is missing."""
        if self.slurm_conf is None:
            raise SlurmGarbled("the answer about the configuration does not hold it")
        conf, meta = self.slurm_conf, self.slurm_conf_meta or _ConfMeta()
        return SlurmConfig(
            kill_wait=integer(conf.KillWait),
            min_job_age=integer(conf.MinJobAge),
            accounting_storage=conf.AccountingStorageType,
            accounting_enforce=_split(conf.AccountingStorageEnforce),
            answered_at=time_of(meta.LastUpdate),
            boot_time=time_of(meta.BOOT_TIME),
            prolog_slurmctld=_comma_joined(conf.PrologSlurmctld),
            scheduler_parameters=_split(conf.SchedulerParameters),
            preempt_type=conf.PreemptType or "",
            preempt_modes=_split(conf.PreemptMode),
            slurm_user=conf.SlurmUser or "",
        )


class _NodeRecord(msgspec.Struct, frozen=True):
    name: str
    state: Words = None
    address: str | None = None
    comment: str | None = None
    extra: str | None = None
    instance_id: str | None = None
    cpus: Number = None
    effective_cpus: Number = None
    threads: Number = None
    alloc_cpus: Number = None
    real_memory: Number = None
    specialized_memory: Number = None
    alloc_memory: Number = None
    gres: str | None = None
    gres_used: str | None = None
    partitions: Words = None


class NodesAnswer(Answer, frozen=True):
    """The answer to `GET nodes/` or to `GET node/NAME`."""

    nodes: list[_NodeRecord] | None = None

    def all(self) -> Iterator[SlurmNode]:
        """All nodes. Raises SlurmGarbled if the list is missing."""
        return map(_node, _nodes(self.nodes))


class UnreadNodesAnswer(Answer, frozen=True):
    """The same answer with records that are read one by one. With 10 000 nodes it takes 13 ms, and
    the records 9 µs each; `NodesAnswer` takes 37 ms at once, and 5 µs each (measured).
    """

    nodes: list[msgspec.Raw] | None = None

    def all(self) -> Iterator[SlurmNode]:
        """All nodes, each of which is read when its turn comes. Raises SlurmGarbled if the list is
        missing, and at a record that cannot be read.
        """
        return (_node(part(it, _NodeRecord)) for it in _nodes(self.nodes))


def _nodes(listed: list[T] | None) -> list[T]:
    if listed is None:
        raise SlurmGarbled("the answer about nodes holds no list of nodes")
    return listed


class _Names(msgspec.Struct, frozen=True):
    """Lists of names; `assigned` is a single one."""

    allowed: Words = None
    deny: Words = None
    assigned: str | None = None


class _Limits(msgspec.Struct, frozen=True):
    """`minimums`, `maximums` or `defaults` of a partition."""

    time: Number = None
    nodes: Number = None
    cpus_per_node: Number = None
    partition_memory_per_node: Number = None
    partition_memory_per_cpu: Number = None
    shares: Number = None


class _PartitionOwn(msgspec.Struct, frozen=True):
    state: Words = None
    exclusive: str | None = None


class _PartitionRecord(msgspec.Struct, frozen=True):
    name: str
    flags: Words = None
    grace_time: Number = None
    accounts: _Names | None = None
    groups: _Names | None = None
    qos: _Names | None = None
    minimums: _Limits | None = None
    maximums: _Limits | None = None
    defaults: _Limits | None = None
    partition: _PartitionOwn | None = None


class PartitionsAnswer(Answer, frozen=True):
    """The answer to `GET partitions/`."""

    partitions: list[_PartitionRecord] | None = None

    def all(self) -> tuple[Partition, ...]:
        """All partitions. Raises SlurmGarbled if the list is missing."""
        if self.partitions is None:
            raise SlurmGarbled("the answer about partitions holds no list of partitions")
        return tuple(_partition(record) for record in self.partitions)


def _job(record: JobRecord, job_id: int, *, answered_at: int | None) -> Job:
    state = JobState.parse(record.job_state or "")
    priority = integer(record.priority)
    limit = _minutes_limit(record.time_limit)
    preempted_at = time_of(record.preempt_time)
    # Slurm invents an end for jobs that have none: a random one while PENDING, start + 1 year
    # without a limit (measured).
    end_known = state.ended or preempted_at is not None or limit is not None
    end_known = end_known and state.base is not BaseState.PENDING
    nodes = _hosts(record.nodes)
    tasks = max(integer(record.tasks) or 1, 1)
    return Job(
        answered_at=answered_at,
        job_id=job_id,
        name=record.name or "",
        state=state,
        state_reason=record.state_reason or "",
        state_description=record.state_description or "",
        nodes=nodes,
        excluded_nodes=_folded(record.excluded_nodes),
        admin_comment=record.admin_comment or "",
        comment=record.comment or "",
        partition=record.partition or "",
        account=record.account or "",
        qos=record.qos or "",
        dependency=record.dependency or "",
        held=bool(record.hold) or (state.base is BaseState.PENDING and priority == 0),
        priority=priority,
        nice=integer(record.nice) or 0,
        reservation=record.resv_name or "",
        restart_count=integer(record.restart_cnt) or 0,
        batch=bool(record.batch_flag),
        submit_time=time_of(record.submit_time),
        start_time=time_of(record.start_time),
        end_time=time_of(record.end_time) if end_known else None,
        preempt_time=preempted_at,
        time_limit_minutes=limit,
        gres=record.tres_per_node or "",
        tres_allocated=record.tres_alloc_str or "",
        leader=_other(record.het_job_id, job_id),
        array=_other(record.array_job_id, job_id),
        tasks=tasks,
        cpus_per_task=max(integer(record.cpus_per_task) or 1, 1),
        tasks_per_node=max(integer(record.tasks_per_node) or 0, 0),
        cpus_by_node={} if tasks == 1 else _cpus_by_node(record, nodes),
    )


def _other(value: Number, job_id: int) -> int | None:
    """The id of the job that this one belongs to; None if it belongs to none or to itself."""
    first = integer(value)
    return first if first and first != job_id else None


def _cpus_by_node(record: JobRecord, nodes: tuple[str, ...]) -> dict[str, int]:
    """The CPUs of a job on one node are all of the job's. Those on several are in the details."""
    if len(nodes) == 1:
        return {nodes[0]: integer(record.cpus) or 0}
    held = record.job_resources.nodes if record.job_resources else None
    listed = held.allocation or () if isinstance(held, _AllocatedNodes) else ()
    return {it.name: integer(it.cpus.count) or 0 for it in listed if it.name and it.cpus}


def _minutes_limit(value: Number) -> int | None:
    minutes = integer(value)
    return None if minutes == _BACKFILL_YEAR else minutes


def _hosts(value: str | list[str] | None) -> tuple[str, ...]:
    return _folded(value).names


def _folded(value: str | list[str] | None) -> hostlist.Hosts:
    text = ",".join(value) if isinstance(value, list) else value or ""
    try:
        return hostlist.Hosts("" if text == "(null)" else text)
    except HostlistError as error:
        raise SlurmGarbled(str(error)) from error


def _split_id(value: Number) -> tuple[int, int | None, bool]:
    """The job id, the number of a component, and whether it is the id of a task of an array."""
    if isinstance(value, str):
        match = _LEADING_ID.fullmatch(value)
        if match is not None:
            number, component, task = match.groups()
            return int(number), None if component is None else int(component), task is not None
    plain = integer(value)
    if plain is None:
        raise SlurmGarbled(f"job id {str(value)[:40]!r} among the job states")
    return plain, None, False


def _killed_id(record: _KillRecord) -> int:
    return integer(record.job_id) or _split_id(record.step_id)[0]


def _kill_error(error: _KillError | None) -> tuple[int, str]:
    if error is None:
        return 0, ""
    return integer(error.code) or 0, (error.message or error.string or "")[:MAX_SHOWN]


def _responding(record: _PingRecord) -> bool:
    if record.responding is not None:
        return record.responding
    return record.pinged == "UP"


def _comma_joined(value: Words) -> str:
    return value if isinstance(value, str) else ",".join(value or ())


def _split(value: Words) -> tuple[str, ...]:
    listed = value.split(",") if isinstance(value, str) else value or ()
    return tuple(word for word in listed if word)


def _node(record: _NodeRecord) -> SlurmNode:
    return SlurmNode(
        name=record.name,
        states=frozenset(_split(record.state)),
        address=record.address or "",
        comment=record.comment or "",
        extra=record.extra or "",
        instance_id=record.instance_id or "",
        cpus=integer(record.cpus) or 0,
        job_cpus=integer(record.effective_cpus) or integer(record.cpus) or 0,
        threads_per_core=max(integer(record.threads) or 1, 1),
        allocated_cpus=integer(record.alloc_cpus) or 0,
        memory_mib=integer(record.real_memory) or 0,
        specialized_memory_mib=integer(record.specialized_memory) or 0,
        allocated_memory_mib=integer(record.alloc_memory) or 0,
        gres=record.gres or "",
        gres_used=record.gres_used or "",
        partitions=_split(record.partitions),
    )


def _partition(record: _PartitionRecord) -> Partition:
    flags = None if record.flags is None else frozenset(_split(record.flags))
    own = record.partition or _PartitionOwn()
    accounts, groups, qos = (it or _Names() for it in (record.accounts, record.groups, record.qos))
    least, most, defaults = (
        it or _Limits() for it in (record.minimums, record.maximums, record.defaults)
    )
    return Partition(
        name=record.name,
        is_default="DEFAULT" in (flags or ()),
        flags=flags,
        states=_split(own.state),
        grace_seconds=integer(record.grace_time) or 0,
        max_minutes=integer(most.time),
        default_minutes=integer(defaults.time),
        min_nodes=_limit(least.nodes),
        max_nodes=integer(most.nodes),
        max_cpus_per_node=_limit(most.cpus_per_node),
        max_memory_per_node_mib=_limit(most.partition_memory_per_node),
        max_memory_per_cpu_mib=_limit(most.partition_memory_per_cpu),
        whole_nodes=_takes_whole_nodes(own, most),
        accounts=_split(accounts.allowed),
        denied_accounts=_split(accounts.deny),
        qos=_split(qos.allowed),
        denied_qos=_split(qos.deny),
        groups=_split(groups.allowed),
        own_qos=qos.assigned or "",
    )


def _limit(value: Number) -> int | None:
    """A limit of which 0 means none."""
    return integer(value) or None


def _takes_whole_nodes(own: _PartitionOwn, most: _Limits) -> bool:
    """Whether OverSubscribe is EXCLUSIVE. v0.0.45 tells it as `exclusive`, and always 0 as `shares`
    (measured on 26.05.5).
    """
    if own.exclusive is not None:
        return own.exclusive == "NODE"
    return integer(most.shares) == 0
