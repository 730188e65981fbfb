"""Where the tests of the slow tiers are: the Makefile names the same folders.

Without names, each of a tier's workers would import all tests to choose a few of them: 6 s of the
processor instead of 2. A test that lies elsewhere would never run, so its collection is an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parents[1]
FOLDERS: Final[Mapping[str, Sequence[str]]] = {
    "live": ("admission", "contract", "deploy", "rigs", "stories", "unit/page"),
    "sweep": ("crash", "faults"),
}
"""The folders of each tier, by the marker of its tests."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a test of a slow tier that lies where the tier does not look."""
    for item in items:
        for tier, folders in FOLDERS.items():
            if item.get_closest_marker(tier) is None or TESTS not in item.path.parents:
                continue
            if not any(item.path.is_relative_to(TESTS / it) for it in folders):
                raise pytest.UsageError(
                    f"{item.nodeid} is marked {tier}: put it into one of {', '.join(folders)}, or "
                    "its folder into tests/support/tier_folders.py and the Makefile"
                )
