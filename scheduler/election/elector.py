"""Takes part in the election of the one process that may write, and keeps the lease while it leads.

A process that loses the lease does not lead again: it ends, and another one starts from nothing.
`run` raises LeaseLostError. That cancels all other parts at once, whatever they are doing, because
they are tasks of one group (`App.run` in `service/app.py`), and the command line exits with status
1 (`commands/every.py`). The rules are in `core/lease.py`; the check before each write is in
`kube/fencing.py` and, for Slurm, in `slurmapi/transport.py`.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import Final, NoReturn, Protocol

import structlog

from scheduler.core.lease import JITTER_FACTOR, Candidate, LeaseRecord, Observed, Timing
from scheduler.kube.errors import Conflict, KubeError, NotFound
from scheduler.kube.recorder import ObjectRef

log = structlog.get_logger(__name__)

# A candidate that waits reads the lease four times in a retry period, so that it takes over within
# a second when the lease is released.
_LOOKS: Final = 4
_LOOK_JITTER: Final = 0.5


class LeaseLostError(Exception):
    """This process may not write any more, since it could not keep the lease."""


class LeaseStore(Protocol):
    """Where the lease is kept."""

    @property
    def ref(self) -> ObjectRef:
        """The Lease object."""

    async def read(self) -> Observed | None:
        """The lease as it is now; None if there is none. Raises KubeError."""

    async def write(self, record: LeaseRecord) -> Observed:
        """Write the lease over the version that was read or written last. Raises Conflict, NotFound
        and other KubeErrors.
        """


class Election(Protocol):
    """The election as the other parts of the process see it."""

    elected: asyncio.Event

    def seconds_left(self) -> float:
        """Seconds for which this process may still write; 0 or less if it may not write."""

    async def run(self) -> None:
        """Take part for ever; end it by cancelling. Raises LeaseLostError."""

    async def release(self) -> None:
        """Let another process lead at once. This process may not write any more."""

    def not_ready(self) -> list[str]:
        """The reasons why this process could not take over; empty if there are none."""

    def role(self) -> str:
        """Who leads, in words; empty if there is nothing to say."""

    def leader_event(self) -> tuple[ObjectRef, str] | None:
        """The object and the text of the Event which says that this process leads; None if there is
        no such Event.
        """


class Alone:
    """No election: this process may write from its start to its end."""

    def __init__(self) -> None:
        self.elected = asyncio.Event()
        self.elected.set()

    def seconds_left(self) -> float:
        """Infinite: no lease can expire."""
        return float("inf")

    async def run(self) -> None:
        """Wait for ever: there is no lease to keep."""
        await asyncio.Event().wait()

    async def release(self) -> None:
        """Do nothing: there is no lease to release."""

    def not_ready(self) -> list[str]:
        """Empty: this process leads from its start."""
        return []

    def role(self) -> str:
        """Empty: there is no other process."""
        return ""

    def leader_event(self) -> None:
        """None: there is no Lease that an Event could be about."""


def awake() -> float:
    """Seconds since the machine booted, including the time for which it was suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Elector:
    """One candidate. `clock` must also run while the machine is suspended."""

    def __init__(
        self,
        store: LeaseStore,
        *,
        identity: str,
        timing: Timing,
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._timing = timing
        self._clock = clock
        self._candidate = Candidate(identity, timing)
        self._current = False
        self._keeping = False
        self._trouble = ""
        self._name = f"{store.ref.namespace}/{store.ref.name}"
        self.elected = asyncio.Event()
        self.identity = identity

    def seconds_left(self) -> float:
        """Seconds for which this process may still write; 0 or less if it may not write."""
        return self._candidate.valid_until - self._clock()

    def seconds_to_try(self) -> float:
        """Seconds for which a request about the lease may be tried: infinite for a candidate, and
        for the leader the time until it has to give up.
        """
        return self._left() if self._keeping else float("inf")

    def not_ready(self) -> list[str]:
        """The reasons why this process could not take over; empty if there are none."""
        return [f"lease {self._name}: {self._trouble}"] if self._trouble else []

    def role(self) -> str:
        """Who leads, in words."""
        if self.elected.is_set():
            return f"leads: {self.identity}"
        return f"stands by, {self._candidate.holder or 'nobody'} leads"

    def leader_event(self) -> tuple[ObjectRef, str]:
        """The Lease, and the message that client-go writes in its Event LeaderElection."""
        return self._store.ref, f"{self.identity} became leader"

    async def run(self) -> None:
        """Wait for the lease, then keep it. Raises LeaseLostError."""
        await self._acquire()
        log.info("leading", lease=self._name, identity=self.identity)
        self.elected.set()
        await self._keep()

    async def release(self) -> None:
        """If this process leads, remove it as the holder of the lease. If that fails, the lease
        expires by itself.
        """
        self._keeping = False
        try:
            async with asyncio.timeout(self._timing.renew / 2):
                await self._released()
        except (KubeError, TimeoutError) as error:
            log.warning("lease not released", lease=self._name, error=_error_text(error))

    async def _released(self) -> None:
        record = self._candidate.release()
        if record is not None and not self._current:  # a renewal may have been cut off
            self._candidate.saw(await self._store.read(), now=self._clock())
            record = self._candidate.release()
        if record is not None:
            await self._store.write(record)
            log.info("lease released", lease=self._name)

    async def _acquire(self) -> None:
        leader = ""
        while not await self._try(self._timing.renew / 2):
            if self._candidate.holder != leader:
                leader = self._candidate.holder
                log.info("standing by", lease=self._name, leader=leader)
            await asyncio.sleep(self._pause())

    def _pause(self) -> float:
        """Seconds until the next try. They are random, so that candidates do not all try at the
        same moment.
        """
        if self._trouble:
            return self._timing.retry * (1.0 + JITTER_FACTOR * random.random())  # noqa: S311
        return self._timing.retry / _LOOKS * (1.0 + _LOOK_JITTER * random.random())  # noqa: S311

    async def _keep(self) -> NoReturn:
        self._keeping = True
        while True:
            await asyncio.sleep(max(min(self._timing.retry, self._left()), 0.0))
            left = self._left()
            if left <= 0:
                raise LeaseLostError(self._lost())
            await self._try(min(self._timing.renew / 2, left))

    def _left(self) -> float:
        return self._candidate.renew_by - self._clock()

    def _lost(self) -> str:
        if self._candidate.holder not in {"", self.identity}:
            return f"lease {self._name} is held by {self._candidate.holder} now"
        why = f": {self._trouble}" if self._trouble else ""
        return f"lease {self._name} could not be renewed for {self._timing.renew:g} s{why}"

    async def _try(self, seconds: float) -> bool:
        """Ask for the lease, or renew it. Returns whether this process holds it now."""
        try:
            async with asyncio.timeout(seconds):
                ours = await self._attempt()
        except (KubeError, TimeoutError) as error:
            if not self._trouble:
                log.warning("lease not reached", lease=self._name, error=_error_text(error))
            self._trouble = _error_text(error)
            return False
        self._trouble = ""
        return ours

    async def _attempt(self) -> bool:
        if self._current:
            try:
                return await self._write()
            except (Conflict, NotFound):
                pass  # somebody has changed or deleted it
        self._candidate.saw(await self._store.read(), now=self._clock())
        return await self._write()

    async def _write(self) -> bool:
        self._current = False
        asked_at = self._clock()
        record = self._candidate.claim(now=asked_at)
        if record is None:
            return False
        try:
            written = await self._store.write(record)
        except Conflict:
            if self.elected.is_set():
                raise
            return False  # another candidate was quicker
        self._candidate.won(written, asked_at=asked_at)
        self._current = True
        return True


def _error_text(error: BaseException) -> str:
    return str(error) or "no answer in time"
