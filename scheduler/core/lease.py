"""Who leads, by client-go's rules, as data: what one process knows of the lease, and what it may
conclude. No await, no clock: times are seconds of the caller's own clock, which must also count
while the machine sleeps. Clocks of two processes are never compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_NEVER: Final = float("-inf")
# client-go's: after waiting for the renew deadline another try must still be possible.
JITTER_FACTOR: Final = 1.2
# Of the lease; for what is on its way, and for two clocks of which one runs fast.
_MARGIN: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds: how long others leave the lease alone, after how long without a renewal its holder
    gives up, and the pause between two tries.
    """

    lease: float
    renew: float
    retry: float

    @property
    def valid(self) -> float:
        """How long after a renewal was asked for its holder may write."""
        return self.lease * (1.0 - _MARGIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """What stands in the lease; nobody holds it where `holder` is empty. Times are not in it: they
    are of another's clock.
    """

    holder: str
    seconds: float
    transitions: int


@dataclass(frozen=True, slots=True)
class Observed:
    """A record, and the version of the object it was read from."""

    record: LeaseRecord
    version: str


class Candidate:
    """One process' view. What it sees goes into `saw`; `claim` says what it may write; that it was
    written goes into `won`.
    """

    def __init__(self, identity: str, timing: Timing) -> None:
        self.identity = identity
        self._timing = timing
        self._seen: Observed | None = None
        self._others_until = _NEVER
        self.valid_until = _NEVER
        """Until when this process may write: nobody else can have the lease before."""
        self.renew_by = _NEVER
        """When it has to give up, if it has not renewed the lease before."""

    @property
    def holder(self) -> str:
        """Who held the lease when it was last seen; empty where nobody did."""
        return "" if self._seen is None else self._seen.record.holder

    def saw(self, observed: Observed | None, *, now: float) -> None:
        """The lease as it was read at `now` or a little before; None where there is none.

        The time of another's lease begins when a new version of it is first seen here, which is
        never before its holder asked for it. A lease that was deleted is the holder's all the same.
        """
        known, self._seen = self._seen, observed
        if observed is None:
            return
        record = observed.record
        if record.holder in {"", self.identity}:
            self._others_until = _NEVER
        elif known is None or known.version != observed.version:
            self._others_until = now + (record.seconds or self._timing.lease)
        if record.holder != self.identity:
            self.valid_until = self.renew_by = _NEVER

    def claim(self, *, now: float) -> LeaseRecord | None:
        """What to write over the version seen last (or anew, where there was none); None while the
        lease may be another's.
        """
        if now < self._others_until:
            return None
        before = None if self._seen is None else self._seen.record
        changes = before is not None and before.holder != self.identity
        transitions = 0 if before is None else before.transitions + changes
        seconds = self._timing.lease
        return LeaseRecord(holder=self.identity, seconds=seconds, transitions=transitions)

    def won(self, observed: Observed, *, asked_at: float) -> None:
        """Our own record was written; `asked_at` is from before its request was sent."""
        self._seen, self._others_until = observed, _NEVER
        self.valid_until = asked_at + self._timing.valid
        self.renew_by = asked_at + self._timing.renew

    def release(self) -> LeaseRecord | None:
        """What to write so that another may lead at once; None where the lease is not ours. From
        now on this process may not.
        """
        self.valid_until = self.renew_by = _NEVER
        if self._seen is None or self.holder != self.identity:
            return None
        # client-go's words for it: a second, and nobody
        return LeaseRecord(holder="", seconds=1.0, transitions=self._seen.record.transitions)
