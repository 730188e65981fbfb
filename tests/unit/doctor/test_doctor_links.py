"""Wherever a remedy leads, there is something."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCES = sorted((ROOT / "scheduler/doctor").glob("*.py"))
PLACES = sorted(
    {
        found
        for path in SOURCES
        for found in re.findall(r"\b((?:docs|deploy)/[\w./-]+(?:#[\w-]+)?)", path.read_text())
    }
)


@pytest.mark.parametrize("place", PLACES)
def test_place_that_a_remedy_names_exists(place: str) -> None:
    path, _, anchor = place.rstrip(".").partition("#")
    assert (ROOT / path).exists()
    if anchor:
        headings = re.findall(r"^#+ (.+)$", (ROOT / path).read_text(), re.MULTILINE)
        slugs = {re.sub(r"[^\w -]", "", it).lower().replace(" ", "-") for it in headings}
        assert anchor in slugs
