"""What is said on a PodGroup about its gang, and what was said last. Pure.

`group_words.py` decides what there is to say, and `group_status.py` how the API says it. Each word
costs at most two requests for each of MOST_WORD_TRIES tries (`execute/group_status.py`). The first
word of each kind about the gang's present job is due at once. Every other word is due after a
pause, and the pause doubles each time. So for each Slurm job, at most five words are said at once,
nine more in the first hour, and then one an hour.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum, unique
from typing import Final

from scheduler.core.refused_request import Pauses

MOST_WORD_TRIES: Final = 3
"""How often a word is tried if the API server does not answer as it should."""
_AGAIN: Final = Pauses(10.0, 3600.0)
_RETRY: Final = Pauses(5.0, 60.0)


@unique
class GroupStanding(StrEnum):
    """How far the gang has come, in this order. It begins anew if its pods wait again."""

    WAITS = "waits"
    """Its pods wait for Nodes."""
    PLACED = "placed"
    """As many pods as must start together have a Node, or have succeeded."""
    RUNS = "runs"
    """That many run, or have succeeded."""
    SUCCEEDED = "succeeded"
    """That many have succeeded, and its job is needed no more."""
    FAILED = "failed"
    """Its job is needed no more, and a pod of it has failed."""


_ORDER: Final = tuple(GroupStanding)


@dataclass(frozen=True, slots=True)
class GroupWord:
    """What there is to say. `job_id` is the gang's job, 0 without one. `cause` is why it waits, in
    one word: if only the message changes, nothing is said anew.
    """

    standing: GroupStanding
    job_id: int = 0
    cause: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSaid:
    """What was said of one gang, and when. With `by_phase` the API has a phase, which says no more
    than the standing; otherwise a condition, which is settled when the gang has been placed once.
    """

    by_phase: bool
    word: GroupWord | None = None
    said: frozenset[GroupStanding] = frozenset()
    """Of the job of `word`."""
    repeats: int = 0
    """How many words were of a kind that was said before, of the same job."""
    at: float = 0.0
    tries: int = 0
    """How often the next word has failed. Before `until` it is not tried again."""
    until: float = 0.0
    others: bool = False
    """Whether somebody else writes the status, so that nothing is said any more."""

    def due(self, word: GroupWord) -> float | None:
        """When this word is to be said; None if it is not."""
        if self.others or self._settled(word):
            return None
        if self.word is None or self.word.job_id != word.job_id or word.standing not in self.said:
            return self.until
        return max(self.until, self.at + _AGAIN.after(self.repeats + 1))

    def _settled(self, word: GroupWord) -> bool:
        """Whether what was said last holds, or may not be taken back."""
        last = self.word
        if not self.by_phase and word.standing not in {GroupStanding.WAITS, GroupStanding.PLACED}:
            return True
        if last is None:
            return False
        if not self.by_phase:
            return last.standing is GroupStanding.PLACED or (
                word.standing is GroupStanding.WAITS and word.cause == last.cause
            )
        if word.standing is GroupStanding.WAITS:
            return last.standing is GroupStanding.WAITS
        same_job = word.job_id == last.job_id
        return same_job and _ORDER.index(word.standing) <= _ORDER.index(last.standing)

    def after(self, word: GroupWord, *, now: float) -> GroupSaid:
        """The word is said, or is not to be tried again."""
        same_job = self.word is not None and self.word.job_id == word.job_id
        said = self.said if same_job else frozenset()
        repeats = (self.repeats if same_job else 0) + (word.standing in said)
        return replace(
            self,
            word=word,
            said=said | {word.standing},
            repeats=repeats,
            at=now,
            tries=0,
            until=0.0,
        )

    def failed(self, word: GroupWord, *, now: float) -> GroupSaid:
        """The word could not be said. After MOST_WORD_TRIES tries it is given up."""
        tries = self.tries + 1
        if tries >= MOST_WORD_TRIES:
            return self.after(word, now=now)
        return replace(self, tries=tries, until=now + _RETRY.after(tries))
