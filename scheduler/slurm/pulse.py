"""The pulse: one shared request for the states of all placeholders, and a few full looks.

The cost for Slurm does not grow with the number of waiting pods (I10): a pulse is one request for
each 1000 placeholders, its interval grows with the number of requests and with the time Slurm
needs (`pulse_pace.py`), and full looks have a fixed budget.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count, groupby, islice
from typing import Final

import structlog

from groundwork.pauses import in_chunks, with_pauses
from scheduler.core.doubt import FIRST
from scheduler.core.pending_reasons import reasoned
from scheduler.observe.metrics import Metrics
from scheduler.observe.wake import WakeCause
from scheduler.slurm.look import look
from scheduler.slurm.look_allowance import LookAllowance
from scheduler.slurm.look_turns import LookTurns, namespace_of, one_of_each
from scheduler.slurm.pulse_pace import CHUNK, PulseHurry, PulsePace
from scheduler.slurm.restarts import Restarts
from scheduler.slurm.running_looks import RunningLooks
from scheduler.state.units import Placeholder, Unit, Units
from slurmapi import (
    BaseState,
    JobState,
    SlurmBusy,
    SlurmClient,
    SlurmDenied,
    SlurmError,
    SlurmGarbled,
    SlurmRefused,
    SlurmStranger,
    is_word_of_slurm,
)

log = structlog.get_logger(__name__)

NeedsLook = Callable[[Unit, Placeholder, float], bool]
"""Whether the job of a unit needs a full look at that time."""

# To handle a thousand jobs that start at once takes tens of milliseconds.
_BREATHE_EVERY: Final = 100
# To search so many ids takes 2 ms. With 60 000 in one turn it took 250 ms (measured). To search so
# many units for one kind of look takes 1 ms.
_SEARCHED_AT_ONCE: Final = 2000
# If a pulse is this much late, the process stood still and has missed one.
_LATE_SECONDS: Final = 5.0
# With more than CHUNK jobs, requests follow each other if the last one took no longer than this.
_FAST_ANSWER_SECONDS: Final = 0.25
# Limits the requests of one pulse for claimed ids. To find one bad id among 1000 takes 20 requests,
# and each bad id is found once.
_CLAIM_REQUESTS: Final = 64
_UNKNOWN: Final = JobState(BaseState.UNKNOWN)
# Limits of full looks at pending jobs: this many a second in all, and a minimum age of each job's
# last look. While Slurm has given a job no reason yet, the shorter age applies.
_REASONS_PER_SECOND: Final = 4.0
_FIRST_REASON_SECONDS: Final = 1.0
_REASON_AGE_SECONDS: Final = 10.0
# Limit of full looks at jobs whose nodes are made ready. It is one of its own, so that a crowd of
# them does not hold up the looks at pending jobs.
_MADE_READY_PER_SECOND: Final = 2.0
# The longest time for looks of one kind in one pulse, since the next request for all states waits
# for them, and so do endings. However slow Slurm is, one look is made.
_LOOKS_SECONDS: Final = 1.0
# After an outage every record is read again, a few at a time.
_DOUBTED_PER_SECOND: Final = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What Slurm says of the jobs `ids`; `states` lacks those that it does not know. What one
    request has shown was so at one moment; then the answer has a `number` of its own.
    """

    ids: Sequence[int]
    states: Mapping[int, JobState]
    asked: float
    answered: float
    number: int = 0


class Pulse:
    """Keeps the state of every placeholder in `units` up to date, and calls `on_change` with a
    unit's key and the cause. While another process leads, it only checks that Slurm answers.
    `on_pulse` is called after each pulse with its error, or with None if Slurm answered.
    """

    def __init__(
        self,
        client: SlurmClient,
        *,
        units: Units,
        on_change: Callable[[str, WakeCause], None],
        clock: Callable[[], float],
        fast_seconds: float,
        idle_seconds: float,
        metrics: Metrics,
        running_looks: RunningLooks,
        leads: Callable[[], bool] = lambda: True,
        on_pulse: Callable[[SlurmError | None], None] = lambda _error: None,
    ) -> None:
        self._client = client
        self._units = units
        self._on_change = on_change
        self._clock = clock
        self.pace = PulsePace(
            units, leads=leads, clock=clock, fast_seconds=fast_seconds, idle_seconds=idle_seconds
        )
        self._metrics = metrics
        self._leads = leads
        self._on_pulse = on_pulse
        self._sooner = asyncio.Event()
        self._hurry = PulseHurry.NONE
        self._restarts = Restarts(client, clock=clock)
        self._due_at = math.inf
        self._asking = asyncio.Lock()  # answers must be stored in the order of their requests
        self._asked_for = WakeCause.PULSE  # the cause of the request whose answer is being read
        self._numbers = count(1)  # of answers
        self._answer_took = 0.0
        self._in_turn = 1  # requests for states that followed each other
        self._failures = 0
        self._kinds: Sequence[tuple[NeedsLook, LookAllowance, LookTurns]] = (
            (_doubted, LookAllowance(_DOUBTED_PER_SECOND), LookTurns()),
            (_reason_is_due, LookAllowance(_REASONS_PER_SECOND), LookTurns()),
            (_nodes_are_unknown, LookAllowance(_MADE_READY_PER_SECOND), LookTurns()),
        )
        self._running = running_looks
        self.last_answer_at: float | None = None
        self.failed_at: float | None = None
        """When Slurm last failed to answer a pulse."""
        self.stranger = ""
        """Why the Slurm that answers is not ours, in words for people; "" if nothing says so."""

    def come_sooner(self) -> None:
        """A unit has started to wait, or a job may have ended, so end an idle interval early."""
        self._hasten(PulseHurry.WAITS)

    def hint(self, job_id: int) -> None:
        """Slurm's hooks say that this job has changed, so have the next pulse come at once, within
        its budget. Ignored if the job is not known to be ours: anybody may claim any number. The
        end of a job that we have cancelled is no news either.
        """
        if not self._leads():
            return
        if any(job.cancelled_at is None for job in self._units.own_jobs(job_id)):
            self._hasten(PulseHurry.HINTED)

    def allocated(self, job: Placeholder) -> None:
        """Note that Slurm has given nodes to this job, unless that is known."""
        if job.allocated_at:
            return
        job.allocated_at = self._clock()
        if job.submitted_at:
            self._metrics.stages["allocated"].observe(job.allocated_at - job.submitted_at)

    def _hasten(self, hurry: PulseHurry) -> None:
        """Have the next pulse come sooner. What adds nothing wakes nobody: when thousands of jobs
        end at once, there is a hint for each.
        """
        if hurry > self._hurry:
            self._hurry = hurry
            self._sooner.set()

    async def look_now(
        self, job_ids: list[int], *, cause: WakeCause = WakeCause.PULSE
    ) -> dict[int, JobState]:
        """Ask for the states of these jobs now, because of `cause`, and store them as a pulse does.
        Returns the states by job id.

        Raises SlurmError.
        """
        async with self._asking:
            self._asked_for = cause
            waiting, running, claimed = list[int](), list[int](), list[int]()
            many = len(job_ids) > CHUNK
            async for some in in_chunks(job_ids, size=_SEARCHED_AT_ONCE):
                for job_id in some:
                    if self._claimed(job_id):
                        claimed.append(job_id)
                    elif many and self._started(job_id):
                        running.append(job_id)
                    else:
                        waiting.append(job_id)
            parts = self._steps(waiting, running)
            self.pace.spend(sum(math.ceil(len(ids) / CHUNK) for ids in parts))
            answers = [await self._ask(ids) for ids in parts]
            self._in_turn = max(1, len(parts))
            for answer in reversed(answers):
                await self._take(answer)
            found = {job_id: state for it in answers for job_id, state in it.states.items()}
            return {**found, **await self._try_claimed(sorted(claimed))}

    def _steps(self, waiting: list[int], running: list[int]) -> list[list[int]]:
        """The ids of what is asked for together. What Slurm says of a job that runs counts for a
        job that has started beside it only if one request has shown both, or if Slurm was asked
        later. So the requests for jobs that run follow those for jobs that may have started. A
        slow Slurm is asked for all at once: otherwise news of ends would wait for two slow answers.
        """
        known = [*waiting, *running]
        if len(known) <= CHUNK or self._answer_took > _FAST_ANSWER_SECONDS:
            return [known] if known else []
        first = len(waiting) if len(waiting) > CHUNK else CHUNK if waiting else 0
        return [ids for ids in (known[:first], known[first:]) if ids]

    async def _ask(self, ids: list[int]) -> _Answer:
        asked = self._clock()
        states = await self._client.job_states(ids)
        answered = self._clock()
        self._answer_took = answered - asked
        number = next(self._numbers) if len(ids) <= CHUNK else 0
        return _Answer(ids=ids, states=states, asked=asked, answered=answered, number=number)

    def _started(self, job_id: int) -> bool:
        jobs = (unit.job for unit in self._units.by_job(job_id))
        return any(job is not None and job.started for job in jobs)

    def _claimed(self, job_id: int) -> bool:
        """Whether the job is known from annotations only. Anybody may write any number there."""
        for unit in self._units.by_job(job_id):
            if unit.job is None or not unit.job.claimed:
                return False
        return True

    async def _try_claimed(self, job_ids: list[int]) -> Mapping[int, JobState]:
        """Ask for the states of claimed jobs. If Slurm does not accept one id, it refuses the whole
        request; then each half is requested, down to that id. Ids that remain when the budget is
        used up are looked at one by one.
        """
        found: dict[int, JobState] = {}
        left = [job_ids[at : at + CHUNK] for at in range(0, len(job_ids), CHUNK)]
        for _ in range(_CLAIM_REQUESTS):
            if not left:
                return found
            asked, sent = left.pop(), self._clock()
            self.pace.spend()
            try:
                states = await self._client.job_states(asked)
            except SlurmRefused as error:
                if not is_word_of_slurm(error):
                    raise
                middle = len(asked) // 2
                if middle:
                    left += [asked[middle:], asked[:middle]]
                else:
                    self._refute_claims(asked[0])
                continue
            answer = _Answer(ids=asked, states=states, asked=sent, answered=self._clock())
            await self._take(answer)
            found |= states
        unasked, now = [job_id for ids in left for job_id in ids], self._clock()
        nothing = _Answer(ids=unasked, states={}, asked=now, answered=now)
        async for job_id in with_pauses(unasked, every=_BREATHE_EVERY):
            for unit in self._units.by_job(job_id):
                job = unit.job
                if job is not None and job.claimed and (job.state != _UNKNOWN or job.missing):
                    self._changed(unit, job, _UNKNOWN, nothing)
        return found

    def _refute_claims(self, job_id: int) -> None:
        """Refute the claims of a number that Slurm does not accept as a job id."""
        for unit in self._units.by_job(job_id):
            if unit.job is not None and unit.job.claimed:
                unit.job.refuted = True
                self._on_change(unit.key, self._asked_for)

    async def run(self) -> None:
        """Ask for ever; cancel it to stop. One slow answer does not delay the next pulse: while
        slurmctld tests its whole queue it answers nobody, with 1000 waiting jobs for up to 1.2 s
        (measured), and then it may start them all.
        """
        former = math.inf
        while True:
            took = await self._pulse()
            await self._rest(min(took, former))
            former = took

    async def _rest(self, took: float) -> None:
        """Wait until the next pulse is due. What happens meanwhile may make it due sooner."""
        ended = self._clock()
        while True:
            seconds = self.pace.seconds(took, failures=self._failures, hurry=self._hurry)
            left = max(ended + seconds - self._clock(), 0.0)
            self._due_at = self._clock() + left
            self._metrics.polls_every(seconds)
            self._sooner.clear()
            try:
                async with asyncio.timeout(left):
                    await self._sooner.wait()
            except TimeoutError:
                return

    async def _pulse(self) -> float:
        began, self._hurry = self._clock(), PulseHurry.NONE
        ids = self._units.job_ids() if self._leads() else []
        try:
            only_claims = all(map(self._claimed, ids))
            if ids:
                restarted = await self._restarts.happened()
                await self.look_now(ids)
                if restarted or began - self._due_at > _LATE_SECONDS:
                    self._doubt()
            # Also if there are no ids. A refusal of claimed ids would not show that Slurm works.
            if only_claims:
                await self._ping()
            self._heard()
            if ids:
                await self._looks()
        except SlurmError as error:
            self._failed(error)
            return self._clock() - began
        self.last_answer_at = self._clock()
        self._on_pulse(None)
        return (self._clock() - began) / self._in_turn

    async def _ping(self) -> None:
        """Raises SlurmError if the controller does not answer. With an invalid token a ping looks
        as if the controller were down (measured), so another request must find the cause.
        """
        ping = await self._client.ping()
        if not ping.responding:
            await self._client.job_states([1])
            raise SlurmBusy(f"its controllers do not answer a ping ({ping.status})")

    def _failed(self, why: SlurmError) -> None:
        self.stranger = str(why) if isinstance(why, SlurmStranger) else ""
        self._failures += 1
        self.failed_at = self._clock()
        self._units.silent = True
        self._doubt()
        self._on_pulse(why)

    def _heard(self) -> None:
        """Note that Slurm answers. After failures all records are doubted once more: slurmctld may
        have crashed again between the failed pulse and this one.
        """
        if self._failures:
            self._doubt()
        self._failures, self._units.silent, self.stranger = 0, False, ""

    def _doubt(self) -> None:
        for unit in self._units:
            if unit.job is not None:
                unit.job.doubt(self._clock())

    async def _take(self, answer: _Answer) -> None:
        """Store the states."""
        asked, answered = answer.asked, answer.answered
        async for job_id in with_pauses(answer.ids, every=_BREATHE_EVERY):
            state = answer.states.get(job_id)
            for unit in self._units.by_job(job_id):
                job = unit.job
                if job is None or job.asked_at > answered:
                    continue  # a look at it was asked for later, and has been answered meanwhile
                if state is None:
                    self._absent(unit, job)
                    continue
                if state == job.state and not job.missing:
                    job.confirm(asked=asked, answer=answer.number)
                elif job.may_be_older(state, asked=asked):
                    continue  # as a look has shown meanwhile
                else:
                    self._changed(unit, job, state, answer)
                if not state.ended:
                    job.lived_at = answered

    def _absent(self, unit: Unit, job: Placeholder) -> None:
        """Note that the answer lacks the job. This is only a doubt, which looks at the job must
        confirm.
        """
        if job.missing == 0:
            job.missing, job.missed_at = FIRST, self._clock()
            self._on_change(unit.key, self._asked_for)

    def _changed(self, unit: Unit, job: Placeholder, state: JobState, answer: _Answer) -> None:
        ran = job.state is not None and job.state.base is BaseState.RUNNING
        starts = state.base is BaseState.RUNNING and not ran
        job.enter(
            state,
            at=self._clock(),
            asked=answer.asked,
            answered=answer.answered,
            answer=answer.number,
        )
        job.missing = 0
        job.seen_live = job.seen_live or not state.ended
        if starts:
            if job.submitted_at:
                self.pace.hooks_tell = bool(job.allocated_at)
            self.allocated(job)
        self._on_change(unit.key, self._asked_for)

    async def _looks(self) -> None:
        """For each kind of look, look at the few jobs whose turn it is."""
        now = self._clock()
        for needs, allowance, turns in self._kinds:
            most = allowance.take(now)
            units = await due(self._units, needs, most=most, turns=turns, now=now)
            # A pass may look at some meanwhile, which shows what this look is for.
            left = (it for it in units if it.job and needs(it, it.job, now))
            await self._look_at(turns.taken(left))
        await self._look_at(await self._running.due(self._units, now=now))

    async def _look_at(self, units: Iterable[Unit]) -> None:
        until = self._clock() + _LOOKS_SECONDS
        for unit in units:
            job = unit.job
            if job is None:
                continue
            before = job.record if job.proven else None
            try:
                await look(self._client, unit, job, clock=self._clock)
            except (SlurmRefused, SlurmGarbled) as error:
                if isinstance(error, SlurmDenied) and error.authentication:
                    raise
                log.debug("job cannot be read", job_id=job.job_id, error=str(error))
            if unit.waiting or job.missing or job.record != before:
                self._on_change(unit.key, WakeCause.PULSE)
            if self._clock() >= until:
                return


async def due(
    units: Units, needs: NeedsLook, *, most: int, turns: LookTurns, now: float
) -> list[Unit]:
    """At most so many of the units that need this look: namespaces take `turns`, each with the
    units whose last look is oldest. The search ends once it cannot change the result.
    """
    found = dict[str, list[Unit]]()
    line = turns.line(units.namespaces) if most else ()
    in_line = chain.from_iterable(map(units.in_namespace, line))
    while some := tuple(islice(in_line, _SEARCHED_AT_ONCE)):
        needing = [it for it in some if it.job is not None and needs(it, it.job, now)]
        for namespace, more in groupby(needing, key=namespace_of):
            former = found.get(namespace, ())
            found[namespace] = heapq.nsmallest(most, [*former, *more], key=_looked_at)
            if len(found) > most:
                return one_of_each(found.values(), most)
        await asyncio.sleep(0)
    return one_of_each(found.values(), most)


def _looked_at(unit: Unit) -> float:
    return unit.job.looked_at if unit.job is not None else 0.0


def _doubted(_unit: Unit, job: Placeholder, _now: float) -> bool:
    return job.record is not None and not job.proven


def _nodes_are_unknown(_unit: Unit, job: Placeholder, now: float) -> bool:
    """Whether nodes are made ready for the job, and only a look can show which."""
    if job.state is None or not job.state.configuring or job.running_since:
        return False
    return max(job.allocated_at, job.looked_at) + _FIRST_REASON_SECONDS <= now


def _reason_is_due(_unit: Unit, job: Placeholder, now: float) -> bool:
    if job.state is None or job.state.base is not BaseState.PENDING:
        return False
    if not job.looked_at:
        # A new job counts as pending until Slurm has shown its state.
        shown_at = job.asked_at if job.submitted_at else now
        return job.submitted_at + _FIRST_REASON_SECONDS <= shown_at
    known = job.record is not None and reasoned(job.record)
    return job.looked_at + (_REASON_AGE_SECONDS if known else _FIRST_REASON_SECONDS) <= now
