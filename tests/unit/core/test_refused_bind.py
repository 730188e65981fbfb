"""How long an allocation is kept whose binding is refused, and when it is tried again."""

from __future__ import annotations

from typing import Final

from scheduler.core.refused_bind import ALLOCATION_KEPT_SECONDS, RefusedBind

NOW: Final = 1000.0


def refused(*times: float, job_id: int = 1) -> RefusedBind:
    """After refusals at these times of `NOW`."""
    found = None
    for seconds in times:
        found = RefusedBind.after(found, job_id=job_id, why="no", now=NOW + seconds)
    assert found is not None
    return found


def test_pauses_between_tries_grow_to_half_a_minute():
    tries, at = [], 0.0
    found = refused(0.0)
    for _ in range(6):
        at = found.again_at - NOW
        tries.append(at)
        found = RefusedBind.after(found, job_id=1, why="no", now=NOW + at)
    assert tries == [2, 6, 14, 30, 60, 90]


def test_bindings_of_a_gang_that_are_refused_together_count_once():
    together = [number / 100 for number in range(16)]
    assert refused(*together) == refused(0.0)
    assert refused(*together, 2.0, 2.1).again_at == NOW + 6


def test_job_is_kept_for_a_minute_from_the_first_refusal():
    found = refused(0.0, 2.0, 6.0)
    assert not found.is_over(1, NOW + ALLOCATION_KEPT_SECONDS - 0.1)
    assert found.is_over(1, NOW + ALLOCATION_KEPT_SECONDS)


def test_last_try_of_a_job_is_not_waited_for_beyond_its_minute():
    found = refused(0.0, 2.0, 6.0, 14.0, 30.0, 59.0)
    assert found.again_at == NOW + 89
    assert found.wait(1, NOW + 59, kept=False) == 1.0


def test_tries_of_a_job_that_is_kept_for_another_pod_go_on_with_the_same_pauses():
    found = refused(0.0, 2.0, 6.0, 14.0, 30.0, 59.0)
    assert found.wait(1, NOW + 59, kept=True) == 30.0
    assert found.wait(1, NOW + 100, kept=True) == 0.0


def test_each_new_job_is_tried_once_however_long_it_has_been_so():
    found = refused(0.0, 2.0)
    assert found.wait(1, NOW + 2, kept=False) == 4.0
    assert found.wait(2, NOW + 2, kept=False) == 0.0
    assert not found.is_over(2, NOW + 10 * ALLOCATION_KEPT_SECONDS)
    again = RefusedBind.after(found, job_id=2, why="no", now=NOW + 100)
    assert again.is_over(2, NOW + 100), "and given back at once, where that is refused as well"
