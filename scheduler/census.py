"""Finds placeholders that no pod accounts for, without ever listing all jobs in full.

All ids and states come in one cheap answer; live ids that nobody here knows are looked at one by
one, newest first and a few at a time. Those that carry our owner tag are adopted by their unit,
ended as duplicates, or ended as orphans. Anything else is foreign and never looked at again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container
from typing import Final

import structlog

from scheduler.core.naming import Owner, OwnerTag, read_tag, stands_for
from scheduler.metrics import Metrics
from scheduler.slurmwatch import look
from scheduler.units import Placeholder, Unit, Units
from slurmapi import (
    BaseState,
    Job,
    SlurmClient,
    SlurmDenied,
    SlurmError,
    SlurmGarbled,
    SlurmRefused,
)

log = structlog.get_logger(__name__)

_AT_ONCE: Final = 4
_PERIOD_SECONDS: Final = 300.0
_RETRY_SECONDS: Final = 2.0
# Between two censuses that were asked for: the answer with all ids costs Slurm more than a pulse.
_SHORTEST_SECONDS: Final = 1.0
# A crash of slurmctld forgets the jobs since its last saved state, and gives their ids out again
# (measured): so many of the newest foreign ids are not taken for granted.
_NEWEST: Final = 256


class Census:
    """Runs when asked and every few minutes; `completed_at` tells when the last full one began."""

    def __init__(
        self,
        client: SlurmClient,
        *,
        units: Units,
        owner: Owner,
        known_uids: Container[object],
        in_scope: Callable[[str], bool],
        on_change: Callable[[str], None],
        clock: Callable[[], float],
        metrics: Metrics,
    ) -> None:
        self._client = client
        self._units = units
        self._owner = owner
        self._known_uids = known_uids
        self._in_scope = in_scope
        self._on_change = on_change
        self._clock = clock
        self._metrics = metrics
        self._foreign: set[int] = set()
        self._asked = asyncio.Event()
        self._failures = 0
        self.completed_at: float | None = None
        self.trouble = ""
        """Why the last one failed; empty when it did not."""

    def ask(self, *, afresh: bool = False) -> None:
        """Have one made soon; `afresh` where the newest foreign ids may be ours by now."""
        if afresh:
            self._doubt_the_newest()
        self._asked.set()

    def _doubt_the_newest(self) -> None:
        self._foreign.difference_update(sorted(self._foreign)[-_NEWEST:])

    async def run(self) -> None:
        """For ever; end it by cancelling."""
        while True:
            self._asked.clear()
            pause = _PERIOD_SECONDS if await self._attempt() else _RETRY_SECONDS
            await asyncio.sleep(_SHORTEST_SECONDS)
            try:
                async with asyncio.timeout(pause):
                    await self._asked.wait()
            except TimeoutError:
                self._doubt_the_newest()

    async def _attempt(self) -> bool:
        began = self._clock()
        try:
            await self._look_through()
        except SlurmError as error:
            self._failures += 1
            self.trouble = str(error)
            if self._failures == 1 or self._failures % 20 == 0:
                log.warning("jobs cannot be looked through", error=str(error))
            return False
        self._failures, self.trouble = 0, ""
        self.completed_at = began
        for unit in self._units:
            if unit.doubt_since is not None and unit.doubt_since < began:
                unit.doubt_since = None
                self._on_change(unit.key)
        return True

    async def _look_through(self) -> None:
        states = await self._client.job_states()
        live = [job_id for job_id, state in states.items() if not state.ended]
        self._foreign &= set(live)
        unknown = [
            job_id
            for job_id in sorted(live, reverse=True)
            if job_id not in self._foreign and not self._accounted_for(job_id)
        ]
        for start in range(0, len(unknown), _AT_ONCE):
            asked_at = self._clock()
            found = await asyncio.gather(*map(self._job, unknown[start : start + _AT_ONCE]))
            for job in found:
                if job is not None:
                    await self._found(job, asked_at)

    def _accounted_for(self, job_id: int) -> bool:
        """Whether a unit holds it by more than its pod's word."""
        return any(
            unit.job is not None
            and (
                unit.job.submitted_at > 0.0
                or (unit.job.record is not None and self._stands_for(unit, unit.job.record))
            )
            for unit in self._units.by_job(job_id)
        )

    async def _job(self, job_id: int) -> Job | None:
        """The job, unless it is gone or cannot be read: one such job, of an array whose first task
        has gone for instance, must not keep the others from being found.
        """
        try:
            return await self._client.job(job_id)
        except SlurmDenied as error:
            if error.authentication:
                raise
            return None
        except (SlurmRefused, SlurmGarbled):
            return None

    async def _found(self, job: Job, asked_at: float) -> None:
        tag = read_tag(job.admin_comment)
        if tag is None or tag.owner != self._owner or not self._in_scope(tag.namespace):
            self._foreign.add(job.job_id)
            return
        if job.state.ended or self._accounted_for(job.job_id):
            return  # ended meanwhile, or just recorded by its own submit
        unit = self._units.get(tag.uids[0])
        if unit is not None and job.job_id in unit.given_back:
            await self._end_given_back(unit, job.job_id)
        elif unit is None:
            self._orphan(job, tag, asked_at)
        elif unit.submitting or (unit.job is not None and unit.job.job_id == job.job_id):
            return
        elif unit.job is None:
            self._adopt(unit, job, asked_at)
        else:
            await self._duplicate(unit, unit.job, job, asked_at)

    def _orphan(self, job: Job, tag: OwnerTag, asked_at: float) -> None:
        """No unit: its pod went while nobody watched (or is about to be looked at)."""
        unit = self._units.add(Unit(tag.uids[0], tag.namespace, tag.unit, seen_at=self._clock()))
        if unit.key not in self._known_uids:
            self._metrics.leftovers.labels("orphan").inc()
        self._adopt(unit, job, asked_at)

    def _adopt(self, unit: Unit, job: Job, asked_at: float) -> None:
        placeholder = Placeholder(
            job.job_id,
            state=job.state,
            record=job,
            record_at=asked_at,
            proven=True,
            seen_live=not job.state.ended,
        )
        self._units.set_job(unit, placeholder)
        self._metrics.leftovers.labels("adopted").inc()
        log.info("placeholder found", pod=unit.name, uid=unit.key, job_id=job.job_id)
        self._on_change(unit.key)

    async def _duplicate(self, unit: Unit, held: Placeholder, found: Job, asked_at: float) -> None:
        """Two jobs for one unit: the one that runs stays, else the older.

        The id of the one that is held may be a pod's word only, so that is looked at first.
        """
        readable = await self._look(unit, held)
        if unit.job is not held or unit.submitting:
            return
        if (
            not readable
            or held.record is None
            or held.missing
            or not self._stands_for(unit, held.record)
        ):
            self._adopt(unit, found, asked_at)
            return
        keep_found = found.state.base is BaseState.RUNNING and (
            held.state is None or held.state.base is not BaseState.RUNNING
        )
        if held.state is not None and held.state.ended:
            keep_found = True
        loser = held.job_id if keep_found else found.job_id
        if keep_found:
            self._adopt(unit, found, asked_at)
        if loser == unit.recorded and unit.key in self._known_uids:
            return  # once the pod names the other: a next process would see it end as a scancel
        failures = await self._client.cancel([loser])
        self._metrics.leftovers.labels("duplicate").inc()
        log.warning(
            "duplicate placeholder",
            pod=unit.name,
            uid=unit.key,
            job_id=loser,
            failed=bool(failures),
        )

    async def _end_given_back(self, unit: Unit, job_id: int) -> None:
        failures = await self._client.cancel([job_id])
        if failures:
            self.ask()
            return
        unit.given_back.discard(job_id)
        log.info("placeholder given back at last", pod=unit.name, uid=unit.key, job_id=job_id)

    async def _look(self, unit: Unit, held: Placeholder) -> bool:
        try:
            await look(self._client, unit, held, clock=self._clock)
        except SlurmGarbled:
            return False
        return True

    def _stands_for(self, unit: Unit, job: Job) -> bool:
        return stands_for(job.admin_comment, unit.key, owner=self._owner)
