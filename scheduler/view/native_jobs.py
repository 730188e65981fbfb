"""The jobs of Slurm that are no pods', as rows beside the pods.

They are asked of Slurm itself, with a token of its own: who may see them is for Slurm to say
(`PrivateData` in slurm.conf). No request lists whole jobs. One asks for the states of all, and then
jobs are asked about one by one, up to a bound.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from scheduler.config.settings import Settings
from scheduler.core.job_tres import MEMORY, amounts_of
from scheduler.core.node_gres import count_of
from scheduler.core.tagged import TaggedJob
from scheduler.kube.clip import clipped
from scheduler.kube.identity import token_name, token_of
from scheduler.slurm.causes import SlurmCauses
from scheduler.view.connection import ViewError
from scheduler.view.gang import GangView
from scheduler.view.row import Row, State, bounded
from scheduler.view.waiting import told_if_slow
from slurmapi import (
    BaseState,
    Deadlines,
    Job,
    JobState,
    ListedJob,
    SlurmClient,
    SlurmError,
    SlurmGarbled,
    SlurmNoSuchJob,
)

MOST_JOBS: Final = 500
"""How many jobs one call asks about. Each takes slurmrestd some milliseconds."""
_AT_ONCE: Final = 4
_SECONDS: Final = 60.0
_ANSWER_SECONDS: Final = 15.0
_MIB: Final = 2**20
_MINUTE: Final = 60
_GPUS: Final = "gres/gpu"
_ASK_WITH: Final = (
    "name a file with your own token of Slurm by --slurm-auth-token-file: `scontrol token` on a "
    "Slurm host prints one"
)
_NO_REASON: Final = "None"
_STATES: Final = {
    BaseState.PENDING: State.PENDING,
    BaseState.RUNNING: State.RUNNING,
    BaseState.SUSPENDED: State.SUSPENDED,
    BaseState.COMPLETED: State.COMPLETED,
    BaseState.UNKNOWN: State.UNKNOWN,
}


@dataclass(frozen=True, slots=True)
class NativeJobs:
    """The rows, and how many jobs were left out: more than the bounds allow, or unreadable."""

    rows: tuple[Row, ...]
    left_out: int = 0


async def native_jobs(
    settings: Settings, *, states: Collection[State], pods: Iterable[int | None], program: str
) -> NativeJobs:
    """The jobs in these states that are no pods'. Those of `pods` are asked about last: whoever
    creates a pod may write any job's number on it. Says on standard error what takes long. Raises
    ViewError.
    """
    token = token_of(settings)
    client = SlurmClient(
        settings.slurm_api_base,
        token=token,
        deadlines=Deadlines(
            connect=_ANSWER_SECONDS, silence=_ANSWER_SECONDS, total=_ANSWER_SECONDS
        ),
        connections=_AT_ONCE,
        cluster=settings.slurm_cluster,
    )
    where = settings.slurm_api_base
    answers = _Answers(client)
    try:
        with told_if_slow(program, f"jobs from {where}", lambda: len(answers.jobs)):
            async with asyncio.timeout(_SECONDS), client:
                found = await client.job_states()
                wanted = _in_turn(
                    (it for it, at in found.items() if _shown_state(at) in states), pods
                )
                await _ask_about(wanted[:MOST_JOBS], answers)
    except TimeoutError:
        raise ViewError(f"--jobs: {where} has not sent the jobs within {_SECONDS:g} s") from None
    except SlurmError as error:
        causes = SlurmCauses(
            where,
            token=token_name(settings),
            lifetime=lambda: token.lifetime,
            answered=lambda: bool(client.cluster),
        )
        cause = causes.of(error)
        text = f"{error}; {_ASK_WITH}" if cause.name.startswith("token_") else cause.text
        raise ViewError(f"--jobs: {text}") from error
    rows = [row_of_job(it) for it in answers.jobs if TaggedJob.of(it.job).tag is None]
    left_out = answers.unreadable + len(wanted[MOST_JOBS:])
    return NativeJobs(tuple(row for row in rows if row.state in states), left_out)


def _in_turn(job_ids: Iterable[int], pods: Iterable[int | None]) -> list[int]:
    later = set(pods)
    return sorted(job_ids, key=lambda it: (it in later, it))


class _Answers:
    """What Slurm lists of some jobs; `unreadable` counts those that it could not tell."""

    def __init__(self, client: SlurmClient) -> None:
        self._client = client
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self.jobs: list[ListedJob] = []
        self.unreadable = 0

    async def ask(self, job_id: int) -> None:
        """Ask about one job. One that has gone meanwhile has nothing."""
        async with self._slots:
            try:
                self.jobs += await self._client.listed(job_id)
            except SlurmNoSuchJob:
                return
            except SlurmGarbled:  # such as an array whose tasks make the answer too long
                self.unreadable += 1


async def _ask_about(job_ids: Sequence[int], answers: _Answers) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            for job_id in job_ids:
                group.create_task(answers.ask(job_id), name=f"job {job_id}")
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None


def row_of_job(listed: ListedJob) -> Row:
    """The row of a job, in the words of pods."""
    job = listed.job
    amounts = amounts_of(job.tres_allocated or listed.tres_requested)
    pending = job.state.base is BaseState.PENDING
    nodes = max(len(job.nodes), _count(amounts.get("node", 1.0)), 1)
    gpus = amounts.get(_GPUS)
    return Row(
        uid="",
        namespace="",
        name=bounded(job.name),
        user=bounded(listed.user),
        state=_shown_state(job.state),
        reason="" if job.state_reason == _NO_REASON else bounded(job.state_reason),
        message=clipped(job.state_description),
        job=job.job_id,
        partition=bounded(job.partition),
        account=bounded(job.account),
        qos=bounded(job.qos),
        priority=job.priority if pending else None,
        created=_utc(job.submit_time),
        expected_start=_utc(job.start_time) if pending else None,
        ends_at=None if pending or job.state.ended else _ends_at(job),
        cpus=_count(amounts.get("cpu", float(job.tasks * job.cpus_per_task))),
        memory_bytes=_count(amounts.get(MEMORY, 0.0) * _MIB),
        gpus=_gpus_of_nodes(job, nodes) if gpus is None else _count(gpus),
        node=bounded(",".join(job.nodes)),
        gang=GangView(),
    )


def _shown_state(state: JobState) -> State:
    """The state as squeue shows it, as far as pods have such a state."""
    if state.completing:
        return State.COMPLETING
    if state.base is BaseState.RUNNING and state.configuring:
        return State.CONFIGURING
    return _STATES.get(state.base, State.FAILED)


def _gpus_of_nodes(job: Job, nodes: int) -> int:
    """Where Slurm does not count gres/gpu: what the job requests for each node."""
    return nodes * count_of(job.gres.replace("=", ":"), _GPUS)


def _ends_at(job: Job) -> datetime | None:
    if job.end_time is not None:
        return _utc(job.end_time)
    if job.start_time is None or job.time_limit_minutes is None:
        return None
    return _utc(job.start_time + _MINUTE * job.time_limit_minutes)


def _count(amount: float) -> int:
    """Whole, and 0 for what is no number."""
    return int(amount) if amount < 2**62 else 0


def _utc(seconds: int | None) -> datetime | None:
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None
