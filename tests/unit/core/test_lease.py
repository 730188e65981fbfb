"""The rules of the election: never two at once, whatever clocks and messages do."""

from __future__ import annotations

import dataclasses
import heapq
import random
from collections.abc import Callable, Generator, Iterator
from itertools import count

import pytest

from scheduler.core.lease import Candidate, LeaseRecord, Observed, Timing

TIMING = Timing(lease=15, renew=10, retry=2)
OTHER = LeaseRecord(holder="other", seconds=15, transitions=3)


def test_free_lease_is_claimed_with_the_next_number_of_transitions():
    me = Candidate("me", TIMING)
    assert me.claim(now=0) == LeaseRecord(holder="me", seconds=15, transitions=0)
    me.saw(Observed(LeaseRecord(holder="", seconds=1, transitions=3), "7"), now=0)
    assert me.claim(now=0) == LeaseRecord(holder="me", seconds=15, transitions=4)


def test_renewal_is_no_transition():
    me = Candidate("me", TIMING)
    me.won(Observed(LeaseRecord(holder="me", seconds=15, transitions=4), "7"), asked_at=0)
    assert me.claim(now=1) == LeaseRecord(holder="me", seconds=15, transitions=4)


def test_anothers_lease_is_left_alone_from_when_it_was_first_seen():
    me = Candidate("me", TIMING)
    me.saw(Observed(OTHER, "7"), now=100)
    me.saw(Observed(OTHER, "7"), now=110)
    assert me.claim(now=114.9) is None
    me.saw(Observed(OTHER, "8"), now=114.9)
    assert me.claim(now=129.8) is None
    assert me.claim(now=130) == LeaseRecord(holder="me", seconds=15, transitions=4)


def test_holders_own_duration_counts():
    me = Candidate("me", TIMING)
    me.saw(Observed(dataclasses.replace(OTHER, seconds=60), "7"), now=0)
    assert me.claim(now=59) is None
    me.saw(Observed(dataclasses.replace(OTHER, seconds=0), "8"), now=60)
    assert me.claim(now=74) is None, "one that says nothing is taken to have ours"


def test_deleted_lease_is_its_holders_all_the_same():
    me = Candidate("me", TIMING)
    me.saw(Observed(OTHER, "7"), now=0)
    me.saw(None, now=1)
    assert me.claim(now=14.9) is None
    assert me.claim(now=15) == LeaseRecord(holder="me", seconds=15, transitions=0)


def test_may_write_until_a_tenth_before_the_end_counted_from_the_question():
    me = Candidate("me", TIMING)
    me.won(Observed(LeaseRecord(holder="me", seconds=15, transitions=0), "7"), asked_at=100)
    assert me.valid_until == 113.5
    assert me.renew_by == 110


def test_may_not_write_once_another_was_seen():
    me = Candidate("me", TIMING)
    me.won(Observed(LeaseRecord(holder="me", seconds=15, transitions=0), "7"), asked_at=100)
    me.saw(Observed(OTHER, "8"), now=101)
    assert me.valid_until < 101
    assert me.claim(now=102) is None
    assert me.release() is None, "it is not ours to release"


def test_released_lease_is_nobodys_and_ours_no_more():
    me, other = Candidate("me", TIMING), Candidate("other", TIMING)
    me.won(Observed(LeaseRecord(holder="me", seconds=15, transitions=2), "7"), asked_at=100)
    record = me.release()
    assert record == LeaseRecord(holder="", seconds=1, transitions=2)
    assert me.valid_until < 100
    other.saw(Observed(record, "8"), now=100)
    assert other.claim(now=100) == LeaseRecord(holder="other", seconds=15, transitions=3)


class World:
    """One lease and several processes in virtual time. Each process has a clock of its own that
    runs fast or slow; requests arrive late, even when nobody waits for them any more, get lost
    before or after they arrived, and are answered late; a process may stand still at any point.
    """

    def __init__(self, seed: int, *, processes: int = 3) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.stored: Observed | None = None
        self.rates = [self.random.uniform(0.97, 1.03) for _ in range(processes)]
        self.candidates = [Candidate(f"c{number}-0", TIMING) for number in range(processes)]
        self.reigns = 0
        self._order = count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        for number in range(processes):
            self._go_on(self._process(number))

    def play(self, *, hours: float) -> None:
        while self.now < hours * 3600:
            self.now, _, event = heapq.heappop(self._events)
            event()

    def _after(self, seconds: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + seconds, next(self._order), event))

    def _go_on(self, process: Iterator[float]) -> None:
        self._after(next(process), lambda: self._go_on(process))

    def _clock(self, number: int) -> float:
        return 1e6 * number + self.now * self.rates[number]

    def _on_its_way(self) -> float:
        usual = self.random.random() < 0.9
        return self.random.uniform(0.001, 0.1) if usual else self.random.uniform(0, 20)

    def _standstill(self) -> float:
        return self.random.uniform(0, 30) if self.random.random() < 0.02 else 0.0

    def _process(self, number: int) -> Iterator[float]:
        """As the elector goes about it: over what it knows, else look first."""
        for life in count():
            candidate = self.candidates[number] = Candidate(f"c{number}-{life}", TIMING)
            known: Observed | None = None
            led = current = False
            while not led or candidate.renew_by > self._clock(number):
                if not current:
                    found = yield from self._asked(None, known)
                    if not isinstance(found, str):
                        known = found
                        candidate.saw(known, now=self._clock(number))
                asked_at = self._clock(number)
                record, current = candidate.claim(now=asked_at), False
                yield self._standstill()
                if record is not None:
                    found = yield from self._asked(record, known)
                    if isinstance(found, Observed):
                        known, current, led = found, True, True
                        candidate.won(known, asked_at=asked_at)
                        self._one_writes()
                yield self.random.uniform(0.5, 2.0) + self._standstill()
                if led and self.random.random() < 0.01:  # an ordinary end
                    yield from self._asked(candidate.release(), known)
                    break

    def _asked(
        self, record: LeaseRecord | None, over: Observed | None
    ) -> Generator[float, None, Observed | str | None]:
        """What came of one request within five seconds: what is stored, or why it is not known."""
        answers: list[Observed | str | None] = []

        def arrive() -> None:
            version = None if self.stored is None else self.stored.version
            known = None if over is None else over.version
            if record is not None and known != version:
                answers.append("conflict")
                return
            if record is not None:
                self.stored = Observed(record, str(int(version or 0) + 1))
            answers.append(self.stored)

        forth, back = self._on_its_way(), self._on_its_way()
        if self.random.random() > 0.05:
            self._after(forth, arrive)
        lost = forth + back > 5 or self.random.random() < 0.05
        yield 5.0 if lost else forth + back
        return "lost" if lost or not answers else answers[0]

    def _one_writes(self) -> None:
        self.reigns += 1
        writing = [
            candidate.identity
            for number, candidate in enumerate(self.candidates)
            if candidate.valid_until > self._clock(number)
        ]
        assert len(writing) <= 1, (self.now, writing)


@pytest.mark.parametrize("seed", range(6))
def test_never_two_may_write(seed: int) -> None:
    world = World(seed)
    world.play(hours=10)
    assert world.reigns > 500, "and mostly one may"
