"""Which fields count when values are compared."""

from __future__ import annotations

from msgspec.structs import replace

from groundwork.aside import WithAside


class Order(WithAside, frozen=True):
    ASIDE = frozenset({"remark"})

    what: str
    count: int
    remark: str = ""


class Cancellation(Order, frozen=True):
    pass


ORDER = Order("rope", 2, "by noon")


def test_field_aside_does_not_count():
    assert replace(ORDER, remark="at once") == ORDER
    assert not replace(ORDER, remark="at once") != ORDER  # noqa: SIM202 - asks another method
    assert len({ORDER, replace(ORDER, remark="at once")}) == 1


def test_all_other_fields_count():
    assert replace(ORDER, count=3) != ORDER
    assert replace(ORDER, what="cord") != ORDER
    assert len({ORDER, replace(ORDER, count=3), replace(ORDER, what="cord")}) == 3


def test_value_of_another_class_is_another():
    assert Cancellation("rope", 2, "by noon") != ORDER
    assert ORDER != ("rope", 2)
