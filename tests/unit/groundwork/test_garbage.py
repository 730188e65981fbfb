"""Full collections of garbage stay short, and what is set aside is not lost.

Each test has a process of its own, because what it sets aside would stay so for other tests.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap

_BEGIN = """
import gc, sys, weakref
from groundwork import garbage

class Thing:
    pass

def circle():
    thing = Thing()
    thing.itself = thing
    return thing

def whole_collections():
    return gc.get_stats()[2]["collections"]

def many(number):  # each of 20 blocks and more
    return [[[f"{it} {part}"] for part in range(10)] for it in range(number)]

garbage.MORE_BLOCKS = 1000
objects = 0
tender = garbage.GarbageTender(lambda: objects)
"""


def _runs(code: str) -> None:
    script = _BEGIN + textwrap.dedent(code)
    command = (sys.executable, "-c", script)
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_full_collection_does_not_look_at_what_has_survived() -> None:
    _runs("""
        kept = [[number] for number in range(500)]
        tender.tend()
        assert len(gc.get_objects(generation=2)) < 10
        assert gc.get_freeze_count() > 500
    """)


def test_what_is_set_aside_is_freed_with_its_last_reference() -> None:
    _runs("""
        thing = Thing()
        seen = weakref.ref(thing)
        tender.tend()
        del thing
        assert seen() is None
    """)


def test_young_circle_that_nobody_uses_is_freed() -> None:
    _runs("""
        seen = weakref.ref(circle())
        tender.tend()
        assert seen() is None
    """)


def test_circle_that_was_in_use_is_freed_once_much_more_memory_is_used() -> None:
    _runs("""
        held = circle()
        seen = weakref.ref(held)
        tender.tend()
        del held
        gc.collect()
        assert seen() is not None
        kept = [[f"number {number}"] for number in range(sys.getallocatedblocks())]
        tender.tend()
        assert seen() is None
        assert len(gc.get_objects(generation=2)) < 10
    """)


def test_many_objects_of_kubernetes_cause_no_full_collection() -> None:
    """With 30 000 pods it holds the event loop up for half a second."""
    _runs("""
        before = whole_collections()
        kept = []
        for _ in range(20):
            kept.append(many(2000))
            objects += 2000
            tender.tend()
        assert sys.getallocatedblocks() > 500_000
        assert whole_collections() == before
    """)


def test_circles_beside_many_objects_are_freed_in_the_end() -> None:
    _runs("""
        kept, objects = many(1000), 1000
        tender.tend()
        before = whole_collections()
        for _ in range(100):
            lost = [circle() for _ in range(20_000)]
            tender.tend()
            del lost
        assert whole_collections() > before
        assert sys.getallocatedblocks() < 2_000_000
    """)


def test_objects_that_come_and_go_cause_no_full_collection() -> None:
    _runs("""
        before = whole_collections()
        for _ in range(100):
            kept = [[number] for number in range(900)]
            tender.tend()
        assert whole_collections() == before
    """)


def test_requests_under_way_are_not_looked_at_each_time() -> None:
    _runs("""
        before = gc.get_stats()[0]["collections"]
        kept = [[number] for number in range(5000)]
        assert gc.get_stats()[0]["collections"] == before
    """)
