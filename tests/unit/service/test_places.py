"""Who gets a place where there are few."""

from __future__ import annotations

import pytest

from scheduler.listen.listener import FACE, HOOKS, HOOKS_TLS
from scheduler.listen.places import STRANGER_KEPT_SECONDS, Capacity, ConnectionPlaces, block_of


class Guest:
    def __init__(self, hall: Hall, address: str) -> None:
        self.address = address
        self.was_cut = False
        self._hall = hall

    def cut(self) -> None:
        self.was_cut = True
        self._hall.places.leave(self)


class Hall:
    """The places of a listener, and guests that come to them."""

    def __init__(self, *, connections: int = 12, strangers: int = 8) -> None:
        self.now = 0.0
        self.places = ConnectionPlaces(Capacity(connections, strangers), clock=lambda: self.now)

    def comes(self, address: str) -> Guest | None:
        guest = Guest(self, address)
        return guest if self.places.enter(guest) else None

    def come(self, address: str, count: int) -> list[Guest]:
        return [it for it in (self.comes(address) for _ in range(count)) if it is not None]


def test_one_address_has_at_most_half():
    hall = Hall()
    assert len(hall.come("a", 100)) == 4
    assert hall.places.refused == 96
    assert hall.comes("b") is not None


def test_stranger_that_had_its_time_makes_room_for_its_own_address():
    hall = Hall()
    first, *others = hall.come("a", 4)
    hall.now += STRANGER_KEPT_SECONDS
    assert hall.comes("a") is not None
    assert first.was_cut
    assert not any(it.was_cut for it in others)
    assert len(hall.places) == 4


def test_address_that_holds_most_makes_room_for_another_at_once():
    hall = Hall()
    many = hall.come("a", 4) + hall.come("b", 3) + hall.come("c", 1)
    assert hall.comes("d") is not None
    assert [it for it in many if it.was_cut] == [many[0]]


def test_as_many_addresses_as_places_wait_for_each_other():
    hall = Hall()
    guests = [guest for n in range(8) for guest in hall.come(f"a{n}", 1)]
    assert len(guests) == 8
    assert hall.comes("new") is None
    hall.now += STRANGER_KEPT_SECONDS
    assert hall.comes("new") is not None
    assert sum(it.was_cut for it in guests) == 1


def test_known_callers_are_never_cut_and_leave_places_of_strangers():
    hall = Hall()
    known: list[Guest] = []
    for _ in range(10):
        guest = hall.comes("a")
        assert guest is not None
        hall.places.know(guest)
        known.append(guest)
    hall.come("a", 50)
    hall.now += STRANGER_KEPT_SECONDS
    hall.come("b", 50)
    assert not any(it.was_cut for it in known)
    assert len(hall.places) <= 12


def test_places_come_free_and_nothing_is_remembered():
    hall = Hall()
    for _ in range(3):
        for guest in hall.come("a", 4) + hall.come("b", 4):
            hall.places.leave(guest)
            hall.places.leave(guest)
            hall.places.know(guest)
    assert len(hall.places) == 0
    assert not hall.places._strangers


@pytest.mark.parametrize(
    ("host", "block"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:1", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("no address", "no address"),
    ],
)
def test_address_stands_for_its_caller(host, block):
    assert block_of(host) == block


@pytest.mark.parametrize(("descriptors", "within"), [(65_536, (1536, 256)), (1024, (256, 128))])
def test_listeners_leave_file_descriptors_for_the_rest(descriptors, within):
    capacity = Capacity(1536, 256).within(descriptors)
    assert (capacity.connections, capacity.strangers) == within


def test_listeners_have_all_their_places_from_8192_file_descriptors_on():
    assert [it.within(8192) == it for it in (HOOKS, HOOKS_TLS, FACE)] == [True] * 3
    assert HOOKS.within(8191) != HOOKS
