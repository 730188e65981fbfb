"""In which order Events are written, and which of too many are dropped."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.kube.event_order import EventOrder

Order = EventOrder[str, int]
NAMESPACES = st.sampled_from(["a", "b", "c"])


def put(order: Order, key: str, *, important: bool = False) -> None:
    """The key is "namespace/object/what"."""
    namespace, uid, _ = key.split("/")
    order.put(key, 0, namespace=namespace, uid=f"{namespace}/{uid}", important=important)


def next_of(order: Order) -> tuple[str, int]:
    found = order.pop()
    assert found is not None
    return found


def all_of(order: Order) -> list[str]:
    return [next_of(order)[0] for _ in range(len(order))]


def test_one_namespace_waits_for_one_event_of_another() -> None:
    order = Order()
    for number in range(1000):
        put(order, f"crowd/{number}/x")
    put(order, "calm/p/x")
    assert all_of(order).index("calm/p/x") == 1


def test_one_object_waits_for_one_event_of_another() -> None:
    order = Order()
    for number in range(25):
        put(order, f"ns/loud/{number}")
    put(order, "ns/calm/x")
    assert all_of(order).index("ns/calm/x") == 1


def test_events_of_one_object_keep_their_order() -> None:
    order = Order()
    for key in ("ns/p/1", "ns/q/1", "ns/p/2", "ns/p/3"):
        put(order, key)
    assert [key for key in all_of(order) if key.startswith("ns/p")] == [
        "ns/p/1",
        "ns/p/2",
        "ns/p/3",
    ]


def test_important_ones_come_first() -> None:
    order = Order()
    put(order, "ns/p/1")
    put(order, "ns/q/end", important=True)
    assert all_of(order) == ["ns/q/end", "ns/p/1"]


def test_fullest_namespace_loses_its_oldest_and_nothing_important() -> None:
    order = Order()
    for number in range(5):
        put(order, f"crowd/p/{number}")
    put(order, "calm/p/1")
    put(order, "crowd/p/end", important=True)
    assert [order.drop()[0] for _ in range(3)] == ["crowd/p/0", "crowd/p/1", "crowd/p/2"]
    assert "calm/p/1" in order
    assert "crowd/p/end" in order


@given(st.lists(st.tuples(NAMESPACES, st.integers(0, 3), st.booleans()), max_size=60), st.data())
def test_nothing_is_lost_or_doubled(
    given_keys: list[tuple[str, int, bool]], data: st.DataObject
) -> None:
    order = Order()
    left = set()
    for number, (namespace, uid, important) in enumerate(given_keys):
        key = f"{namespace}/{uid}/{number}"
        put(order, key, important=important)
        left.add(key)
        if data.draw(st.booleans()):
            key, _ = next_of(order) if data.draw(st.booleans()) else order.drop()
            left.remove(key)
    assert sorted(all_of(order)) == sorted(left)
    assert order.pop() is None
    with pytest.raises(LookupError):
        order.drop()


def test_namespace_that_may_not_be_served_is_passed_over() -> None:
    order = Order()
    put(order, "bad/p/end", important=True)
    put(order, "good/p/x")
    assert order.pop(lambda namespace: namespace != "bad") == ("good/p/x", 0)
    assert order.pop(lambda namespace: namespace != "bad") is None
    assert order.pop() == ("bad/p/end", 0)
