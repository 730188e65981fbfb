"""Leader election by client-go's rules, as pure data: what one process knows of the lease, and what
it may conclude. No await, no clock. Times are seconds of the caller's own clock, which must also
count while the machine sleeps. Clocks of two processes are never compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_NEVER: Final = float("-inf")
# client-go's value: the renew deadline must leave time for one more try.
JITTER_FACTOR: Final = 1.2
# A share of the lease, reserved for requests on their way and for two clocks that run at different
# speeds.
_MARGIN: Final = 0.1
# As client-go does, a holder that releases the lease leaves it with no holder and one second.
_RELEASED_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds: how long others respect the lease, after how long without a renewal its holder gives
    up, and the pause between two tries.
    """

    lease: float
    renew: float
    retry: float

    @property
    def valid(self) -> float:
        """For how many seconds after a renewal was requested its holder may write."""
        return self.lease * (1.0 - _MARGIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """The content of the lease. If `holder` is "", nobody holds it. Its times are left out, because
    they come from another process's clock.
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
    """One process's view. The caller reports what it reads with `saw`, asks `claim` what it may
    write, and reports a successful write with `won`.
    """

    def __init__(self, identity: str, timing: Timing) -> None:
        self.identity = identity
        self._timing = timing
        self._seen: Observed | None = None
        self._others_until = _NEVER
        self.valid_until = _NEVER
        """Until when this process may write: nobody else can have the lease before then."""
        self.renew_by = _NEVER
        """When this process must give up, unless it renews the lease before."""

    @property
    def holder(self) -> str:
        """Who held the lease when it was last seen; "" if nobody did."""
        return "" if self._seen is None else self._seen.record.holder

    def saw(self, observed: Observed | None, *, now: float) -> None:
        """Note the lease as it was read at `now` or a little before; None if there is none.

        The time of another's lease starts when this process first sees a new version of it, which
        is never before its holder requested it. A deleted lease still counts as its holder's until
        its time is over, as does one that somebody has edited, whose holder may write until then.
        """
        known, self._seen = self._seen, observed
        if observed is None:
            return
        record = observed.record
        was_ours = known is not None and known.record.holder == self.identity
        if record.holder == self.identity or (not record.holder and (was_ours or _is_free(record))):
            self._others_until = _NEVER
        elif known is None or known.version != observed.version:
            self._others_until = now + max(record.seconds, self._timing.lease)
        if record.holder != self.identity:
            self.valid_until = self.renew_by = _NEVER

    def claim(self, *, now: float) -> LeaseRecord | None:
        """The record to write over the version seen last, or as a new object if there was none.
        None while another process may hold the lease.
        """
        if now < self._others_until:
            return None
        before = None if self._seen is None else self._seen.record
        changes = before is not None and before.holder != self.identity
        transitions = 0 if before is None else before.transitions + changes
        seconds = self._timing.lease
        return LeaseRecord(holder=self.identity, seconds=seconds, transitions=transitions)

    def won(self, observed: Observed, *, asked_at: float) -> None:
        """Note that our record was written. `asked_at` is a time before its request was sent."""
        self._seen, self._others_until = observed, _NEVER
        self.valid_until = asked_at + self._timing.valid
        self.renew_by = asked_at + self._timing.renew

    def release(self) -> LeaseRecord | None:
        """The record to write so that another process can lead at once; None if the lease is not
        ours. From now on this process may not write.
        """
        self.valid_until = self.renew_by = _NEVER
        if self._seen is None or self.holder != self.identity:
            return None
        transitions = self._seen.record.transitions
        return LeaseRecord(holder="", seconds=_RELEASED_SECONDS, transitions=transitions)


def _is_free(record: LeaseRecord) -> bool:
    """Whether its last holder has released it, or it never had one. Otherwise somebody has taken
    the holder out.
    """
    return record.seconds <= _RELEASED_SECONDS
