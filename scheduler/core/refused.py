"""What a server has refused to do for a unit, and how long until it is asked again.

Nothing of it outlives the process: a next one asks once more, at the price of one request.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Generic, NamedTuple, TypeVar

from scheduler.core.backoff import doubled

_T = TypeVar("_T")


class Pauses(NamedTuple):
    """Seconds between two tries: the first pause, which doubles with each refusal, up to the
    longest.
    """

    first: float
    longest: float

    def after(self, count: int) -> float:
        """The pause that follows so many refusals in a row."""
        return doubled(self.first, count - 1, longest_seconds=self.longest)


@dataclass(frozen=True, slots=True)
class Refused(Generic[_T]):
    """`request` is what was refused last, None where nothing was, or where no edit of it can help.
    `count` is how many refusals came in a row, `until` when the pause is over by the loop's clock,
    and `why` the server's words, where they are told again later.
    """

    request: _T | None = None
    count: int = 0
    until: float = 0.0
    why: str = ""

    def again(
        self, request: _T | None, pauses: Pauses, *, now: float, share: float = 1.0, why: str = ""
    ) -> Refused[_T]:
        """One refusal more: another request than the last one begins the count anew. `share` of the
        pause is waited, so that units which were refused together part.
        """
        count = 1 + (self.count if request == self.request else 0)
        return Refused(request, count, now + share * pauses.after(count), why)

    def whatever(self, *, until: float | None = None) -> Refused[_T]:
        """The same for any request: no edit shortens the pause, which may have another end."""
        return replace(self, request=None, until=self.until if until is None else until)

    def forgiven(self) -> Refused[_T]:
        """The next refusal is a first one; a pause that has begun still holds."""
        return replace(self, count=0)


NEVER: Final[Refused[Any]] = Refused()
"""Nothing was refused, or what was asked last has been taken."""
