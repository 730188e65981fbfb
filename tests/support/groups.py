"""A pytest plugin: tests of one `xdist_group` run in one worker, also where pytest-xdist and pytest
do not understand each other.

pytest-xdist 3.8 appends the group to the attribute `_nodeid`, which pytest 9.2 no longer reads
(pytest-dev/pytest-xdist#1386): without a word, each test then goes to any worker, and each worker
starts servers that one of them should have. This can go with the first pytest-xdist that says the
group in another way.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from _pytest.nodeid import NodeId


# Before all other wrappers: its second half comes when pytest-xdist has written.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Give each test the id that pytest-xdist has written for it, if any."""
    yield
    for item in items:
        with_group = getattr(item, "_nodeid", item.nodeid)
        if with_group != item.nodeid:
            item._id = NodeId.parse(with_group)
