"""The slow tiers look for their tests where these are."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.tier_folders import FOLDERS, TESTS, pytest_collection_modifyitems

MAKEFILE = (TESTS.parent / "Makefile").read_text("utf-8")


@pytest.mark.parametrize("tier", FOLDERS)
def test_makefile_names_the_same_folders(tier: str) -> None:
    (named,) = re.findall(rf"^test-{tier}: TESTS \?= (.+)$", MAKEFILE, re.MULTILINE)
    assert named.split() == [f"tests/{it}" for it in FOLDERS[tier]]


def test_test_that_a_tier_would_not_find_is_refused() -> None:
    def item(path: str) -> Any:
        return SimpleNamespace(
            path=TESTS / path,
            nodeid=path,
            get_closest_marker=lambda name: name if name == "live" else None,
        )

    pytest_collection_modifyitems([item("stories/test_it.py"), item("unit/page/test_it.py")])
    with pytest.raises(pytest.UsageError, match=r"unit/test_it\.py is marked live: put it into"):
        pytest_collection_modifyitems([item("unit/test_it.py")])
