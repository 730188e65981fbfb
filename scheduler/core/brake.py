"""The brake (I7): when too many pods would end by weak evidence, each waits for a later look.

What may be one mistake of Slurm's (lost nodes, an old state that came back) is not to end a site's
work in one pass. Only weak evidence comes here (`core.evidence`): what is strong is neither counted
nor slowed. Nothing is decided about a single pod: its own evidence is for `decide` to judge, before
the pause and anew after it.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

# A pod that is held is asked about again so often; one that is not has ended, or is to stay.
ASK_SECONDS: Final = 5.0
_UNASKED_SECONDS: Final = 30.0
# What is past is forgotten so often, lest ten thousand pods be gone through for each of them.
_FORGET_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrakeLimits:
    """More than `minimum` pods, and more than `share` of all, within `window_seconds` are held for
    `pause_seconds` each. A share of 1 never brakes.
    """

    share: float = 0.25
    minimum: int = 10
    window_seconds: float = 60.0
    pause_seconds: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The pods at one moment, by uid. `all` could be ended by Slurm; `doomed`, a part of them, are
    about to be, by weak evidence of the last pulse; `boot` tells one start of Slurm's controller
    from another.
    """

    all: AbstractSet[str]
    doomed: AbstractSet[str]
    boot: int | None = None


@dataclass(frozen=True, slots=True)
class Go:
    """The pod may be ended."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Not yet: ask again after so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class LookAgain:
    """The pause is over: what was seen before does not count, ask with a look that is newer."""


Answer = Go | Hold | LookAgain


@dataclass(slots=True)
class _Held:
    since: float
    boot: int | None
    asked_at: float


@dataclass(slots=True)
class Brake:
    """One kind of pods, those that run or those that wait. Times are seconds of one clock."""

    limits: BrakeLimits
    _held: dict[str, _Held] = field(default_factory=dict)
    _ended: dict[str, float] = field(default_factory=dict)
    """Let go of without a pause, and when."""
    _confirmed: dict[str, float] = field(default_factory=dict)
    """Let go of after it: these do not count again."""
    _forgot_at: float = float("-inf")

    def ask(self, uid: str, scene: Scene, *, seen_at: float, now: float) -> Answer:
        """Whether the pod may be ended, by evidence that was seen then."""
        self._forget(now)
        if uid in self._ended or uid in self._confirmed:
            return Go()
        held = self._held.get(uid)
        if held is None and not self._too_many(uid, scene, now):
            self._ended[uid] = now
            return Go()
        if held is None:
            held = self._held[uid] = _Held(now, scene.boot, now)
        if None not in {held.boot, scene.boot} and held.boot != scene.boot:
            held.since = now  # another start of the controller: the look is to be later than that
        held.boot = scene.boot or held.boot
        held.asked_at = now
        return self._confirm(uid, held, seen_at=seen_at, now=now)

    def let_go(self, uid: str) -> None:
        """The pod goes after all, by better evidence: it is not held, and does not count."""
        self._held.pop(uid, None)

    def counted(self, now: float) -> int:
        """How many pods are held, or have gone without a pause within the window."""
        self._forget(now)
        return len(self._held) + len(self._ended)

    def held(self, now: float) -> int:
        """How many pods are held."""
        self._forget(now)
        return len(self._held)

    def _confirm(self, uid: str, held: _Held, *, seen_at: float, now: float) -> Answer:
        over_at = held.since + self.limits.pause_seconds
        if now < over_at:
            return Hold(min(over_at - now, ASK_SECONDS))
        if seen_at < over_at:
            return LookAgain()
        del self._held[uid]
        self._confirmed[uid] = now
        return Go()

    def _too_many(self, uid: str, scene: Scene, now: float) -> bool:
        if self._exceeds(len(self._held), len(scene.all)):
            return True
        recent = {it for it, at in self._ended.items() if now - at <= self.limits.window_seconds}
        ending = (recent | self._held.keys() | scene.doomed | {uid}) - self._confirmed.keys()
        return self._exceeds(len(ending), len(scene.all | ending))

    def _exceeds(self, ending: int, among: int) -> bool:
        return ending > self.limits.minimum and ending > self.limits.share * among

    def _forget(self, now: float) -> None:
        if now - self._forgot_at < _FORGET_SECONDS:
            return
        self._forgot_at = now
        unasked = [it for it, held in self._held.items() if now - held.asked_at > _UNASKED_SECONDS]
        for uid in unasked:
            del self._held[uid]
        oldest = now - self.limits.window_seconds
        for record in (self._ended, self._confirmed):
            for uid in [it for it, at in record.items() if at < oldest]:
                del record[uid]
