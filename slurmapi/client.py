"""SlurmClient: the calls that a scheduler makes, and how far their answers can be trusted.

These rules hold: a submit is written once. It has succeeded only with status 2xx AND a job id AND
no errors. A refusal is judged by Slurm's error number first, then by the status. Only a well-formed
answer of the controller can say that a job does not exist.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from types import TracebackType
from typing import Any, Final, Self, TypeVar, Unpack
from urllib.parse import quote

import msgspec

from groundwork.pauses import in_chunks, with_pauses
from groundwork.permit import Permit
from groundwork.retry import RetryPolicy, retry_policy
from slurmapi import answers, wire
from slurmapi.cluster_check import ClusterCheck
from slurmapi.errors import (
    ALREADY_ENDED,
    SlurmBusy,
    SlurmDenied,
    SlurmError,
    SlurmGarbled,
    SlurmInterrupted,
    SlurmInvalid,
    SlurmNoSuchJob,
    SlurmRefused,
    SlurmStranger,
    SlurmUnreadable,
    refusal,
)
from slurmapi.http1 import DEFAULT_MAX_BODY, Response
from slurmapi.model import (
    Call,
    Job,
    JobState,
    ListedJob,
    Partition,
    Ping,
    SlurmConfig,
    SlurmNode,
    Submitted,
)
from slurmapi.session import Operation, Session
from slurmapi.submission import JobSubmission, encode_submission
from slurmapi.tokens import TokenSource
from slurmapi.transport import Deadlines, HttpTransport
from slurmapi.updates import Changes, JobUpdate, encode_update
from slurmapi.versions import ApiVersion

T = TypeVar("T")
_States = dict[int, JobState]

# 1000 ids take 10 ms, 8000 are refused with "Insane message length" (measured on 26.05.5).
_STATES_CHUNK: Final = 1000
# 500 ids take 6 ms, 1000 take 68 ms (measured on 26.05.5).
_CANCEL_CHUNK: Final = 500
# How many bytes an answer may have; other answers have the default. A job is some KiB, and a
# request for the id of an array returns all its tasks.
_MAX_JOB: Final = 8 * 1024 * 1024
# All cores of a node, at 300 bytes each (measured).
_MAX_CORES: Final = 128 * 1024
_MAX_STATE: Final = 1024
_MAX_ALL_STATES: Final = 64 * 1024 * 1024
# 2 KiB for each node (measured).
_MAX_NODES: Final = 64 * 1024 * 1024
# So many nodes are read in 2 ms (measured).
_READ_AT_ONCE: Final = 500
# Ids that are checked, and questions that are written, in one turn of the event loop, 3 ms. Those
# of 100 000 jobs took 30 ms (measured).
_IDS_AT_ONCE: Final = 20_000
_QUESTIONS_AT_ONCE: Final = 10
# Job states that are read in one turn of the event loop, 2 ms. Those of 60 000 jobs took 130 ms
# (measured).
_STATES_AT_ONCE: Final = 2000
# The year 2100. No record has changed after it, so the answer is empty.
_TO_COME: Final = 4_102_444_800
_MAX_PARTITIONS: Final = 8 * 1024 * 1024
_MAX_KILL: Final = 1024
# A job that should not have been made is cancelled within this time, by the id in that answer.
_MADE_SECONDS: Final = 2.0
# Without slurmdbd, slurmctld answers some updates with a stale errno, EAGAIN or now and then EINTR:
# half of the updates of a partition, and three of four of an account (measured on 26.05.5 and
# 24.11.5). A try takes two milliseconds.
_STALE: Final = frozenset({4, 11})
_UPDATE_TRIES: Final = 24
_NOT_MODIFIED: Final = 304
# A read is repeated for this long at most.
_READ_SECONDS: Final = 5.0
# What Slurm may answer about a cancelled job: done, unknown to Slurm, or ended before.
_GONE: Final = frozenset({0, 2017}) | ALREADY_ENDED


class SlurmClient:
    """A client of one slurmrestd with one token.

    `base_url` is "http://HOST:PORT", "https://HOST:PORT" (verified with `tls`, by default with the
    system's authorities) or "unix:/PATH". Use it as an async context manager, in one event loop.
    All methods raise SlurmError. None waits longer than `deadlines` allow, including repetitions by
    `retry` (of reads only). `observe` is called after each request. `permit` is asked right before
    each write; if it denies the write, SlurmFenced is raised. `cluster` is the ClusterName of the
    right Slurm; by default the first answer sets it. Answers of any other raise SlurmStranger, and
    nothing is written there.
    """

    def __init__(
        self,
        base_url: str,
        *,
        token: TokenSource,
        deadlines: Deadlines | None = None,
        connections: int = 16,
        retry: RetryPolicy | None = None,
        observe: Callable[[Call], None] | None = None,
        cluster: str = "",
        permit: Permit | None = None,
    ) -> None:
        self._http = HttpTransport(
            base_url,
            deadlines=deadlines,
            connections=connections,
            permit=permit,
        )
        self._retry = retry or retry_policy(SlurmError, total_seconds=_READ_SECONDS)
        self._cluster_check = ClusterCheck(cluster, clock=monotonic)
        self._session = Session(
            self._http,
            token=token,
            retry=self._retry,
            cluster_check=self._cluster_check,
            observe=observe,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.close()

    async def negotiate(self) -> ApiVersion:
        """The newest version that both sides speak. It is cached until the server stops offering
        it, or for five minutes if the client knows a newer one.
        """
        return await self._retry(self._session.version)

    async def ping(self) -> Ping:
        """What slurmrestd says about its controllers.

        With an invalid token they look as if they did not respond (measured).
        """
        return await self._get(
            "ping", "ping/", lambda it: wire.settled(it, answers.PingAnswer).ping()
        )

    async def config(self) -> SlurmConfig | None:
        """Some settings of slurm.conf; None if the API version has no `conf` (before v0.0.45)."""
        version = await self.negotiate()
        if not version.supports_conf:
            return None
        return await self._get(
            "config", "conf", lambda it: wire.settled(it, answers.ConfAnswer).config()
        )

    async def nodes(self) -> tuple[SlurmNode, ...]:
        """All nodes; 1000 of them are 2 MB. Other tasks run while they are read."""
        listed = await self._get("nodes", "nodes/", _read_nodes, max_body=_MAX_NODES)
        return tuple([node async for node in with_pauses(listed, every=_READ_AT_ONCE)])

    async def node(self, name: str) -> SlurmNode | None:
        """One node; None if Slurm does not know it."""
        return await self._get(
            "node", f"node/{quote(name, safe='')}", partial(_read_node, name=name)
        )

    async def counted_node(self, name: str) -> SlurmNode | None:
        """As `node`, but with a fresh count of what is allocated on it.

        slurmctld counts only when it is asked about all nodes; about a single node it repeats what
        the last count found (measured on 26.05.5 and 24.11.5). So the request asks for all nodes
        that changed after a time in the future: there are none, and the answer takes 2 ms.
        """
        query = f"nodes/?update_time={_TO_COME}"
        await self._get("count_nodes", query, _unchanged, max_body=_MAX_NODES)
        return await self.node(name)

    async def partitions(self) -> tuple[Partition, ...]:
        """All partitions."""
        return await self._get(
            "partitions",
            "partitions/",
            lambda it: wire.settled(it, answers.PartitionsAnswer).all(),
            max_body=_MAX_PARTITIONS,
        )

    async def job(self, job_id: int, *, longest: int = _MAX_JOB) -> Job:
        """One job, with all its components if it is heterogeneous. Raises SlurmNoSuchJob for
        Slurm's error 2017 and for nothing else, and SlurmUnreadable if Slurm's answer has job
        records but not a readable one of this job, or more than `longest` bytes.

        The answer about an array has all its tasks, of 5 KiB each.

        The record is requested without its cores. They make it longer by 19 KB for each node of 64,
        and slow to write: for 200 nodes 3.8 MB in 640 ms instead of 9 KB in 13 ms (measured on
        26.05.5). Where nothing else tells the tasks of each node (`Job.laid_out`), ask for them by
        `laid_out`.
        """
        return await self._job(job_id, "?flags=ALL", max_body=longest)

    async def laid_out(self, job: Job) -> Job:
        """The job as it is now, requested with its cores, so that it tells the CPUs of each node,
        as far as Slurm reports them. Raises as `job` does.
        """
        longest = min(_MAX_JOB + _MAX_CORES * len(job.nodes), _MAX_NODES)
        return await self._job(job.job_id, "", max_body=longest)

    async def listed(self, job_id: int) -> tuple[ListedJob, ...]:
        """The job as squeue lists it, or each component of a heterogeneous one. The tasks of an
        array that wait are one job, and each other task has an id of its own: `job_states` tells
        them all. Raises SlurmNoSuchJob for Slurm's error 2017 and for nothing else.
        """
        return await self._get(
            "job",
            f"job/{_id(job_id)}?flags=ALL",
            lambda it: wire.settled(it, answers.ListedAnswer).of(job_id),
            max_body=_MAX_JOB,
        )

    async def job_states(self, job_ids: Iterable[int] | None = None) -> dict[int, JobState]:
        """States by id: of all jobs, or of those with these ids. Ids that Slurm does not know are
        left out. The components of a heterogeneous job have one state, under its id.

        Ids are requested in parallel, at most 1000 in a request. If one request fails, its error is
        raised. A request for all jobs costs slurmrestd more than one for as many ids, and for twice
        as many jobs more than twice as much (measured). So it gets more time, and is not repeated.
        """
        if job_ids is None:
            return await self._states("", max_body=_MAX_ALL_STATES, slow=True)
        wanted = set[int]()
        async for some in in_chunks(job_ids, size=_IDS_AT_ONCE):
            wanted.update(map(_id, some))
        chunks = _chunks(sorted(wanted), _STATES_CHUNK)
        questions = with_pauses(map(self._states_of, chunks), every=_QUESTIONS_AT_ONCE)
        asks = [ask async for ask in questions]
        found = await _together([ask() for ask in asks])
        return {job_id: state for states in found for job_id, state in states.items()}

    async def submit(
        self, job: JobSubmission, *, others: Sequence[JobSubmission] = ()
    ) -> Submitted:
        """Submit the job. The request is written to the server at most once.

        With `others` they are the components of one heterogeneous job, whose id is that of the
        first: `job` and `cancel` with it concern all of them.

        Raises SlurmInvalid if the job will never work as requested, or only in part; SlurmStranger
        if another Slurm cluster has answered; and SlurmInterrupted if it is not known whether the
        job exists now. A job that was created in spite of errors, or by another cluster, is
        cancelled before the error is raised.
        """
        operation = Operation(
            name="submit",
            method="POST",
            path="job/submit",
            body=partial(encode_submission, job, others=others),
            read=_submitted,
            bulk=True,
        )
        try:
            return await self._session.run(operation)
        except _MadeInSpite as made:
            failures = await self.cancel([made.job_id], send_by=_soon())
            if failures:
                raise SlurmInterrupted(
                    f"job {made.job_id} was created in spite of an error, not cancelled: {made}",
                    job_id=made.job_id,
                ) from made
            raise made.error from None
        except SlurmStranger as stranger:
            await self._take_back(stranger)
            raise

    async def cancel(
        self, job_ids: Sequence[int], *, send_by: float | None = None
    ) -> Mapping[int, SlurmError]:
        """Cancel these jobs. Returns the jobs that may still be alive, each with its error.

        Never raises SlurmError. Jobs that have ended or that Slurm does not know count as
        cancelled. The request is written at most once: after a failure the ids may belong to other
        jobs, so the caller must look at each job before it tries again. What has not been sent by
        `send_by`, in the event loop's time, is not sent any more and counts as SlurmUnreachable.
        Pass only jobs that this token may cancel: after a cancel that is refused for lack of
        rights, slurmctld hangs until it is restarted (measured on 24.11.5 and 26.05.5).
        """
        wanted = sorted({_id(job_id) for job_id in job_ids})
        calls = [self._cancel(chunk, send_by=send_by) for chunk in _chunks(wanted, _CANCEL_CHUNK)]
        failed = await _together(calls)
        return {job_id: error for errors in failed for job_id, error in errors.items()}

    async def update_job(
        self, job_id: int, *, send_by: float | None = None, **changes: Unpack[Changes]
    ) -> None:
        """Change the given properties of a job (see JobUpdate); the others stay as they are.

        A request that has not been sent by `send_by`, in the event loop's time, is not sent any
        more and raises SlurmUnreachable. Raises SlurmInvalid for unacceptable values, before
        anything is sent, and SlurmRefused if Slurm refuses a change; it may have made the other
        changes nevertheless.
        """
        body = encode_update(JobUpdate(**changes))
        operation = Operation(
            name="update_job",
            method="POST",
            path=f"job/{_id(job_id)}",
            body=lambda _version: body,
            read=_updated,
            bulk=True,
            send_by=send_by,
        )
        for _ in range(_UPDATE_TRIES - 1):
            with suppress(_StaleErrno):
                return await self._session.run(operation)
        try:
            await self._session.run(operation)
        except _StaleErrno as stale:
            raise SlurmBusy(
                str(stale), error_number=stale.error_number, status=stale.status
            ) from None

    @property
    def cluster(self) -> str:
        """The ClusterName of the right Slurm; "" until it is known."""
        return self._cluster_check.cluster

    async def _take_back(self, stranger: SlurmStranger) -> None:
        """Cancel a job that another Slurm has created for us, because it took the place of the
        right one between two requests.
        """
        if stranger.job_id is None:
            return
        failures = await self._cancel([stranger.job_id], send_by=_soon(), anywhere=True)
        if failures:
            raise SlurmInterrupted(f"{stranger}; it has made job {stranger.job_id}") from stranger

    async def _get(
        self,
        name: str,
        path: str,
        read: Callable[[Response], T],
        *,
        max_body: int = DEFAULT_MAX_BODY,
        slow: bool = False,
    ) -> T:
        operation = Operation(
            name=name,
            method="GET",
            path=path,
            read=read,
            repeatable=True,
            max_body=max_body,
            slow=slow,
        )
        return await self._session.run(operation)

    async def _job(self, job_id: int, query: str, *, max_body: int) -> Job:
        path = f"job/{_id(job_id)}{query}"
        return await self._get("job", path, partial(_read_job, job_id), max_body=max_body)

    def _states_of(self, job_ids: Sequence[int]) -> Callable[[], Coroutine[Any, Any, _States]]:
        """What asks for these states. The question is written at once."""
        # Repeated, since a comma list is refused (500 on 26.05.5, 400 on 24.11).
        query = "&".join(f"job_id={job_id}" for job_id in job_ids)
        longest = DEFAULT_MAX_BODY + _MAX_STATE * len(job_ids)
        return partial(self._states, f"?{query}", max_body=longest)

    async def _states(self, query: str, *, max_body: int, slow: bool = False) -> _States:
        listed = await self._get(
            "job_states",
            f"jobs/state/{query}",
            lambda it: wire.settled(it, answers.StatesAnswer).listed,
            max_body=max_body,
            slow=slow,
        )
        reader = answers.StateReader()
        async for some in in_chunks(listed, size=_STATES_AT_ONCE):
            reader.read(some)
        return reader.states()

    async def _cancel(
        self, job_ids: Sequence[int], *, send_by: float | None, anywhere: bool = False
    ) -> dict[int, SlurmError]:
        # Strings, as the API describes them: "123_5" would be a task of an array.
        body = msgspec.json.encode({"jobs": [str(job_id) for job_id in job_ids]})
        operation = Operation(
            name="cancel",
            method="DELETE",
            path="jobs/",
            body=lambda _version: body,
            read=partial(_cancelled, job_ids),
            anywhere=anywhere,
            max_body=DEFAULT_MAX_BODY + _MAX_KILL * len(job_ids),
            send_by=send_by,
        )
        try:
            return await self._session.run(operation)
        except SlurmError as error:
            return dict.fromkeys(job_ids, error)


class _MadeInSpite(SlurmInvalid):
    """The answer has errors AND a job id: the job exists and may run (measured: a bad flag, error
    9207).
    """

    def __init__(self, error: SlurmError, *, job_id: int) -> None:
        super().__init__(str(error))
        self.error = error
        self.job_id = job_id


def _read_job(job_id: int, response: Response) -> Job:
    try:
        return wire.settled(response, answers.JobsAnswer).job(job_id)
    except SlurmUnreadable:
        raise  # an array may be long, so it is decoded once only
    except SlurmGarbled as error:
        if wire.settled(response, answers.RecordsAnswer).jobs:
            raise SlurmUnreadable(str(error)) from error
        raise


def _unchanged(response: Response) -> None:
    """Raises the error in an answer to a request for changed nodes. An answer without an error is
    either a 304 without a body, or a list of nodes.
    """
    if response.status != _NOT_MODIFIED:
        wire.settled(response, wire.Answer)


def _read_nodes(response: Response) -> Iterator[SlurmNode]:
    """All nodes, which are read one by one if the answer is strict JSON."""
    try:
        return wire.settled(response, answers.UnreadNodesAnswer).all()
    except SlurmGarbled:
        return wire.settled(response, answers.NodesAnswer).all()


def _read_node(response: Response, *, name: str) -> SlurmNode | None:
    """The node; None if it is unknown. The answer is then HTTP 200 with an error of number 0 and
    no nodes (measured).
    """
    answer = wire.decode(response, answers.NodesAnswer)
    numbers = {error.number for error in answer.errors or ()}
    if response.ok and numbers == {0} and not answer.nodes:
        return None
    error = wire.failure(response, answer)
    if error is not None:
        raise error
    return next((node for node in answer.all() if node.name == name), None)


def _submitted(response: Response) -> Submitted:
    answer = wire.decode(response, answers.SubmitAnswer)
    error = wire.failure(response, answer)
    if answer.id is not None and error is not None:
        raise _MadeInSpite(_final(error, answer.said), job_id=answer.id)
    if error is not None:
        raise error
    if answer.id is None:
        remarks = "; ".join(answer.said) or "without a reason"
        raise SlurmInvalid(
            f"Slurm made no job: {remarks}", status=response.status, warnings=answer.said
        )
    return Submitted(answer.id, answer.said)


def _final(error: SlurmError, warnings: tuple[str, ...]) -> SlurmError:
    """The error for a submit that made a job only in part, and whose job was cancelled: a refusal,
    unless Slurm was busy.
    """
    if not isinstance(error, SlurmRefused):
        return error
    return SlurmInvalid(
        error.description, error_number=error.error_number, status=error.status, warnings=warnings
    )


class _StaleErrno(SlurmRefused):
    """Slurm answered an update with an errno that has nothing to do with it, so the next try may
    succeed.
    """


def _updated(response: Response) -> None:
    answer = wire.decode(response, answers.UpdateAnswer)
    error = wire.failure(response, answer) or answer.failure(response.status)
    number = getattr(error, "error_number", 0)
    if number in _STALE:
        raise _StaleErrno(str(error), error_number=number)
    if error is not None:
        raise error


def _cancelled(job_ids: Sequence[int], response: Response) -> dict[int, SlurmError]:
    answer = wire.decode(response, answers.KillAnswer)
    overall = wire.failure(response, answer)
    numbers = answer.numbers()
    if overall is not None and not numbers and not isinstance(overall, SlurmNoSuchJob):
        raise _link_lost(overall)
    overall_number = (
        (0, "") if overall is None else (getattr(overall, "error_number", 0), str(overall))
    )
    failures: dict[int, SlurmError] = {}
    for job_id in job_ids:
        number, text = numbers.get(job_id, overall_number)
        if number not in _GONE:
            failures[job_id] = refusal(number, status=response.status, description=text)
    return failures


def _link_lost(error: SlurmError) -> SlurmError:
    """Translate an EPERM that means a lost connection: slurmrestd reports it if slurmctld hangs or
    goes away during a cancel (measured on 26.05.5, with status 403, and on 24.11.5, with 500). If
    the token really lacks the right, there is an error for each job.
    """
    if isinstance(error, SlurmDenied) and error.error_number == errno.EPERM:
        return SlurmBusy(str(error), error_number=errno.EPIPE, status=error.status)
    return error


def _soon() -> float:
    """The time, by the event loop's clock, until which the id in an answer of this moment surely
    belongs to no other job.
    """
    return asyncio.get_running_loop().time() + _MADE_SECONDS


def _id(job_id: int) -> int:
    if type(job_id) is not int or job_id < 1:
        raise ValueError(f"job id {job_id!r}, expected an integer of at least 1")
    return job_id


def _chunks(items: Sequence[int], size: int) -> list[Sequence[int]]:
    return [items[start : start + size] for start in range(0, len(items), size)]


async def _together(calls: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """The results in order; the first error ends the other calls and is raised by itself.

    A TaskGroup would not do: if a call fails in the turn of the event loop in which the caller is
    cancelled, the group of Python 3.11 raises only the error, and the caller lives on (measured).
    """
    if not calls:
        return []
    tasks = [asyncio.create_task(call, name="slurmapi chunk") for call in calls]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
    return [task.result() for task in tasks]
