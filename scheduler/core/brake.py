"""The brake (I7): if too many pods would be ended on weak evidence, each waits for a later look.

A single mistake of Slurm (lost nodes, or an old state that came back) must not end a site's work in
one pass. The brake sees only weak evidence; strong evidence is neither counted nor delayed. The
brake does not judge a single pod's evidence: `decide` does that, before the pause and again after
it. The pods of a gang end with one job, and so they are one case. This module has the rule alone.
Others that take part:

* `evidence.py`: which evidence is weak, and for how long after a restart of slurmctld
* `execute/ending_brake.py`: counts the cases, asks this rule, reports what it holds
* `execute/evict.py`: asks the brake before it ends a pod; nothing else does
* `slurm/slurmctld.py`: when slurmctld may have restarted
* `config/settings.py`: the limits (`brake_share` and the fields after it)
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

# The caller asks about a held pod this often. If it stops asking, the pod has ended or stays.
ASK_SECONDS: Final = 5.0
_UNASKED_SECONDS: Final = 30.0
# Old entries are dropped only this often; otherwise ten thousand pods would cause ten thousand
# searches.
_FORGET_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrakeLimits:
    """If more than `minimum` cases and more than `share` of all would end within `window_seconds`,
    each is held for `pause_seconds`. A share of 1 never holds any. The process passes the settings
    `brake_share` and those after it; their defaults are in `config/settings.py`.
    """

    share: float = 0.25
    minimum: int = 10
    window_seconds: float = 60.0
    pause_seconds: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The cases at one moment: each is a pod, or all pods of a gang. `all` are those that Slurm
    could end. `doomed` are those among them that are about to be ended on weak evidence from the
    last pulse. `boot` distinguishes one start of slurmctld from another.
    """

    all: AbstractSet[str]
    doomed: AbstractSet[str]
    boot: int | None = None


@dataclass(frozen=True, slots=True)
class Go:
    """It may be ended."""


@dataclass(frozen=True, slots=True)
class Hold:
    """It may not be ended yet: ask again after this many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class LookAgain:
    """The pause is over. Ask again with a newer look; what was seen before does not count."""


BrakeAnswer = Go | Hold | LookAgain


@dataclass(slots=True)
class _Held:
    since: float
    boot: int | None
    asked_at: float


@dataclass(slots=True)
class Brake:
    """The brake for one kind of pods: those that run, or those that wait. A case has a name. Times
    are seconds of one clock.
    """

    limits: BrakeLimits
    _held: dict[str, _Held] = field(default_factory=dict)
    _ended: dict[str, float] = field(default_factory=dict)
    """When the brake allowed cases to be ended without a pause."""
    _confirmed: dict[str, float] = field(default_factory=dict)
    """When the brake allowed cases to be ended after a pause, or on better evidence. They do not
    count again.
    """
    _forgot_at: float = float("-inf")

    def ask(self, case: str, scene: Scene, *, seen_at: float, now: float) -> BrakeAnswer:
        """Whether this case may be ended on evidence that was read at `seen_at`."""
        self._forget(now)
        if case in self._ended or case in self._confirmed:
            return Go()
        held = self._held.get(case)
        if held is None and not self._too_many(case, scene, now):
            self._ended[case] = now
            return Go()
        if held is None:
            held = self._held[case] = _Held(now, scene.boot, now)
        if None not in {held.boot, scene.boot} and held.boot != scene.boot:
            held.since = now  # slurmctld has restarted: the look must be later than that
        held.boot = scene.boot or held.boot
        held.asked_at = now
        return self._confirm(case, held, seen_at=seen_at, now=now)

    def let_go(self, case: str) -> None:
        """Stop holding a case of which a pod is ended on strong evidence. It does not count. Its
        other pods, if their evidence is weak, have to ask again.
        """
        self._held.pop(case, None)

    def confirm(self, case: str, now: float) -> None:
        """Let a case go because there is better evidence about one of its pods: the others need not
        have it too, so `ask` says Go for each of them. It does not count.
        """
        self._held.pop(case, None)
        self._confirmed[case] = now

    def counted(self, now: float) -> int:
        """How many cases are held, or were ended without a pause within the window."""
        self._forget(now)
        return len(self._held) + len(self._ended)

    def held(self, now: float) -> int:
        """How many cases are held."""
        self._forget(now)
        return len(self._held)

    def _confirm(self, case: str, held: _Held, *, seen_at: float, now: float) -> BrakeAnswer:
        over_at = held.since + self.limits.pause_seconds
        if now < over_at:
            return Hold(min(over_at - now, ASK_SECONDS))
        if seen_at < over_at:
            return LookAgain()
        del self._held[case]
        self._confirmed[case] = now
        return Go()

    def _too_many(self, case: str, scene: Scene, now: float) -> bool:
        if self._exceeds(len(self._held), len(scene.all)):
            return True
        recent = {it for it, at in self._ended.items() if now - at <= self.limits.window_seconds}
        ending = (recent | self._held.keys() | scene.doomed | {case}) - self._confirmed.keys()
        # A copy of all cases would take 1.2 ms with 50 000 pods, each time.
        among = len(scene.all) + sum(it not in scene.all for it in ending)
        return self._exceeds(len(ending), among)

    def _exceeds(self, ending: int, among: int) -> bool:
        return ending > self.limits.minimum and ending > self.limits.share * among

    def _forget(self, now: float) -> None:
        if now - self._forgot_at < _FORGET_SECONDS:
            return
        self._forgot_at = now
        unasked = [it for it, held in self._held.items() if now - held.asked_at > _UNASKED_SECONDS]
        for case in unasked:
            del self._held[case]
        oldest = now - self.limits.window_seconds
        for record in (self._ended, self._confirmed):
            for case in [it for it, at in record.items() if at < oldest]:
                del record[case]
