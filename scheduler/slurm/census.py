"""Finds placeholders that belong to no known pod, without ever listing all jobs in full.

One cheap request returns the ids and states of all jobs. Live ids that this process does not know
are looked at one by one, newest first and a few at a time. A job with our owner tag is adopted by
its unit, or cancelled as a duplicate or as an orphan. A job of several pods waits for its unit: its
id is remembered until there is one. Any other job is foreign: its id is remembered as long as it
lives and is not looked at again, so a later census costs one request, and one look for each new
job. But ids can be reused. If many of the remembered ids are gone at once, the rest may belong to
other jobs by now, and are looked at again.

Among tens of thousands of foreign jobs the first census takes minutes. A pod does not wait for all
of it: ids rise, so as soon as a job is reached that got its id before the pod was created, no later
one can be the pod's. If ids have started from the beginning again, Slurm itself does not start a
second job with the same name.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing, suppress
from datetime import datetime
from typing import Final, Protocol

import structlog

from groundwork.pauses import in_chunks
from scheduler.core.owner_tag import SEVERAL, Owner, OwnerTag
from scheduler.core.tagged import TaggedJob
from scheduler.observe.metrics import Metrics
from scheduler.observe.wake import WakeCause
from scheduler.slurm.ended_jobs import EndedJobs, Unexplained
from scheduler.slurm.given_back import mark_given_back
from scheduler.slurm.look import laid_out, look, read_job
from scheduler.slurm.submit_times import SubmitTimes
from scheduler.state.member import Member, by_uid
from scheduler.state.said import SaidOnPod
from scheduler.state.seen import SeenOfPod
from scheduler.state.units import Placeholder, Unit, Units
from slurmapi import (
    BaseState,
    JobState,
    SlurmClient,
    SlurmError,
    SlurmGarbled,
    SlurmNoSuchJob,
    SlurmRefused,
    is_word_of_slurm,
)

log = structlog.get_logger(__name__)

_AT_ONCE: Final = 4
# After this many ids other tasks run; they take less than 10 ms.
_SCANNED_AT_ONCE: Final = 1000
_PERIOD_SECONDS: Final = 300.0
_RETRY_SECONDS: Final = 2.0
# The pause between two requested censuses. The list of all ids costs Slurm more than a pulse: with
# 30 000 jobs slurmrestd needs 3 to 4 s of CPU (measured on 26.05.5). So the pause grows with the
# time that the list took.
_SHORTEST_SECONDS: Final = 1.0
_REST_FACTOR: Final = 4.0
# After this many looks we check which units need not wait for the census any longer.
_SETTLE_EVERY: Final = 100
# After a crash slurmctld has forgotten the jobs since it last saved its state, and reuses their ids
# (measured). So this many of the newest foreign ids are looked at again.
_NEWEST: Final = 256
# A slurmctld that starts may not find a job that it lists, or answer about all jobs but one. This
# many censuses, a second or more apart, look at such a job: it may be a pod's own. After that it
# must not keep all other pods waiting. If it is a pod's own, Slurm does not start a second one.
_MOST_TRIES: Final = 20
# Nobody waits for the regular census, so it pauses this long after each few looks.
_PACE_SECONDS: Final = 0.2


class KnownPods(Protocol):
    """What is known of our pods (`facts/whereabouts.py`)."""

    def shows(self, uid: str) -> bool:
        """Whether the watch shows this pod."""
        ...

    def may_run(self, uid: str) -> bool:
        """Whether the watch shows this pod, and it has not finished."""
        ...

    def said(self, uid: str) -> SaidOnPod:
        """What this pod says already; nothing if the watch does not show it."""
        ...

    def created(self, unit: Unit) -> datetime | None:
        """When the oldest of the unit's pods was created; None if that is not known."""
        ...

    def slurm_nodes(self, unit: Unit) -> frozenset[str]:
        """The Slurm nodes on which the unit's pods run, as far as they are known."""
        ...

    async def unexplained(self) -> Unexplained:
        """Running pods without a job that Slurm has shown to be theirs."""
        ...


class Census:
    """Searches when asked, and every few minutes. `completed_at` is when the last complete census
    began.
    """

    def __init__(
        self,
        client: SlurmClient,
        *,
        units: Units,
        owner: Owner,
        pods: KnownPods,
        submit_times: SubmitTimes,
        in_scope: Callable[[str], bool],
        on_change: Callable[[str], None],
        clock: Callable[[], float],
        metrics: Metrics,
    ) -> None:
        self._client = client
        self._units = units
        self._owner = owner
        self._pods = pods
        self._submit_times = submit_times
        self._in_scope = in_scope
        self._ended = EndedJobs(
            self._job,
            owner=owner,
            unexplained=pods.unexplained,
            adopt=self._adopt_ended,
            submit_times=submit_times,
        )
        self._on_change = on_change
        self._clock = clock
        self._metrics = metrics
        self._foreign: set[int] = set()
        self._unreadable: set[int] = set()
        self._tries = Counter[int]()
        """How often a look at an id of Slurm's list has shown no job, though Slurm answered."""
        self._skipped: SlurmError | None = None
        """Why a job was left for the next census."""
        self._unitless: dict[int, OwnerTag] = {}
        self._wanted = True
        self._asked = asyncio.Event()
        self._failures = 0
        self._listing_seconds = 0.0
        self._reached = math.inf
        self.completed_at: float | None = None
        self.first_at: float | None = None
        """When the first complete census ended."""
        self.trouble = ""
        """Why the last census failed; "" if it succeeded."""

    def ask(self, *, afresh: bool = False) -> None:
        """Request a census. With `afresh` it looks at the newest foreign ids again, since they may
        be ours by now.
        """
        if afresh:
            self._doubt_the_newest()
        self._asked.set()

    def _doubt_the_newest(self) -> None:
        self._unreadable.clear()
        self._foreign.difference_update(sorted(self._foreign)[-_NEWEST:])

    def covers(self, created: datetime | None, *, runs: bool = False) -> bool:
        """Whether a job of a pod that was created at that time would have been found by now. If the
        pod `runs`, this includes jobs that have ended.
        """
        if runs:
            return self._ended.done
        return self.completed_at is not None or self._reached_before(created)

    def _reached_before(self, created: datetime | None) -> bool:
        return created is not None and self._reached < created.timestamp()

    async def run(self) -> None:
        """Search for ever; cancel it to stop."""
        while True:
            self._wanted = self._asked.is_set() or self.completed_at is None
            self._asked.clear()
            pause = _PERIOD_SECONDS if await self._attempt() else _RETRY_SECONDS
            await asyncio.sleep(max(_SHORTEST_SECONDS, _REST_FACTOR * self._listing_seconds))
            try:
                async with asyncio.timeout(pause):
                    await self._asked.wait()
            except TimeoutError:
                self._doubt_the_newest()

    async def _attempt(self) -> bool:
        began = self._clock()
        self._reached, self._skipped = math.inf, None
        try:
            await self._submit_times.compare_clocks()
            states = await self._look_through(began)
            self._skipped_none()
            self._completed(began)
            await self._ended.look_through(
                job_id for job_id, state in states.items() if state.ended
            )
            self._skipped_none()
        except SlurmError as error:
            self._failures += 1
            self.trouble = str(error)
            if self._failures == 1 or self._failures % 20 == 0:
                log.warning("jobs cannot be searched", error=str(error))
            return False
        self._settle(began, lambda _created: True)
        return True

    def _skipped_none(self) -> None:
        """Raises SlurmError if a job was left for the next census."""
        if self._skipped is not None:
            raise self._skipped

    def _completed(self, began: float) -> None:
        """All live jobs have been looked at."""
        if self._failures or self.completed_at is None:
            seconds = round(self._clock() - began, 3)
            log.info("jobs searched", others=len(self._foreign), seconds=seconds)
        self._failures, self.trouble = 0, ""
        self.first_at = self._clock() if self.first_at is None else self.first_at
        self.completed_at = began
        self._settle(began, lambda _created: True)

    def _settle(self, began: float, covered: Callable[[datetime | None], bool]) -> None:
        """Units whose job was not found may submit one now: those that were in doubt before this
        census, and whose pod is covered.
        """
        for unit in self._units:
            since = unit.doubt_since
            if since is None or since >= began or (unit.came_running and not self._ended.done):
                continue
            if covered(self._pods.created(unit)):
                unit.settle()
                self._on_change(unit.key)

    async def _look_through(self, began: float) -> Mapping[int, JobState]:
        given_back = [(unit, unit.given_back) for unit in self._units if unit.given_back]
        states = await self._client.job_states()
        self._listing_seconds = self._clock() - began
        # Of a job that is partial, components still hold nodes.
        live = list[int]()
        async for part in in_chunks(states.items(), size=_SCANNED_AT_ONCE):
            live += [job_id for job_id, it in part if it.partial or not it.ended]
        for unit, job_ids in given_back:
            unit.is_rid_of(job_ids.difference(live))  # they ended, perhaps by an unconfirmed cancel
        self._forget_all_but(set(live))
        self._recall()
        looks = 0
        async with aclosing(self._unknown(live)) as unknown:
            async for some in unknown:
                asked_at = self._clock()
                for job in await asyncio.gather(*map(self._job, some)):
                    if job is not None:
                        await self._found(job, asked_at)
                        self._reached = min(self._reached, self._submit_times.latest(job))
                if looks % _SETTLE_EVERY == 0 and self._skipped is None:
                    self._settle(began, self._reached_before)
                looks += _AT_ONCE
                await self._pace()
        return states

    async def _unknown(self, live: list[int]) -> AsyncGenerator[list[int], None]:
        """The jobs to look at, newest first and a few at a time. At a start the passes look at the
        same jobs, so each is asked about when its turn comes.
        """
        known, some = self._foreign | self._unreadable, list[int]()
        for number, job_id in enumerate(sorted(live, reverse=True), 1):
            if job_id not in known and not self._accounted_for(job_id):
                some.append(job_id)
            if len(some) == _AT_ONCE:
                yield some
                some = []
            elif number % _SCANNED_AT_ONCE == 0:
                await asyncio.sleep(0)
        if some:
            yield some

    def _forget_all_but(self, live: set[int]) -> None:
        """Forget the ids of jobs that are gone. If half of the foreign ids or more are gone,
        slurmctld may have lost its state and reuse ids, so all are forgotten. This causes at most
        as many new looks as there were jobs that are gone, so many short foreign jobs at most
        double the cost.
        """
        left = self._foreign & live
        lost = 2 * len(left) <= len(self._foreign)
        self._foreign = set() if lost else left
        self._unreadable &= live
        self._tries = Counter({it: self._tries[it] for it in self._tries.keys() & live})

    def _recall(self) -> None:
        """Look again at jobs of several pods if the unit that their tag names exists by now, or if
        no pod of it can run any more. A process with other settings never makes that unit.
        """
        found = {it for it, tag in self._unitless.items() if not self._still_without_unit(tag)}
        self._foreign -= found
        self._unitless = {it: tag for it, tag in self._unitless.items() if it in self._foreign}

    def _still_without_unit(self, tag: OwnerTag) -> bool:
        return self._units.of_tag(tag) is None and any(map(self._pods.may_run, tag.uids))

    async def _pace(self) -> None:
        """Pause, unless somebody requests a census in the meantime."""
        if not self._wanted:
            with suppress(TimeoutError):
                async with asyncio.timeout(_PACE_SECONDS):
                    await self._asked.wait()

    def _accounted_for(self, job_id: int) -> bool:
        """Whether a unit holds this job on better evidence than its pod's annotation."""
        return any(
            unit.job is not None
            and (
                unit.job.submitted_at > 0.0
                or (unit.job.record is not None and unit.owns(unit.job.record, owner=self._owner))
            )
            for unit in self._units.by_job(job_id)
        )

    async def _job(self, job_id: int) -> TaggedJob | None:
        """The job; None if Slurm says that it is gone or cannot be read, or answers about others
        only. One such job, for instance an array whose first task is gone, must not prevent the
        census from finding the others. Raises SlurmError if Slurm answers nothing: if the census
        skipped that job, its pod might get a second one.
        """
        try:
            return await read_job(self._client, job_id)
        except SlurmNoSuchJob:
            if self._is_tried_again(job_id):  # the list has shown it a moment ago
                return None
        except SlurmError as error:
            if not is_word_of_slurm(error):
                await self._client.ping()
                if self._is_tried_again(job_id):
                    self._skipped = error
                    return None
                log.warning("job cannot be read", job_id=job_id, error=str(error))
        self._unreadable.add(job_id)
        return None

    def _is_tried_again(self, job_id: int) -> bool:
        self._tries[job_id] += 1
        return self._tries[job_id] < _MOST_TRIES

    async def _found(self, job: TaggedJob, asked_at: float) -> None:
        tag = job.tag
        if tag is None or tag.owner != self._owner or not self._in_scope(tag.namespace):
            self._foreign.add(job.job_id)
            return
        over = job.state.ended and not job.state.partial
        if over or self._accounted_for(job.job_id):
            return  # it ended in the meantime, or its own submit has just recorded it
        job = await laid_out(self._client, job)
        unit = self._units.of_tag(tag)
        if unit is not None and _let_go(unit, job, tag):
            await self._end_given_back(unit, job.job_id)
        elif unit is None and self._is_nobodys(job, tag):
            released = Unit(tag.key, tag.namespace, tag.unit, seen_at=self._clock())
            await self._end_given_back(released, job.job_id)
        elif unit is None and tag.v == SEVERAL and any(map(self._pods.may_run, tag.uids)):
            self._without_unit(job, tag, asked_at)
        elif unit is None and tag.given_back and self._any_known(tag.uids):
            self.ask()  # a pass will soon read its pod, which shows if it has released the job
        elif unit is None:
            self._orphan(job, tag, asked_at)
        elif unit.asked.submitting:
            return
        elif unit.job is not None and unit.job.job_id == job.job_id:
            # The pod's claim is true.
            unit.job.saw(job, asked=asked_at, at=asked_at, answered_at=self._clock())
            self._on_change(unit.key)
        elif unit.job is None:
            self._adopt(unit, job, asked_at)
        else:
            await self._duplicate(unit, unit.job, job, asked_at)

    def _is_nobodys(self, job: TaggedJob, tag: OwnerTag) -> bool:
        """Whether a former process has released the job, and no pod names it. Its unit may never
        exist again: other settings, or an edit, may have put its pods into another one.
        """
        named = any(self._pods.said(uid).recorded == job.job_id for uid in tag.uids)
        return tag.given_back and self._any_known(tag.uids) and not named

    def _without_unit(self, job: TaggedJob, tag: OwnerTag, asked_at: float) -> None:
        """Leave the job of a gang alone until its unit exists. Pods of it that name no job must not
        get jobs of their own (`core/unknown_unit.py`).
        """
        self._foreign.add(job.job_id)
        self._unitless[job.job_id] = tag
        for uid in () if tag.given_back else tag.uids:
            unit = self._units.get(uid)
            if unit is not None and unit.job is None and not unit.asked.submitting:
                self._adopt(unit, job, asked_at)

    def _orphan(self, job: TaggedJob, tag: OwnerTag, asked_at: float) -> None:
        """Make a unit for a job that has none: its pod vanished while no scheduler ran, or no pass
        has looked at it yet, or all pods of a gang have finished, and Slurm has forgotten that its
        job was cancelled.
        """
        names = tag.names or (tag.unit,)
        pods = [
            Member(uid, name, SeenOfPod(orphaned=not self._pods.shows(uid)), self._pods.said(uid))
            for uid, name in zip(tag.uids, names, strict=True)
            if uid
        ]
        former = self._units.of_pod(tag.key)
        if former is not None:
            # A former process submitted this job for the pod alone.
            self._units.part(former, (tag.key,))
        unit = Unit(tag.key, tag.namespace, tag.unit, seen_at=self._clock(), members=by_uid(pods))
        self._units.add(unit)
        if not self._any_known(tag.uids):
            self._metrics.leftovers.labels("orphan").inc()
        self._adopt(unit, job, asked_at)

    def _adopt(self, unit: Unit, job: TaggedJob, asked_at: float) -> None:
        """The census has found this job: make it the unit's placeholder."""
        placeholder = Placeholder(job.job_id)
        placeholder.saw(job, asked=asked_at, at=asked_at, answered_at=self._clock())
        self._units.recall(unit, job, shows=self._pods.shows)
        self._units.set_job(unit, placeholder)
        self._metrics.leftovers.labels("adopted").inc()
        log.info(
            "placeholder found",
            namespace=unit.namespace,
            pod=unit.name,
            uid=unit.key,
            cause=WakeCause.CENSUS,
            job_id=job.job_id,
        )
        self._on_change(unit.key)

    def _adopt_ended(self, job: TaggedJob) -> None:
        """Adopt the last job of a running pod that names none, so that its end counts."""
        tag = job.tag
        unit = None if tag is None else self._units.of_tag(tag)
        if (
            unit is not None
            and not unit.asked.submitting
            and (unit.job is None or unit.job.claimed)
        ):
            self._adopt(unit, job, self._clock())

    async def _duplicate(
        self, unit: Unit, held: Placeholder, found: TaggedJob, asked_at: float
    ) -> None:
        """Keep one of two jobs of a unit: the one that runs, otherwise the one that can start,
        otherwise the older one. But a found job that is not for the nodes of the unit's running
        pods is never kept. Cancel the other.

        The unit may hold its job on its pod's claim only, so that job is looked at first.
        """
        readable = await self._look(unit, held)
        if unit.job is not held:
            # A pass has dropped it in the meantime, for instance because the claim was false.
            await self._found(found, asked_at)
            return
        if unit.asked.submitting:
            return
        if (
            not readable
            or held.record is None
            or held.missing
            or not unit.owns(held.record, owner=self._owner)
        ):
            self._adopt(unit, found, asked_at)
            return
        over = held.state is not None and held.state.ended
        better = over or _goes_before(found, held.record)
        keep_found = better and not self._is_elsewhere(unit, found)
        loser = held.job_id if keep_found else found.job_id
        if keep_found:
            self._adopt(unit, found, asked_at)
        if unit.names(loser) and self._any_known(unit.uids):
            return  # wait until the pod names the other, or its end looks like a scancel
        own = await mark_given_back(self._client, loser, unit=unit, owner=self._owner)
        if own is None:
            return
        failures = await self._client.cancel([loser], send_by=own.send_by)
        self._metrics.leftovers.labels("duplicate").inc()
        log.warning(
            "duplicate placeholder",
            namespace=unit.namespace,
            pod=unit.name,
            uid=unit.key,
            cause=WakeCause.CENSUS,
            job_id=loser,
            failed=bool(failures),
        )

    def _is_elsewhere(self, unit: Unit, found: TaggedJob) -> bool:
        """Whether any of the unit's pods runs on a node that the found job neither holds nor
        requests. If so, the found job is of no use to that pod. It came late, from a process that
        submitted it before the pod was bound; or it had ended, was replaced by a job for the pod's
        node, and was requeued. It is cancelled, and the unit keeps the job that it has.
        """
        asked = () if found.tag is None else found.tag.pinned
        return not self._pods.slurm_nodes(unit) <= {*asked, *found.nodes}

    async def _end_given_back(self, unit: Unit, job_id: int) -> None:
        own = await mark_given_back(self._client, job_id, unit=unit, owner=self._owner)
        if own is not None:
            failures = await self._client.cancel([job_id], send_by=own.send_by)
            if failures:
                self.ask()
                return
        unit.is_rid_of({job_id})
        log.info(
            "unneeded placeholder cancelled",
            namespace=unit.namespace,
            pod=unit.name,
            uid=unit.key,
            cause=WakeCause.CENSUS,
            job_id=job_id,
        )

    def _any_known(self, uids: Iterable[str]) -> bool:
        """Whether the watch shows any of these pods."""
        return any(map(self._pods.shows, uids))

    async def _look(self, unit: Unit, held: Placeholder) -> bool:
        try:
            await look(self._client, unit, held, clock=self._clock)
            # The look may have shown a new state, which is no news for the next pulse.
            self._on_change(unit.key)
        except (SlurmRefused, SlurmGarbled) as error:
            if not is_word_of_slurm(error):
                raise
            return False
        return True


def _goes_before(found: TaggedJob, held: TaggedJob) -> bool:
    """Whether the found job is the one to keep: it is the only one that runs, or the only one that
    can start. A held job keeps its twin from starting (singleton) as long as it is held.
    """
    if BaseState.RUNNING in {found.state.base, held.state.base}:
        return held.state.base is not BaseState.RUNNING
    return held.held and not found.held


def _let_go(unit: Unit, job: TaggedJob, tag: OwnerTag) -> bool:
    """Whether the unit has released the job, in this process or a former one. A job that the pod
    names is still its own: its mark came late, after another process had found the job.
    """
    return job.job_id in unit.given_back or (tag.given_back and not unit.names(job.job_id))
