"""One reading of each pod is kept, of so many pods, and nothing of a version that has gone."""

from __future__ import annotations

import weakref
from dataclasses import dataclass

from scheduler.facts.readings import MOST_READINGS, Readings


@dataclass(frozen=True)
class Key:
    """Such as the texts that a pod's author has written."""

    text: str


@dataclass(frozen=True)
class Spec:
    key: Key
    other_kind: bool = False

    def takes(self, _reading: str) -> bool:
        return not self.other_kind


class Counted:
    """Reads, and counts how often."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, spec: Spec) -> str:
        self.times += 1
        return spec.key.text.upper()


def spec(text: str = "a") -> Spec:
    return Spec(Key(text))


def test_what_has_not_changed_is_read_once():
    read = Counted()
    readings = Readings[Spec, str](read)
    assert [readings.of("uid", spec()) for _ in range(3)] == ["A"] * 3
    assert read.times == 1
    assert readings.of("uid", spec("b")) == "B"
    assert read.times == 2


def test_reading_of_another_kind_is_not_taken_though_the_key_is_the_same():
    read = Counted()
    readings = Readings[Spec, str](read)
    readings.of("uid", spec())
    readings.of("uid", Spec(Key("a"), other_kind=True))
    assert read.times == 2
    readings.of("uid", spec())
    assert read.times == 2


def test_of_more_pods_than_are_kept_those_asked_about_last_are():
    read = Counted()
    readings = Readings[Spec, str](read)
    for uid in (*range(MOST_READINGS), 0, "one more"):
        readings.of(str(uid), spec())
    assert (len(readings), read.times) == (MOST_READINGS, MOST_READINGS + 1)
    readings.of("0", spec())
    assert read.times == MOST_READINGS + 1, "it was asked about after the second"
    readings.of("1", spec())
    assert (len(readings), read.times) == (MOST_READINGS, MOST_READINGS + 2)


def test_edits_without_end_keep_one_reading():
    readings = Readings[Spec, str](Counted())
    for number in range(1000):
        readings.of("uid", spec(str(number)))
    assert len(readings) == 1


def test_texts_of_an_older_version_are_let_go_though_they_read_the_same():
    readings = Readings[Spec, str](Counted())
    older = spec()
    kept = weakref.ref(older.key)
    readings.of("uid", older)
    readings.of("uid", spec())
    del older
    assert kept() is None


def test_nothing_is_kept_of_a_pod_that_is_gone():
    readings = Readings[Spec, str](Counted())
    readings.of("uid", spec())
    readings.forget("uid")
    readings.forget("unknown")
    assert len(readings) == 0
