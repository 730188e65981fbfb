from __future__ import annotations

from typing import Final

from scheduler.core.refused_request import NEVER, Pauses, RefusedRequest

_PAUSES: Final = Pauses(30.0, 100.0)


def _again(
    former: RefusedRequest[str], request: str | None, *, share: float = 1.0
) -> RefusedRequest[str]:
    return former.again(request, _PAUSES, now=1000.0, share=share, why="no")


def test_pause_doubles_while_the_same_is_refused_up_to_the_longest() -> None:
    refused: RefusedRequest[str] = NEVER
    waits = []
    for _ in range(4):
        refused = _again(refused, "a")
        waits.append(refused.until - 1000.0)
    assert waits == [30.0, 60.0, 100.0, 100.0]
    assert (refused.request, refused.count, refused.why) == ("a", 4, "no")


def test_another_request_begins_the_count_anew() -> None:
    refused = _again(_again(NEVER, "a"), "b")
    assert (refused.request, refused.count, refused.until) == ("b", 1, 1030.0)


def test_share_of_the_pause_is_waited() -> None:
    assert _again(NEVER, "a", share=0.75).until == 1022.5


def test_pause_for_any_request_keeps_count_and_end() -> None:
    refused = _again(_again(NEVER, "a"), "a").whatever()
    assert (refused.request, refused.count, refused.until) == (None, 2, 1060.0)
    assert _again(refused, None).count == 3
    assert _again(refused, "a").count == 1
    assert refused.whatever(until=7.0).until == 7.0


def test_forgiven_refusal_is_forgotten_once_its_pause_is_over() -> None:
    refused = _again(_again(NEVER, "a"), "a").forgiven()
    assert refused.until == 1060.0
    assert _again(refused, "a").count == 1
