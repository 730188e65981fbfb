"""What a server has refused to do for a unit, and when the request is repeated.

None of this outlives the process: the next process asks once more, which costs one request. How
long the pauses are: for submits `execute/setback.py`, for other requests constants beside them
(`backoff.py` lists the modules).
"""

from __future__ import annotations

from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from scheduler.core.backoff import doubled

_T = TypeVar("_T")


class Pauses(NamedTuple):
    """Seconds between two tries: the first pause doubles with each refusal, up to the longest."""

    first: float
    longest: float

    def after(self, count: int) -> float:
        """The pause after this many refusals in a row."""
        return doubled(self.first, count - 1, longest_seconds=self.longest)


class RefusedRequest(msgspec.Struct, Generic[_T], frozen=True):
    """`request` is what was refused last; None if nothing was, or if no edit of it can help.
    `count` is the number of refusals in a row, `until` the end of the pause by the loop's clock,
    and `why` the server's words if they are shown again later.
    """

    request: _T | None = None
    count: int = 0
    until: float = 0.0
    why: str = ""

    def again(
        self, request: _T | None, pauses: Pauses, *, now: float, share: float = 1.0, why: str = ""
    ) -> RefusedRequest[_T]:
        """Count one more refusal. If the request differs from the last one, the count starts again.
        Only `share` of the pause is waited, so that units that were refused together do not come
        back together.
        """
        count = 1 + (self.count if request == self.request else 0)
        return RefusedRequest(request, count, now + share * pauses.after(count), why)

    def whatever(self, *, until: float | None = None) -> RefusedRequest[_T]:
        """The same, but for any request: no edit shortens the pause, and `again` with None goes on
        counting. `until` sets another end of the pause.
        """
        return replace(self, request=None, until=self.until if until is None else until)

    def forgiven(self) -> RefusedRequest[_T]:
        """Reset the count; a pause that has begun still holds."""
        return replace(self, count=0)


NEVER: Final[RefusedRequest[Any]] = RefusedRequest()
"""Nothing was refused, or the last request was accepted."""
